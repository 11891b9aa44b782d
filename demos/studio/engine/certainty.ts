// Tries the usual scalings of pixels on some samples: the right one makes a classifier right, or at least clear.

import { type Preparation, possibleScalings, withScaling } from '../bring/preparation.js';
import type { Samples } from '../bring/samples.js';

import { engine, held } from './engine.js';
import { isScores } from './task.js';

const TRIED = 12;

interface Trial {
  settings: Preparation;
  name: string;
  right: number;
  /** Mean distance of the first class to the second. */
  clear: number;
}

/** The scores before the softmax, up to a number that is the same for all of them. */
function logits(values: Float32Array): Float32Array {
  const sum = values.reduce((a, b) => a + b, 0);
  const areShares = values.every((value) => value >= 0 && value <= 1) && Math.abs(sum - 1) < 0.05;
  return areShares ? values.map((value) => Math.log(Math.max(value, 1e-30))) : values;
}

/**
 * How far the first class is before the second, in standard deviations of all scores. The softmax would not do:
 * larger pixels make larger scores, and a network that sees nonsense is then the most certain one.
 */
function clarity(scores: Float32Array): number {
  const mean = scores.reduce((a, b) => a + b, 0) / scores.length;
  const power = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length;
  const [first, second] = [...scores].sort((a, b) => b - a);
  return power === 0 ? 0 : (first! - second!) / Math.sqrt(power);
}

/**
 * The settings with the scaling that suits the samples best, and why; the given ones if the network scores no
 * classes, or if there is no choice.
 */
export async function chooseScaling(given: Samples, settings: Preparation): Promise<Preparation> {
  const choices = possibleScalings(settings);
  if (!held.float || given.kind !== 'pictures' || choices.length < 2) return settings;
  const worker = await engine();
  const session = await worker.createSession(held.float);
  try {
    const count = Math.min(TRIED, given.count);
    const offset = given.calibration ?? 0;
    const room = given.count - offset;
    const indices = Array.from(
      { length: Math.min(count, room) },
      (_, at) => offset + Math.floor((at * room) / count),
    );
    const trials: Trial[] = [];
    for (const { id, name } of choices) {
      const trial = { settings: withScaling(settings, id), name, right: 0, clear: 0 };
      for (const index of indices) {
        const outputs = await session.run(await given.feeds(index, trial.settings));
        const first = outputs[session.outputNames[0]!]!;
        if (!isScores(first) || first.size < 2) return settings;
        const scores = logits(first.toFloat32());
        const most = scores.indexOf(Math.max(...scores));
        trial.clear += clarity(scores) / indices.length;
        const label = given.labels?.[index] ?? -1;
        if (label === most) trial.right += 1;
      }
      trials.push(trial);
    }
    // Labels of folders need not be the network's classes, so few right answers mean nothing.
    const known = Math.max(...trials.map(({ right }) => right)) > indices.length / 2;
    // Right answers first; among as many of them the clearer ones.
    const value = ({ right, clear }: Trial) => (known ? 1000 * right + clear : clear);
    const best = trials.reduce((a, b) => (value(b) > value(a) ? b : a));
    const reason = known
      ? `Of the usual ways, “${best.name}” gives ${best.right} right answers of ${indices.length}.`
      : `Of the usual ways, “${best.name}” lets the network decide most clearly.`;
    return { ...best.settings, reason };
  } finally {
    await session.dispose();
  }
}

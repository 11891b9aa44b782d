// Asks both networks about samples.

import type { Tensor, WorkerSession } from 'requant';
import type { Samples } from '../bring/samples.js';
import type { Preparation } from '../bring/preparation.js';
import { type Answer, type Score, model, ownTask } from '../state/store.js';
import { Differences } from './differences.js';
import { type Side, boxesOf, hasBoxes, sameBoxes } from './detect.js';
import { held } from './engine.js';
import { type Outputs, type Task, guessTask, isScores, maskOf, nearest, sameMask } from './task.js';

const SHOWN_SCORES = 3;
/** Answers that are shown. */
const MOST_ANSWERS = 48;
/** Bytes of the float network's outputs that are kept for later comparisons. */
const MOST_KEPT = 256e6;

/** Shares of classes: the numbers themselves if they are shares already, or else their softmax. */
export function shares(values: ArrayLike<number>): number[] {
  const list = Array.from(values);
  if (list.length === 1) return [1 - list[0]!, list[0]!];
  const sum = list.reduce((a, b) => a + b, 0);
  if (list.every((value) => value >= 0 && value <= 1) && Math.abs(sum - 1) < 0.05) return list;
  const most = list.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = list.map((value) => Math.exp(value - most));
  const whole = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / whole);
}

function best(tensor: Tensor): Score[] {
  if (!isScores(tensor)) return [];
  return shares(tensor.toFloat32())
    .map((score, index) => ({ index, score }))
    .sort((a, b) => b.score - a.score)
    .slice(0, SHOWN_SCORES);
}

/** Signal to noise ratio in dB; null where there is no difference. */
export function snrOf(signal: ArrayLike<number>, other: ArrayLike<number>): number | null {
  let power = 0;
  let noise = 0;
  for (let at = 0; at < signal.length; at++) {
    power += signal[at]! ** 2;
    noise += (signal[at]! - other[at]!) ** 2;
  }
  return noise === 0 ? null : 10 * Math.log10(power / noise);
}

/** The float network's outputs for a sample, which are kept: they stay the same when the quantization changes. */
async function floatOutputsOf(
  index: number,
  samples: Samples,
  preparation: Preparation | undefined,
): Promise<Outputs> {
  let kept = held.floatOutputs;
  if (kept?.samples !== samples || kept.preparation !== preparation) {
    kept = { samples, preparation, bySample: new Map(), bytes: 0 };
    held.floatOutputs = kept;
  }
  const known = kept.bySample.get(index);
  if (known) return known;
  const outputs = await held.floatSession!.run(await samples.feeds(index, preparation));
  const bytes = Object.values(outputs).reduce(
    (sum, { data }) => sum + (Array.isArray(data) ? 8 * data.length : data.byteLength),
    0,
  );
  if (kept.bytes + bytes < MOST_KEPT) {
    kept.bySample.set(index, outputs);
    kept.bytes += bytes;
  }
  return outputs;
}

/** Numbers are alike from this ratio on. */
const ALIKE = { boxes: 0.999, masks: 0.9, neighbours: 0.999 } as const;
const NEIGHBOURS = 3;

/** The part of an answer that the task says. */
function inTerms(task: Task, float: Outputs, quantized: Outputs, side: Side): Partial<Answer> {
  if (task === 'boxes') {
    const boxes = [boxesOf(float, side), boxesOf(quantized, side)] as const;
    const likeness = sameBoxes(...boxes);
    return { boxes, likeness, differs: likeness < ALIKE.boxes };
  }
  if (task === 'masks') {
    const masks = [maskOf(float), maskOf(quantized)] as const;
    const likeness = sameMask(...masks);
    return { masks, likeness, differs: likeness < ALIKE.masks };
  }
  if (task !== 'classes') return {};
  const [first, second] = [float, quantized].map((one) => best(Object.values(one)[0]!));
  return {
    float: first!,
    quantized: second!,
    differs: first!.length > 0 && first![0]!.index !== second![0]!.index,
  };
}

/** Adds to answers which other samples are nearest, by the first output. */
function addNeighbours(answers: Answer[], vectors: readonly (readonly Float32Array[])[]): void {
  const [float, quantized] = vectors.map((list) => nearest(list, NEIGHBOURS));
  const samples = answers.map(({ sample }) => sample);
  answers.forEach((answer, index) => {
    const [own, other] = [float![index]!, quantized![index]!];
    const common = own.filter((one) => other.includes(one)).length;
    answer.near = [own.map((at) => samples[at]!), other.map((at) => samples[at]!)];
    answer.likeness = own.length === 0 ? 1 : common / own.length;
    answer.differs = own[0] !== other[0];
  });
}

export interface Asked {
  task: Task;
  answers: Answer[];
  likeness: number | undefined;
  differences: ReturnType<Differences['result']>;
}

/** Runs both networks on samples. Answers that differ come first. */
export async function askBoth(
  session: WorkerSession,
  indices: readonly number[],
  samples: Samples,
  preparation: Preparation | undefined,
  report: (done: number) => void,
  signal: AbortSignal,
): Promise<Asked> {
  const answers: Answer[] = [];
  const differences = new Differences();
  const vectors: [Float32Array[], Float32Array[]] = [[], []];
  const { width, height } = preparation ?? { width: 1, height: 1 };
  const side = { width, height };
  let task = ownTask.value;
  for (const index of indices) {
    signal.throwIfAborted();
    const float = await floatOutputsOf(index, samples, preparation);
    const feeds = await samples.feeds(index, preparation);
    const quantized = await session.run(feeds, { signal });
    const label = samples.labels?.[index] ?? -1;
    const known = label >= 0 ? { label } : {};
    differences.add(float, quantized, samples.nameOf(index), known.label);
    const boxes = samples.kind === 'pictures' && hasBoxes(float, side);
    task ??= guessTask(float, model.value!.info, boxes);
    const [first, second] = [float, quantized].map((one) => Object.values(one)[0]!.toFloat32());
    if (task === 'neighbours') {
      vectors[0].push(first!);
      vectors[1].push(second!);
    }
    answers.push({
      sample: index,
      float: [],
      quantized: [],
      differs: false,
      snr: snrOf(first!, second!),
      ...inTerms(task, float, quantized, side),
      ...known,
    });
    report(answers.length);
  }
  if (task === 'neighbours') addNeighbours(answers, vectors);
  const likenesses = answers.flatMap(({ likeness }) => likeness ?? []);
  const sum = likenesses.reduce((a, b) => a + b, 0);
  const order = ({ likeness = 1, snr }: Answer) => 1000 * likeness + Math.min(500, snr ?? 500);
  answers.sort((a, b) => Number(b.differs) - Number(a.differs) || order(a) - order(b));
  return {
    task: task!,
    answers: answers.slice(0, MOST_ANSWERS),
    likeness: likenesses.length > 0 ? sum / likenesses.length : undefined,
    differences: differences.result(),
  };
}

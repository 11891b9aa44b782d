// Asks both networks about samples.

import type { Tensor, WorkerSession } from 'requant';
import type { Samples } from '../bring/samples.js';
import type { Preparation } from '../bring/preparation.js';
import type { Answer, Score } from '../state/store.js';
import { Differences } from './differences.js';
import { held } from './engine.js';

type Outputs = Record<string, Tensor>;

const SHOWN_SCORES = 3;
/** Answers that are shown. */
const MOST_ANSWERS = 48;
/** Bytes of the float network's outputs that are kept for later comparisons. */
const MOST_KEPT = 256e6;

/** Whether a tensor scores classes: one row of numbers. */
export function isScores({ dims, size }: Pick<Tensor, 'dims' | 'size'>): boolean {
  return size >= 2 && size <= 50_000 && dims.filter((dim) => dim > 1).length === 1;
}

/** Shares of classes: the numbers themselves if they are shares already, or else their softmax. */
export function shares(values: ArrayLike<number>): number[] {
  const list = Array.from(values);
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
  const bytes = Object.values(outputs).reduce((sum, { data }) => sum + data.byteLength, 0);
  if (kept.bytes + bytes < MOST_KEPT) {
    kept.bySample.set(index, outputs);
    kept.bytes += bytes;
  }
  return outputs;
}

/** Runs both networks on samples. Answers that differ come first. */
export async function askBoth(
  session: WorkerSession,
  indices: readonly number[],
  samples: Samples,
  preparation: Preparation | undefined,
  report: (done: number) => void,
  signal: AbortSignal,
): Promise<{ answers: Answer[]; differences: ReturnType<Differences['result']> }> {
  const answers: Answer[] = [];
  const differences = new Differences();
  const [name] = held.floatSession!.outputNames;
  for (const index of indices) {
    signal.throwIfAborted();
    const float = await floatOutputsOf(index, samples, preparation);
    const feeds = await samples.feeds(index, preparation);
    const quantized = await session.run(feeds, { signal });
    const label = samples.labels?.[index] ?? -1;
    const known = label >= 0 ? { label } : {};
    differences.add(float, quantized, samples.nameOf(index), known.label);
    const [first, second] = [float[name!]!, quantized[name!]!];
    const [own, other] = [best(first), best(second)];
    answers.push({
      sample: index,
      float: own,
      quantized: other,
      differs: own.length > 0 && own[0]!.index !== other[0]!.index,
      snr: snrOf(first.toFloat32(), second.toFloat32()),
      ...known,
    });
    report(answers.length);
  }
  const noise = ({ snr }: Answer) => snr ?? Infinity;
  answers.sort((a, b) => Number(b.differs) - Number(a.differs) || noise(a) - noise(b));
  return { answers: answers.slice(0, MOST_ANSWERS), differences: differences.result() };
}

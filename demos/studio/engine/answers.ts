// Asks both networks about samples.

import type { Tensor, WorkerSession } from 'requant';
import type { Samples } from '../bring/samples.js';
import type { Preparation } from '../bring/preparation.js';
import type { Answer, Score } from '../state/store.js';

const SHOWN_SCORES = 3;

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

/** Runs both networks on samples. */
export async function answersOf(
  sessions: { float: WorkerSession; quantized: WorkerSession },
  indices: readonly number[],
  samples: Samples,
  preparation: Preparation | undefined,
  report: (done: number) => void,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const [name] = sessions.float.outputNames;
  for (const index of indices) {
    const feeds = await samples.feeds(index, preparation);
    const [float, quantized] = await Promise.all([
      sessions.float.run(feeds),
      sessions.quantized.run(feeds),
    ]);
    const first = float[name!]!;
    const second = quantized[name!] ?? Object.values(quantized)[0]!;
    const [own, other] = [best(first), best(second)];
    const label = samples.labels?.[index] ?? -1;
    answers.push({
      sample: index,
      float: own,
      quantized: other,
      differs: own.length > 0 && own[0]!.index !== other[0]!.index,
      snr: snrOf(first.toFloat32(), second.toFloat32()),
      ...(label >= 0 ? { label } : {}),
    });
    report(answers.length);
  }
  const noise = ({ snr }: Answer) => snr ?? Infinity;
  return answers.sort((a, b) => Number(b.differs) - Number(a.differs) || noise(a) - noise(b));
}

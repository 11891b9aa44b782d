// The numbers that flow through the float network, for one value.

import { divide } from '../bring/samples.js';
import { preparation, samples } from '../state/store.js';
import { engine, held } from './engine.js';

/** Samples whose numbers are counted. */
const SAMPLES = 4;

/** How often numbers lie in equal parts of a range. */
export interface Histogram {
  from: number;
  to: number;
  counts: number[];
  /** The share of the numbers that are outside of a grid, if one was given. */
  outside: number;
}

const PARTS = 64;

/** Counts numbers; `grid` is the least and the greatest real of a grid. */
export function histogramOf(
  lists: readonly Float32Array[],
  grid: readonly [number, number] | undefined,
): Histogram {
  let [from, to] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (value < from) from = value;
      if (value > to) to = value;
    }
  }
  if (!(to > from)) to = from + 1;
  const counts = Array<number>(PARTS).fill(0);
  let [outside, all] = [0, 0];
  // Half a step beyond the last code still rounds to it; rounding errors of floats count as inside.
  const slack = grid ? (grid[1] - grid[0]) / 256 : 0;
  for (const list of lists) {
    all += list.length;
    for (const value of list) {
      const part = Math.min(PARTS - 1, Math.floor(((value - from) / (to - from)) * PARTS));
      counts[part]! += 1;
      if (grid && (value < grid[0] - slack || value > grid[1] + slack)) outside += 1;
    }
  }
  return { from, to, counts, outside: all === 0 ? 0 : outside / all };
}

/** The numbers of a value for the first samples that are compared. Throws what the engine throws for its name. */
export async function numbersOf(value: string): Promise<Float32Array[]> {
  const given = samples.value;
  const { float } = held;
  if (!given || !float) return [];
  const worker = await engine();
  const session = await worker.createSession(float, { taps: [value] });
  try {
    const lists: Float32Array[] = [];
    for (const index of divide(given).test.slice(0, SAMPLES)) {
      const feeds = await given.feeds(index, preparation.value);
      const outputs = await session.run(feeds, [value]);
      lists.push(outputs[value]!.toFloat32());
    }
    return lists;
  } finally {
    await session.dispose();
  }
}

// Measures how long both networks take, operator by operator.

import type { ModelInfo, Tensor, WorkerSession } from 'requant';
import { type Speed, type Times, model, result } from '../state/store.js';
import { runJob } from '../watch/job.js';
import { engine, held } from './engine.js';

type Feeds = Record<string, Tensor>;

const RUNS = 12;
/** Behind so many milliseconds no further run begins. */
const LONGEST = 1500;

/** Inputs of zeros with 1 for open dimensions, for networks without samples. */
export async function emptyFeeds({ inputs }: ModelInfo): Promise<Feeds> {
  const { Tensor: Made } = await import('requant');
  return Object.fromEntries(
    inputs.map(({ name, type, dims }) => {
      const shape = dims.map((dim) => (typeof dim === 'number' ? dim : 1));
      const size = shape.reduce((product, dim) => product * dim, 1);
      const wide = type === 'int64' || type === 'uint64';
      const zeros = wide ? Array<bigint>(size).fill(0n) : new Float32Array(size);
      return [
        name,
        new Made(type, wide ? (zeros as bigint[]) : Array.from(zeros as Float32Array), shape),
      ];
    }),
  );
}

async function speedOf(session: WorkerSession, runs: number, former: Times): Promise<Speed> {
  const [profile, plan] = await Promise.all([session.profile(), session.plan()]);
  const nodes: Record<string, { ms: number; kernel: string; op: string }> = {};
  let total = 0;
  for (const { name, milliseconds, kernel, op } of profile) {
    // The first run is slower than all others: it is not counted.
    const ms = Math.max(0, milliseconds - (former[name]?.ms ?? 0)) / runs;
    nodes[name] = { ms, kernel, op };
    total += ms;
  }
  const threads = Math.max(1, ...(plan?.steps ?? []).map((step) => step.threads));
  return { total, nodes, threads };
}

async function timesSoFar(session: WorkerSession): Promise<Times> {
  const profile = await session.profile();
  return Object.fromEntries(
    profile.map(({ name, milliseconds, kernel, op }) => [name, { ms: milliseconds, kernel, op }]),
  );
}

interface Pair<T> {
  float: T;
  quantized: T;
}

/** Runs both sessions in turns, which must have been made with `profile`. */
export async function measure(
  sessions: Pair<WorkerSession>,
  feeds: Feeds,
  signal: AbortSignal,
  report: (done: number, total: number) => void,
): Promise<Pair<Speed>> {
  const both = [sessions.float, sessions.quantized] as const;
  for (const session of both) await session.run(feeds, { signal });
  const [floatBefore, quantizedBefore] = await Promise.all(both.map(timesSoFar));
  const began = performance.now();
  let runs = 0;
  while (runs < RUNS && (runs === 0 || performance.now() - began < LONGEST)) {
    for (const session of both) await session.run(feeds, { signal });
    runs += 1;
    report(runs, RUNS);
  }
  const [float, quantized] = await Promise.all([
    speedOf(sessions.float, runs, floatBefore!),
    speedOf(sessions.quantized, runs, quantizedBefore!),
  ]);
  return { float, quantized };
}

/** Whether this page may use threads. */
export const mayUseThreads = (): boolean =>
  globalThis.crossOriginIsolated && navigator.hardwareConcurrency > 1;

/** Measures both networks again with one thread, or with several ones. */
export async function measureWith(threads: 1 | 'auto', feeds: Feeds): Promise<void> {
  const { quantized, float } = held;
  const now = result.value;
  if (!quantized || !float || !now || !model.value) return;
  const title = threads === 1 ? 'Measuring on one thread' : 'Measuring with threads';
  const phases = [
    { name: 'Loading both networks', weight: 2 },
    { name: 'Running both networks', weight: 3 },
  ];
  const speed = await runJob(title, phases, async (signal, report) => {
    const worker = await engine();
    // Models for one thread and for several live in different engines, so files are loaded once more.
    const integers = 'integerModel' in quantized ? await quantized.integerModel() : quantized;
    const files = await Promise.all([float.toOnnx(), integers.toOnnx()]);
    if (integers !== quantized) await integers.dispose();
    const requantize = 'integerModel' in quantized ? ('fixed' as const) : ('float' as const);
    const [first, second] = await Promise.all([
      worker.createSession(files[0], { profile: true, numThreads: threads, signal }),
      worker.createSession(files[1], { profile: true, numThreads: threads, requantize, signal }),
    ]);
    try {
      return await measure({ float: first, quantized: second }, feeds, signal, (done, total) =>
        report(1, done, total),
      );
    } finally {
      await Promise.all([first.dispose(), second.dispose()]);
    }
  });
  if (speed && result.value === now) result.value = { ...now, speed };
}

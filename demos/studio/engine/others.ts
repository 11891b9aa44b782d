// Measures another engine on the same device, with the same input and the files that a user would take there.

import type { Tensor } from 'requant';
import { type Other, result } from '../state/store.js';
import { runJob } from '../watch/job.js';
import { held } from './engine.js';
import type { OtherRequest } from './ort_worker.js';

const RUNS = 25;
const LONGEST = 2500;
const MOST_THREADS = 4;

/** Milliseconds of a run in a Worker of its own, or why there are none. */
function ask(request: OtherRequest, signal: AbortSignal): Promise<{ ms?: number; error?: string }> {
  const worker = new Worker(new URL('./ort_worker.ts', import.meta.url), { type: 'module' });
  const answer = new Promise<{ ms?: number; error?: string }>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<{ ms?: number; error?: string }>) => resolve(data);
    worker.onerror = ({ message }) => resolve({ error: message || 'it could not be loaded' });
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    worker.postMessage(request);
  });
  return answer.finally(() => worker.terminate());
}

/** Loads onnxruntime-web, and measures both networks in it. */
export async function measureOther(
  threads: 1 | 'auto',
  feeds: Record<string, Tensor>,
): Promise<void> {
  const { float, quantized } = held;
  const now = result.value;
  if (!float || !quantized || !now) return;
  const count = threads === 1 ? 1 : Math.min(MOST_THREADS, navigator.hardwareConcurrency);
  const phases = [
    { name: 'Loading ONNX Runtime Web', weight: 1 },
    { name: 'Running the float network there', weight: 2 },
    { name: 'Running the quantized network there', weight: 2 },
  ];
  const other = await runJob('Measuring ONNX Runtime Web', phases, async (signal, report) => {
    const plain = Object.fromEntries(
      Object.entries(feeds).map(([name, { type, data, dims }]) => [name, { type, data, dims }]),
    );
    const request = { feeds: plain, threads: count, runs: RUNS, longest: LONGEST };
    report(1, 0, 1);
    const first = await ask({ model: await float.toOnnx(), ...request }, signal);
    report(2, 0, 1);
    const second = await ask({ model: await quantized.toOnnx(), ...request }, signal);
    return { threads: count, float: first, quantized: second } satisfies Other;
  });
  if (other && result.value === now) result.value = { ...now, other };
}

// Measures other engines on the same device, with the same input and the files that a user would take there.

import type { Tensor, WorkerModel, WorkerQuantizedModel } from 'requant';
import { type Other, type OtherName, model, result } from '../state/store.js';
import { runJob } from '../watch/job.js';
import { describe } from '../watch/problems.js';
import { held } from './engine.js';
import { transposed } from './axes.js';
import type { OtherAnswer, OtherFeed, OtherRequest } from './other_run.js';

const RUNS = 25;
const LONGEST = 2500;
const MOST_THREADS = 4;

type Feeds = Record<string, Tensor>;
type Network = WorkerModel | WorkerQuantizedModel;
type File = Pick<OtherRequest, 'model' | 'feeds'>;

interface Engine {
  title: string;
  start: () => Worker;
  /** The file of a network for this engine, with its inputs. */
  write: (network: Network, feeds: Feeds) => Promise<File>;
}

const plain = ({ type, data, dims }: Tensor): OtherFeed => ({ type, data, dims });

async function onnxFile(network: Network, feeds: Feeds): Promise<File> {
  const inputs = Object.entries(feeds).map(([name, tensor]) => [name, plain(tensor)] as const);
  return { model: await network.toOnnx(), feeds: Object.fromEntries(inputs) };
}

async function tfliteFile(network: Network, feeds: Feeds): Promise<File> {
  const { name: file, bytes: own, info } = model.value!;
  if (network === held.float && /\.tflite$/i.test(file)) {
    const inputs = info.inputs.map(({ name }) => [name, plain(feeds[name]!)] as const);
    return { model: new Uint8Array(await own.arrayBuffer()), feeds: Object.fromEntries(inputs) };
  }
  const shapes = Object.fromEntries(Object.entries(feeds).map(([name, { dims }]) => [name, dims]));
  const { bytes, report } = await network.toTflite({ shapes });
  const inputs = report.inputs.map(({ type, dims, axes }, at) => {
    const name = info.inputs[at]!.name;
    return [name, { type, dims, data: transposed(feeds[name]!, axes) }] as const;
  });
  return { model: bytes, feeds: Object.fromEntries(inputs) };
}

const engines: Readonly<Record<OtherName, Engine>> = {
  ort: {
    title: 'ONNX Runtime Web',
    start: () => new Worker(new URL('./ort_worker.ts', import.meta.url), { type: 'module' }),
    write: onnxFile,
  },
  litert: {
    title: 'LiteRT.js',
    start: () => new Worker(new URL('./litert_worker.ts', import.meta.url), { type: 'module' }),
    write: tfliteFile,
  },
};

/** The name of an engine, as the page shows it. */
export const titleOf = (name: OtherName): string => engines[name].title;

/** Milliseconds of a run in a Worker of its own, or why there are none. */
function ask(start: () => Worker, request: OtherRequest, signal: AbortSignal) {
  const worker = start();
  const answer = new Promise<OtherAnswer>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<OtherAnswer>) => resolve(data);
    worker.onerror = ({ message }) => resolve({ error: message || 'it could not be loaded' });
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    worker.postMessage(request);
  });
  return answer.finally(() => worker.terminate());
}

/** Loads another engine, and measures both networks in it. */
export async function measureOther(
  name: OtherName,
  threads: 1 | 'auto',
  feeds: Feeds,
): Promise<void> {
  const { float, quantized } = held;
  const now = result.value;
  if (!float || !quantized || !now) return;
  const { title, start, write } = engines[name];
  const count = threads === 1 ? 1 : Math.min(MOST_THREADS, navigator.hardwareConcurrency);
  const phases = [
    { name: `Running the float network in ${title}`, weight: 1 },
    { name: `Running the quantized network in ${title}`, weight: 1 },
  ];
  const other = await runJob(`Measuring ${title}`, phases, async (signal, report) => {
    const measured = async (network: Network): Promise<OtherAnswer> => {
      let file;
      try {
        file = await write(network, feeds);
      } catch (error) {
        // The engine may have no such operator: the other network is measured all the same.
        return { error: describe(error).text };
      }
      const request = { ...file, threads: count, runs: RUNS, longest: LONGEST };
      return ask(start, request, signal);
    };
    report(0, 0, 1);
    const first = await measured(float);
    report(1, 0, 1);
    return { threads: count, float: first, quantized: await measured(quantized) } satisfies Other;
  });
  if (other && result.value === now)
    result.value = { ...now, others: { ...now.others, [name]: other } };
}

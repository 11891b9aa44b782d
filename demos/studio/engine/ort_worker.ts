// Runs models in onnxruntime-web. The file loads only when the user asks for it.

import * as ort from 'onnxruntime-web/wasm';
import mjsUrl from 'onnxruntime-web/ort-wasm-simd-threaded.mjs?url';
import wasmUrl from 'onnxruntime-web/ort-wasm-simd-threaded.wasm?url';

/** A model to run, and how often. */
export interface OtherRequest {
  model: Uint8Array;
  feeds: Readonly<Record<string, { type: string; data: unknown; dims: readonly number[] }>>;
  threads: number;
  runs: number;
  /** Milliseconds behind which no further run begins. */
  longest: number;
}

const scope = globalThis as unknown as {
  postMessage(message: unknown): void;
  onmessage: (event: MessageEvent<OtherRequest>) => void;
};

async function measured({ model, feeds, threads, runs, longest }: OtherRequest): Promise<number> {
  ort.env.wasm.wasmPaths = { mjs: mjsUrl, wasm: wasmUrl };
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = 'error';
  const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'] });
  const inputs = Object.fromEntries(
    Object.entries(feeds).map(([name, { type, data, dims }]) => [
      name,
      new ort.Tensor(type as 'float32', data as Float32Array, dims),
    ]),
  );
  await session.run(inputs);
  const times: number[] = [];
  const began = performance.now();
  while (times.length < runs && (times.length === 0 || performance.now() - began < longest)) {
    const start = performance.now();
    await session.run(inputs);
    times.push(performance.now() - start);
  }
  await session.release();
  times.sort((a, b) => a - b);
  return times[times.length >> 1]!;
}

scope.onmessage = ({ data }) =>
  void measured(data).then(
    (ms) => scope.postMessage({ ms }),
    (error: Error) => scope.postMessage({ error: error.message }),
  );

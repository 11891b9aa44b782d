// Runs models in onnxruntime-web. The file loads only when the user asks for it.

import * as ort from 'onnxruntime-web/wasm';
import mjsUrl from 'onnxruntime-web/ort-wasm-simd-threaded.mjs?url';
import wasmUrl from 'onnxruntime-web/ort-wasm-simd-threaded.wasm?url';
import { answerRequests } from './other_run.js';

answerRequests(async ({ model, feeds, threads }) => {
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
  return {
    run: async () => void (await session.run(inputs)),
    release: () => session.release(),
  };
});

import * as ort from 'onnxruntime-web/wasm';
import { serve } from './common.js';

const query = new URLSearchParams(location.search);
ort.env.wasm.numThreads = Number(query.get('threads') ?? 1);
ort.env.logLevel = 'error';

serve(async (bytes, options, values, size) => {
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
    ...options,
  });
  const feeds = { input: new ort.Tensor('float32', values, [1, 3, size, size]) };
  return {
    run: async () => (await session.run(feeds)).output.data,
    release: () => session.release(),
  };
});

import { InferenceSession, Tensor, env } from 'requant';
import { serve } from './common.js';

const query = new URLSearchParams(location.search);
if (query.has('simd')) env.wasm.simd = query.get('simd');
if (query.has('threads')) env.wasm.numThreads = Number(query.get('threads'));

serve(async (bytes, options, values, size) => {
  const session = await InferenceSession.create(bytes, options);
  const feeds = { input: new Tensor('float32', values, [1, 3, size, size]) };
  return {
    run: async () => (await session.run(feeds)).output.data,
    release: () => session.release(),
  };
});

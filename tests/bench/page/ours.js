import { InferenceSession, Tensor, env } from 'requant';
import { serve } from './common.js';

const query = new URLSearchParams(location.search);
if (query.has('simd')) env.wasm.simd = query.get('simd');
if (query.has('threads')) env.wasm.numThreads = Number(query.get('threads'));

/** A visitor's plan of the model at this address: made at the first visit, and used from then on. */
async function planOf(address) {
  const cache = await caches.open('plans');
  const known = await cache.match(address);
  if (known) return known;
  const session = await InferenceSession.create(address);
  await cache.put(address, new Response(session.toPlan()));
  return session.toPlan();
}

serve(async (source, options, values, size) => {
  const plan = query.has('visits') ? planOf(source) : undefined;
  const session = await InferenceSession.create(plan ?? source, options);
  const feeds = { input: new Tensor('float32', values, [1, 3, size, size]) };
  return {
    run: async () => (await session.run(feeds)).output.data,
    release: () => session.release(),
  };
});

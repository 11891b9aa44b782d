import { Tensor, loadAndCompile, loadLiteRt } from '@litertjs/core';
import { serve } from './common.js';

const threads = Number(new URLSearchParams(location.search).get('threads') ?? 1);
let engine;

serve(async (bytes, options, values, size) => {
  engine ??= loadLiteRt('/litert/', threads > 1 ? { threads: true } : {});
  await engine;
  const model = await loadAndCompile(bytes, {
    accelerator: 'wasm',
    cpuOptions: { numThreads: threads },
  });
  return {
    async run() {
      const tensor = new Tensor(values, [1, size, size, 3]);
      const outputs = Object.values(await model.run(tensor));
      const numbers = outputs[0].toTypedArray();
      for (const one of [tensor, ...outputs]) one.delete();
      return numbers;
    },
    release: () => model.delete(),
  };
});

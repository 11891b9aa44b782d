// Errors that programs catch, and the fallback from one provider to the next.

import * as ort from 'onnxruntime-web';

const kinds = (error) => ({
  error: error instanceof Error,
  type: error instanceof TypeError,
  text: typeof error.message === 'string' && error.message.length > 0,
});

async function caught(action) {
  try {
    await action();
    return 'nothing';
  } catch (error) {
    return kinds(error);
  }
}

async function sessionFor(model) {
  try {
    return await ort.InferenceSession.create(model, { executionProviders: ['no-such-provider'] });
  } catch (error) {
    if (!/no available backend found/.test(error.message)) throw error;
    return ort.InferenceSession.create(model, { executionProviders: ['wasm'] });
  }
}

export async function main({ matMul }) {
  const session = await sessionFor(matMul);
  const a = new ort.Tensor('float32', new Float32Array(12), [3, 4]);
  const b = new ort.Tensor('float32', new Float32Array(12), [4, 3]);
  const warnings = [];
  const { warn } = console;
  console.warn = (text) => warnings.push(String(text));
  await ort.InferenceSession.create(matMul, { executionProviders: ['absent', 'wasm'] });
  console.warn = warn;
  return {
    works: (await session.run({ a, b })).c.dims,
    warned: warnings.some((text) => text.includes('absent')),
    badType: await caught(() => new ort.Tensor('float33', [1], [1])),
    badData: await caught(() => new ort.Tensor('float32', new Int32Array(1), [1])),
    noTypes: await caught(() => new ort.Tensor([])),
    badDims: await caught(() => new ort.Tensor('float32', [1], ['x'])),
    badSize: (await caught(() => new ort.Tensor('float32', [1], [2]))).error,
    missing: (await caught(() => session.run({ a }))).error,
    badFeeds: await caught(() => session.run(null)),
    badShape: (await caught(() => session.run({ a, b: a }))).error,
    badFetches: await caught(() => session.run({ a, b }, 5)),
    badSource: await caught(() => ort.InferenceSession.create(5)),
    badModel: (await caught(() => ort.InferenceSession.create(new Uint8Array([1, 2, 3])))).error,
    badLevel: (await caught(() => (ort.env.logLevel = 'loud'))).error,
  };
}

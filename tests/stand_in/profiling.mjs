// Profiling, which changes no result.

import * as ort from 'onnxruntime-web';

export async function main({ matMul }) {
  const session = await ort.InferenceSession.create(matMul, { enableProfiling: false });
  session.startProfiling();
  const a = new ort.Tensor('float32', new Float32Array(12).fill(2), [3, 4]);
  const b = new ort.Tensor('float32', new Float32Array(12).fill(3), [4, 3]);
  const { c } = await session.run({ a, b });
  return c.data;
}

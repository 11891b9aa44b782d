// A product of two matrices, as the quick start of ONNX Runtime for the web computes it.

import * as ort from 'onnxruntime-web';

export async function main({ matMul }) {
  const session = await ort.InferenceSession.create(matMul);
  const dataA = Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  const dataB = Float32Array.from([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]);
  const tensorA = new ort.Tensor('float32', dataA, [3, 4]);
  const tensorB = new ort.Tensor('float32', dataB, [4, 3]);
  const feeds = { a: tensorA, b: tensorB };
  const results = await session.run(feeds);
  const { c } = results;
  return { data: c.data, dims: c.dims, type: c.type, size: c.size, location: c.location };
}

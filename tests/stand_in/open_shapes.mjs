// Batches of any size, and symbolic dimensions that are given a size.

import * as ort from 'onnxruntime-web';

const shapes = (metadata) =>
  metadata.map(({ name, isTensor, type, shape }) => ({ name, isTensor, type, shape }));

export async function main({ readModel }) {
  const bytes = await readModel();
  const open = await ort.InferenceSession.create(bytes);
  const sums = [];
  for (const batch of [1, 3, 2]) {
    const image = new ort.Tensor('float32', new Float32Array(784 * batch).fill(0.25), [
      batch,
      1,
      28,
      28,
    ]);
    const { logits } = await open.run({ image });
    sums.push(logits.dims, logits.data);
  }
  const fixed = await ort.InferenceSession.create(bytes, { freeDimensionOverrides: { N: 2 } });
  const pair = new ort.Tensor('float32', new Float32Array(784 * 2), [2, 1, 28, 28]);
  const { logits } = await fixed.run({ image: pair });
  const single = new ort.Tensor('float32', new Float32Array(784), [1, 1, 28, 28]);
  const refused = await fixed.run({ image: single }).then(
    () => false,
    (error) => error instanceof Error,
  );
  return {
    sums,
    fixed: logits.data,
    refused,
    inputs: [open.inputMetadata, fixed.inputMetadata].map(shapes),
    outputs: [open.outputMetadata, fixed.outputMetadata].map(shapes),
  };
}

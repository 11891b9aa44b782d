// The default import, a part of an ArrayBuffer, disabled optimization, softmax of the scores.

import ort from 'onnxruntime-web';

function softmax(values) {
  const most = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

export async function main({ readModel }) {
  const bytes = new Uint8Array(await readModel());
  const buffer = new ArrayBuffer(bytes.length + 24);
  new Uint8Array(buffer).set(bytes, 16);
  const options = { executionProviders: ['wasm'], graphOptimizationLevel: 'disabled' };
  const session = await ort.InferenceSession.create(buffer, 16, bytes.length, options);
  const image = new ort.Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { logits } = await session.run({ image });
  return softmax(Array.from(logits.data));
}

// quantize() computes the products of attention in integers, where these are faster than attention as one
// operator of floats; ONNX Runtime is the judge of the file.

import assert from 'node:assert/strict';
import test from 'node:test';
import { InferenceSession, Tensor, loadModel, parseModel, quantize } from '../../dist/index.js';
import { ortOutputs, outputsOf } from './support.mjs';

const WIDTH = 32;
const HEADS = 2;

const numbers = (count, seed, scale) =>
  Array.from({ length: count }, (_, i) => (Math.sin(i * 12.9898 + seed) * scale).toFixed(4));

/** Self-attention of `tokens` tokens, with a mask for the last two if asked for. */
function attention(tokens, masked) {
  const each = WIDTH / HEADS;
  const product = (name, seed) => `const %w_${name}: float32[${WIDTH}, ${WIDTH}] = {${numbers(
    WIDTH * WIDTH,
    seed,
    0.3,
  )}}
%${name}_flat = MatMul(%x, %w_${name})
%${name}_heads = Reshape(%${name}_flat, %split)
`;
  const hidden = Array.from({ length: tokens }, (_, i) => (i < tokens - 2 ? 0 : '-3.4e38'));
  return `graph "attention" opset 17
input %x: float32[1, ${tokens}, ${WIDTH}]
const %split: int64[4] = {0, 0, ${HEADS}, ${each}}
const %join: int64[3] = {0, 0, ${WIDTH}}
const %by: float32[] = {${1 / Math.sqrt(each)}}
const %mask: float32[1, 1, 1, ${tokens}] = {${hidden}}
const %o: float32[${WIDTH}, ${WIDTH}] = {${numbers(WIDTH * WIDTH, 9, 0.3)}}
${product('q', 1)}${product('k', 2)}${product('v', 3)}%q = Transpose(%q_heads) {perm = [0, 2, 1, 3]}
%k = Transpose(%k_heads) {perm = [0, 2, 3, 1]}
%v = Transpose(%v_heads) {perm = [0, 2, 1, 3]}
%raw = MatMul(%q, %k)
%scaled = Mul(%raw, %by)
%scores = ${masked ? 'Add(%scaled, %mask)' : 'Identity(%scaled)'}
%p = Softmax(%scores) {axis = -1}
%mixed = MatMul(%p, %v)
%back = Transpose(%mixed) {perm = [0, 2, 1, 3]}
%flat = Reshape(%back, %join)
%y = MatMul(%flat, %o)
output %y
`;
}

const sample = (tokens, seed) => ({
  x: new Tensor(
    'float32',
    Float32Array.from({ length: tokens * WIDTH }, (_, i) => Math.sin(i * 78.233 + seed)),
    [1, tokens, WIDTH],
  ),
});

function decibels(reference, candidate) {
  let signal = 0;
  let noise = 0;
  reference.forEach((value, i) => {
    signal += value ** 2;
    noise += (value - candidate[i]) ** 2;
  });
  return 10 * Math.log10(signal / noise);
}

for (const [tokens, masked] of [
  [17, false],
  [33, true],
]) {
  test(`attention of ${tokens} tokens${masked ? ', two of them masked,' : ''} is integer`, async () => {
    const model = await parseModel(attention(tokens, masked));
    const quantized = await quantize(model, {
      calibration: [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => sample(tokens, seed)),
    });
    const session = await InferenceSession.create(quantized);
    const reference = await InferenceSession.create(model);
    const kernels = session.plan().steps.map((step) => step.kernel);
    assert.equal(
      kernels.filter((kernel) => kernel.startsWith('conv_q8')).length,
      6,
      kernels.join(),
    );
    // The scale of the scores is in the weights of the queries.
    assert.doesNotMatch(kernels.join(), /f32_vector|reference|mul/);
    const feeds = [11, 12].map((seed) => sample(tokens, seed));
    const [float, ours] = [await outputsOf(reference, feeds), await outputsOf(session, feeds)];
    const theirs = await ortOutputs(quantized.toOnnx(), feeds);
    for (let i = 0; i < feeds.length; i++) {
      assert.ok(decibels(float[i], ours[i]) > 22, `${decibels(float[i], ours[i])} dB`);
      assert.ok(decibels(theirs[i], ours[i]) > 36, `${decibels(theirs[i], ours[i])} dB`);
    }
    await session.release();
    await reference.release();
    quantized.dispose();
    model.dispose();
  });
}

test('attention that a file has as one operator is written out', async () => {
  const model = await parseModel(attention(40, true));
  model.optimize();
  assert.match(model.toText(), /MultiHeadAttention/);
  const quantized = await quantize(model, { calibration: [1, 2].map((seed) => sample(40, seed)) });
  const session = await InferenceSession.create(quantized);
  const kernels = session.plan().steps.map((step) => step.kernel);
  assert.equal(kernels.filter((kernel) => kernel.startsWith('conv_q8')).length, 6, kernels.join());
  await session.release();
  quantized.dispose();
  model.dispose();
});

test('few queries stay in one operator', async () => {
  const model = await parseModel(attention(8, false));
  const quantized = await quantize(model, { calibration: [sample(8, 1)] });
  const file = await loadModel(quantized.toOnnx());
  assert.match(file.toText(), /MultiHeadAttention/);
  file.dispose();
  quantized.dispose();
  model.dispose();
});

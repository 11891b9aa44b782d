// The session option accuracyLevel: attention and products with blocks of 4 bits in 8 bits, where the model
// notes it or the session asks for it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  loadModel,
  parseModel,
  quantize,
  quantizeDynamic,
  quantizeWeights,
} from 'requant';
import { isError } from './support.mjs';

const WIDTH = 32;
const numbers = (count, seed) =>
  Array.from({ length: count }, (_, i) => (0.3 * Math.sin(seed + i * 12.9898)).toFixed(4));
const weights = (name, seed) =>
  `const %w_${name}: float32[${WIDTH}, ${WIDTH}] = {${numbers(WIDTH * WIDTH, seed)}}\n%${name} = MatMul(%x, %w_${name})\n`;

/** Attention of `tokens` tokens, a number or a symbol, between four products. */
const attention = (tokens) => `graph "attention" opset 17, com.microsoft 1
input %x: float32[1, ${tokens}, ${WIDTH}]
${weights('q', 1)}${weights('k', 2)}${weights('v', 3)}%mixed = com.microsoft::MultiHeadAttention(%q, %k, %v) {num_heads = 2}
const %o: float32[${WIDTH}, ${WIDTH}] = {${numbers(WIDTH * WIDTH, 9)}}
%y = MatMul(%mixed, %o)
output %y
`;

const sample = (tokens, seed = 1) => ({
  x: new Tensor(
    'float32',
    Float32Array.from({ length: tokens * WIDTH }, (_, i) => 2 * Math.sin(i * 78.233 + seed)),
    [1, tokens, WIDTH],
  ),
});

// Without a kernel by name, attention is in bytes only where the machine multiplies them.
const kernels = { conv_q8: 'conv_q8_vector' };

/** The kernel of attention and the output of a session. */
async function runOf(model, feeds, options = {}) {
  const session = await InferenceSession.create(model, { kernels, ...options });
  const { y } = await session.run(feeds);
  const step = session.plan().steps.find(({ op }) => op.includes('Attention'));
  await session.release();
  return { kernel: step?.kernel, data: y.data };
}

function decibels(reference, candidate) {
  let [signal, noise] = [0, 0];
  reference.forEach((value, i) => {
    signal += value ** 2;
    noise += (value - candidate[i]) ** 2;
  });
  return 10 * Math.log10(signal / noise);
}

for (const [name, tokens] of Object.entries({ known: 300, open: 'tokens' })) {
  test(`attention of quantizeDynamic() is in bytes, of ${name} length`, async () => {
    const model = await parseModel(attention(tokens));
    const feeds = sample(300);
    const float = await runOf(model, feeds);
    assert.match(float.kernel, /^conv_f32/);
    const asked = await runOf(model, feeds, { accuracyLevel: 4 });
    assert.equal(asked.kernel, 'conv_q8_vector');
    assert.ok(decibels(float.data, asked.data) > 35, `${decibels(float.data, asked.data)} dB`);
    const dynamic = await quantizeDynamic(model);
    const file = await loadModel(dynamic.toOnnx());
    for (const one of [dynamic, file]) {
      const coded = await runOf(one, feeds);
      assert.equal(coded.kernel, 'conv_q8_vector');
      const plain = await runOf(one, feeds, { accuracyLevel: 0 });
      assert.match(plain.kernel, /^conv_f32/);
      const loss = decibels(float.data, plain.data) - decibels(float.data, coded.data);
      assert.ok(loss < 1, `${loss} dB lost`);
    }
    const without = await quantizeDynamic(model, { int8Attention: false });
    assert.match((await runOf(without, feeds)).kernel, /^conv_f32/);
    for (const one of [model, dynamic, file, without]) one.dispose();
  });
}

test('attention of quantize() with many keys is in bytes, unless options keep it in float', async () => {
  const model = await parseModel(attention(300));
  const calibration = [1, 2].map((seed) => sample(300, seed));
  const quantized = await quantize(model, { calibration });
  assert.equal((await runOf(quantized, sample(300))).kernel, 'conv_q8_vector');
  const file = await loadModel(quantized.toOnnx());
  assert.equal((await runOf(file, sample(300))).kernel, 'conv_q8_vector');
  const config = { operatorTypes: { MultiHeadAttention: null } };
  const kept = await quantize(model, { calibration, config });
  assert.match((await runOf(kept, sample(300))).kernel, /^conv_f32/);
  for (const one of [model, quantized, file, kept]) one.dispose();
});

test('two threads give the same bits as one', async () => {
  const text = await parseModel(attention(400));
  const bytes = text.toOnnx();
  text.dispose();
  const runs = [];
  for (const numThreads of [1, 2]) {
    runs.push(await runOf(bytes, sample(400), { numThreads, accuracyLevel: 4 }));
  }
  assert.deepEqual(runs[0], runs[1]);
  assert.equal(runs[0].kernel, 'conv_q8_vector');
});

test('a saved plan keeps its level', async () => {
  const model = await parseModel(attention('tokens'));
  const session = await InferenceSession.create(model, { kernels, accuracyLevel: 4 });
  const { data } = (await session.run(sample(190))).y;
  const again = await InferenceSession.create(session.toPlan());
  assert.deepEqual((await again.run(sample(190))).y.data, data);
  await assert.rejects(
    InferenceSession.create(session.toPlan(), { accuracyLevel: 4 }),
    isError('INVALID_ARGUMENT'),
  );
  await session.release();
  await again.release();
  model.dispose();
});

test('products with blocks of 4 bits take 8-bit activations where a session asks for it', async () => {
  const model = await parseModel(attention(20));
  const [plain, coded] = await Promise.all(
    [false, true].map((int8Activations) =>
      quantizeWeights(model, { format: 'matmulnbits', int8Activations }),
    ),
  );
  const run = async (one, options) => (await runOf(one, sample(20), options)).data;
  assert.deepEqual(await run(plain, { accuracyLevel: 4 }), await run(coded));
  assert.notDeepEqual(await run(plain), await run(coded));
  assert.deepEqual(await run(coded, { accuracyLevel: 0 }), await run(coded));
  for (const one of [model, plain, coded]) one.dispose();
});

test('other levels are errors', async () => {
  const model = await parseModel(attention(20));
  for (const accuracyLevel of [1, 3, '4', null, true]) {
    await assert.rejects(
      InferenceSession.create(model, { accuracyLevel }),
      isError('INVALID_ARGUMENT'),
      `${accuracyLevel}`,
    );
  }
  await assert.rejects(quantizeDynamic(model, { int8Attention: 1 }), isError('INVALID_ARGUMENT'));
  model.dispose();
});

// quantizeDynamic(): a scale for every row of activations, or one for all.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, loadModel, parseModel, quantizeDynamic } from 'requant';
import { isError } from './support.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const WIDTH = 48;

/** Numbers in -1..1 that look random. */
function numbers(count, seed) {
  let state = seed * 2654435761;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 31 - 1).toFixed(4);
  });
}

const constant = (name, dims, seed) =>
  `const %${name}: float32[${dims.join(', ')}] = {${numbers(
    dims.reduce((a, b) => a * b, 1),
    seed,
  ).join(', ')}}`;

/** Two products of one value with a bias, one of which a Relu follows, and one of their sum. */
const products = (opset, batch = 'B, T') => `graph "net" opset ${opset}
input %x: float32[${batch}, ${WIDTH}]
${constant('w', [WIDTH, 40], 1)}
${constant('b', [40], 2)}
${constant('v', [WIDTH, 40], 3)}
${constant('u', [40, 7], 4)}
%p = MatMul(%x, %w)
%q = Add(%p, %b)
%r = Relu(%q)
%s = MatMul(%x, %v)
%t = Add(%r, %s)
%y = MatMul(%t, %u)
output %y
`;

/** A Gemm of rows, whose weights may be transposed. */
const gemm = (transposed) => `graph "net" opset 13
input %x: float32[N, ${WIDTH}]
${constant('w', transposed ? [21, WIDTH] : [WIDTH, 21], 5)}
${constant('b', [21], 6)}
%y = Gemm(%x, %w, %b) {transB = ${transposed ? 1 : 0}}
output %y
`;

/** Rows of which the magnitudes differ a thousandfold. */
function feedsOf(dims) {
  const data = Float32Array.from(
    numbers(
      dims.reduce((a, b) => a * b, 1),
      9,
    ),
  );
  return {
    x: new Tensor(
      'float32',
      data.map((x, i) => x * 10 ** (((i / WIDTH) % 4) | 0)),
      dims,
    ),
  };
}

async function answer(model, feeds, options = {}) {
  const session = await InferenceSession.create(model, options);
  const { y } = await session.run(feeds);
  const plan = session.plan();
  await session.release();
  return { y, plan };
}

async function ortAnswer(bytes, { x }) {
  const session = await ort.InferenceSession.create(bytes);
  const { y } = await session.run({ x: new ort.Tensor('float32', x.data, x.dims) });
  await session.release();
  return y.data;
}

/** The signal to noise ratio of every row, in dB; the least of them. */
function leastOfRows(wanted, got, width) {
  let least = Infinity;
  for (let at = 0; at < wanted.length; at += width) {
    let [signal, noise] = [0, 0];
    for (let i = at; i < at + width; i++) {
      signal += wanted[i] ** 2;
      noise += (wanted[i] - got[i]) ** 2;
    }
    least = Math.min(least, 10 * Math.log10(signal / noise));
  }
  return least;
}

/** The largest difference, relative to the largest number. */
function difference(wanted, got) {
  const most = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  return wanted.reduce((worst, x, i) => Math.max(worst, Math.abs(x - got[i])), 0) / most;
}

/** Signal to noise ratio in dB. */
function snr(wanted, got) {
  const energy = (numbers) => numbers.reduce((sum, x) => sum + x * x, 0);
  return 10 * Math.log10(energy(wanted) / energy(wanted.map((x, i) => x - got[i])));
}

const cases = {
  'products of opset 13': [products(13), [2, 6, WIDTH], 7],
  'products of opset 18': [products(18), [3, 4, WIDTH], 7],
  'a Gemm': [gemm(false), [9, WIDTH], 21],
  'a Gemm of transposed weights': [gemm(true), [9, WIDTH], 21],
};

describe('every row has its own scale', () => {
  for (const [name, [text, dims, width]] of Object.entries(cases)) {
    test(name, async () => {
      const model = await parseModel(text);
      const feeds = feedsOf(dims);
      const float = await answer(model, feeds);
      const byTensor = await quantizeDynamic(model, { perToken: false });
      const byToken = await quantizeDynamic(model);
      const { y, plan } = await answer(byToken, feeds);
      // Behind one scale for all, rows a thousand times as small lose everything.
      assert.ok(leastOfRows(float.y.data, y.data, width) > 25);
      const one = await answer(byTensor, feeds);
      assert.ok(leastOfRows(float.y.data, one.y.data, width) < 12);

      const operators = plan.steps.map(({ op }) => op.split('+')[0]);
      assert.ok(operators.includes('DynamicQuantizeRows'));
      assert.ok(operators.includes('MatMulIntegerRows'));
      assert.deepEqual(
        operators.filter((op) => /Reduce|Round|Quantize(?!Rows)|^Cast|^Div|^Mul/.test(op)),
        [],
      );
      assert.ok(plan.steps.every(({ kernel }) => kernel !== 'reference'));

      // The file has operators of ONNX only.
      const bytes = byToken.toOnnx();
      assert.ok(difference(await ortAnswer(bytes, feeds), y.data) < 2e-6);
      const again = await loadModel(bytes);
      assert.ok(!again.toText().includes('ai.requant::'));
      assert.deepEqual((await answer(again, feeds)).y.data, y.data);
      const optimized = await loadModel(bytes);
      optimized.optimize();
      assert.deepEqual((await answer(optimized, feeds)).y.data, y.data);
      // Without optimization a session runs the operators of the file one by one, with the same bits.
      const plain = await answer(again, feeds, { optimize: false });
      assert.deepEqual(plain.y.data, y.data);
      for (const one of [model, byTensor, byToken, again, optimized]) one.dispose();
    });
  }
});

test('no row depends on the rows beside it', async () => {
  const model = await parseModel(products(18));
  const quantized = await quantizeDynamic(model);
  const session = await InferenceSession.create(quantized);
  const feeds = feedsOf([1, 5, WIDTH]);
  const { y: all } = await session.run(feeds);
  for (let row = 0; row < 5; row++) {
    const data = feeds.x.data.slice(row * WIDTH, (row + 1) * WIDTH);
    const { y } = await session.run({ x: new Tensor('float32', data, [1, 1, WIDTH]) });
    assert.deepEqual(y.data, all.data.slice(row * 7, (row + 1) * 7));
  }
  await session.release();
  model.dispose();
  quantized.dispose();
});

for (const perToken of [true, false]) {
  test(`weights of 7 bits, perToken: ${perToken}`, async () => {
    const model = await parseModel(products(18));
    const feeds = feedsOf([3, 4, WIDTH]);
    const float = await answer(model, feeds);
    const snrOf = async (weightBits) => {
      const quantized = await quantizeDynamic(model, { perToken, weightBits });
      const { y } = await answer(quantized, feeds);
      assert.ok(difference(await ortAnswer(quantized.toOnnx(), feeds), y.data) < 2e-6);
      quantized.dispose();
      return snr(float.y.data, y.data);
    };
    const [seven, eight] = [await snrOf(7), await snrOf(8)];
    assert.ok(seven < eight && seven > eight - 6, `${seven} and ${eight} dB`);
    model.dispose();
  });
}

test('weights of 7 bits are codes from -63 to 63', async () => {
  const model = await parseModel(gemm(false));
  for (const [weightBits, most] of [
    [7, 63],
    [8, 127],
  ]) {
    const quantized = await quantizeDynamic(model, { weightBits });
    const text = quantized.toText({ maxConstantElements: 0 });
    const [, list] = text.match(/%w_q: int8\[48, 21\] = \{([^}]*)\}/);
    assert.equal(Math.max(...list.split(',').map((code) => Math.abs(Number(code)))), most);
    quantized.dispose();
  }
  model.dispose();
});

test('the options are checked', async () => {
  const model = await parseModel(gemm(false));
  for (const weightBits of [6, 9, 7.5, '8']) {
    await assert.rejects(quantizeDynamic(model, { weightBits }), isError('INVALID_ARGUMENT'));
  }
  await assert.rejects(quantizeDynamic(model, { perToken: 1 }), isError('INVALID_ARGUMENT'));
  await assert.rejects(quantizeDynamic(model, { perRow: true }), isError('INVALID_ARGUMENT'));
  model.dispose();
});

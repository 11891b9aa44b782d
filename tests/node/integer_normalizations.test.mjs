// Softmax and layer normalization in integers: the option of quantize(), the plan, the same bits everywhere, and
// onnxruntime-web's answers on the exported file within a step.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  configOf,
  env,
  interpret,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { randomSource } from './ort_operators.mjs';
import { constant, float, floats, integers, range, scale } from './ort_quantized.mjs';
import { ortOutputs } from './support.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
afterEach(() => {
  env.wasm.simd = 'auto';
});

const TOKENS = 12;
const WIDTH = 16;
const random = randomSource(5);
const matrix = (name, rows, columns) =>
  constant(
    name,
    'float32',
    [rows, columns],
    floats(random, rows * columns, 1.6 / Math.sqrt(rows)).map(float),
  );
const row = (name, length, shift, size) =>
  constant(
    name,
    'float32',
    [length],
    floats(random, length, size).map((x) => float(x + shift)),
  );

/** A block of a vision transformer: normalization, attention with one head, a feed-forward layer. */
const BLOCK = [
  'graph "block" opset 17',
  `input %x: float32[1, ${TOKENS}, ${WIDTH}]`,
  ...['embed', 'wq', 'wk', 'wv', 'wo', 'up', 'down', 'answer'].map((name) =>
    matrix(name, WIDTH, WIDTH),
  ),
  ...['g1', 'g2'].map((name) => row(name, WIDTH, 1, 0.4)),
  ...['b1', 'b2'].map((name) => row(name, WIDTH, 0, 0.4)),
  scale('quarter', 0.25),
  '%e = MatMul(%x, %embed)',
  '%n1 = LayerNormalization(%e, %g1, %b1) "norm1"',
  '%q = MatMul(%n1, %wq)',
  '%k = MatMul(%n1, %wk)',
  '%v = MatMul(%n1, %wv)',
  '%kt = Transpose(%k) {perm = [0, 2, 1]}',
  '%s = MatMul(%q, %kt)',
  '%scaled = Mul(%s, %quarter)',
  '%p = Softmax(%scaled) {axis = -1} "softmax"',
  '%a = MatMul(%p, %v)',
  '%o = MatMul(%a, %wo)',
  '%r = Add(%e, %o)',
  '%n2 = LayerNormalization(%r, %g2, %b2) "norm2"',
  '%u = MatMul(%n2, %up)',
  '%act = Relu(%u)',
  '%d = MatMul(%act, %down)',
  '%t = Add(%r, %d)',
  '%y = MatMul(%t, %answer)',
  'output %y',
].join('\n');

const samples = (count, seed) => {
  const source = randomSource(seed);
  return Array.from({ length: count }, () => ({
    x: new Tensor('float32', Float32Array.from(floats(source, TOKENS * WIDTH, 2)), [
      1,
      TOKENS,
      WIDTH,
    ]),
  }));
};

async function runAll(source, feeds, options) {
  const session = await InferenceSession.create(source, options);
  const outputs = [];
  for (const one of feeds) outputs.push([...(await session.run(one)).y.data]);
  const plan = session.plan();
  session.dispose();
  return { outputs, plan };
}

function decibels(wanted, got) {
  let signal = 0;
  let noise = 0;
  wanted.flat().forEach((value, at) => {
    signal += value ** 2;
    noise += (value - got.flat()[at]) ** 2;
  });
  return 10 * Math.log10(signal / noise);
}

for (const bits of [8, 16]) {
  test(`a transformer's block with ${bits}-bit activations`, async (t) => {
    const model = await parseModel(BLOCK);
    const config = { activations: { bits }, recover: [] };
    const calibration = samples(16, 1);
    const feeds = samples(8, 2);
    const plain = await quantize(model, { calibration, config });
    const whole = await quantize(model, {
      calibration,
      config: { ...config, integerNormalizations: true },
    });
    t.after(() => [model, plain, whole].forEach((one) => one.dispose()));
    const wanted = (await runAll(model, feeds)).outputs;
    const between = await runAll(plain, feeds);
    const { outputs, plan } = await runAll(whole, feeds);
    const kernels = (of) =>
      of.steps.map(({ kernel }) => kernel).filter((name) => name.startsWith('integer_'));
    assert.deepEqual(kernels(between.plan), []);
    // Products of two computed matrices have no form of 16 bits, so that scores are floats there.
    const expected = [
      'integer_layer_norm',
      ...(bits === 8 ? ['integer_softmax'] : []),
      'integer_layer_norm',
    ];
    assert.deepEqual(
      kernels(plan).filter((name) => bits === 8 || name !== 'integer_softmax'),
      expected,
    );
    const least = bits === 8 ? 30 : 40;
    const [theirs, ours] = [decibels(wanted, between.outputs), decibels(wanted, outputs)];
    t.diagnostic(
      `${bits} bits: ${theirs.toFixed(1)} dB in float between codes, ${ours.toFixed(1)} dB in integers`,
    );
    assert.ok(ours > least && ours > theirs - 3, `${ours} dB beside ${theirs}`);
    // Every variant gives these bits.
    for (const simd of variants) {
      env.wasm.simd = simd;
      assert.deepEqual((await runAll(whole, feeds)).outputs, outputs, simd);
    }
    env.wasm.simd = 'auto';
    // The file has the float operators between Q/DQ pairs; a step moves the answers little.
    for (const format of ['qdq', 'qoperator']) {
      if (format === 'qoperator' && bits === 16) continue;
      const file = whole.toOnnx({ format });
      const db = decibels(
        outputs,
        (await ortOutputs(file, feeds)).map((one) => [...one]),
      );
      assert.ok(db > (bits === 8 ? 25 : 60), `${format}: ${db} dB`);
    }
    assert.ok(configOf(whole.config));
  });
}

test('the option of one operator type, of one operator, and without effect', async (t) => {
  const model = await parseModel(BLOCK);
  t.after(() => model.dispose());
  const chosen = async (config) => {
    const quantized = await quantize(model, {
      calibration: samples(2, 1),
      config: { ...config, recover: [] },
    });
    const names = quantized.config.operators
      .filter(({ type, quantized: is }) => is && /Softmax|Normalization/.test(type))
      .map(({ name }) => name);
    quantized.dispose();
    return names.sort();
  };
  assert.deepEqual(await chosen({}), []);
  assert.deepEqual(await chosen({ integerNormalizations: true }), ['norm1', 'norm2', 'softmax']);
  assert.deepEqual(await chosen({ operatorTypes: { Softmax: { integerNormalizations: true } } }), [
    'softmax',
  ]);
  assert.deepEqual(await chosen({ operators: { norm2: { integerNormalizations: true } } }), [
    'norm2',
  ]);
  assert.deepEqual(
    await chosen({
      integerNormalizations: true,
      operatorTypes: { Softmax: { integerNormalizations: false } },
    }),
    ['norm1', 'norm2'],
  );
  await assert.rejects(
    quantize(model, { calibration: samples(1, 1), config: { integerNormalizations: 1 } }),
    {
      code: 'INVALID_ARGUMENT',
    },
  );
});

test('the operators on random codes: the interpreter and every variant agree', async () => {
  const source = randomSource(9);
  const pick = (list) => list[Math.floor(source() * list.length)];
  for (let i = 0; i < 24; ++i) {
    const [from, to] = [
      pick(['int8', 'uint8', 'int16', 'uint16']),
      pick(['int8', 'uint8', 'int16', 'uint16']),
    ];
    const ends = (type) =>
      type === 'int16' ? [-32768, 32767] : type === 'uint16' ? [0, 65535] : range(type);
    const length = 1 + Math.floor(source() * 70);
    const softmax = i % 2 === 0;
    const wide = from.endsWith('16');
    const out = to.endsWith('16') ? (softmax ? 1 / 65536 : 0.0003) : softmax ? 1 / 256 : 0.05;
    const text = [
      'graph "codes" opset 21, ai.requant 1',
      `input %x: ${from}[3, ${length}]`,
      scale('xs', wide ? 0.0004 : 0.07),
      constant('xz', from, [], [integers(source, 1, ...ends(from))[0]]),
      scale('ys', out),
      constant('yz', to, [], [integers(source, 1, ...ends(to))[0]]),
      ...(softmax
        ? ['%y = ai.requant::IntegerSoftmax(%x, %xs, %xz, %ys, %yz)']
        : [
            row('g', length, 0, 1),
            row('b', length, 0, 1),
            `%y = ai.requant::IntegerLayerNormalization(%x, %xs, %xz, %ys, %yz, %g, %b) {center = ${(i % 4) >> 1}}`,
          ]),
      'output %y',
    ].join('\n');
    const feeds = { x: new Tensor(from, integers(source, 3 * length, ...ends(from)), [3, length]) };
    const model = await parseModel(text);
    const expected = [...(await interpret(model, feeds)).y.data];
    for (const simd of variants) {
      env.wasm.simd = simd;
      assert.deepEqual((await runAll(model, [feeds])).outputs[0], expected, text);
    }
    env.wasm.simd = 'auto';
    model.dispose();
  }
});

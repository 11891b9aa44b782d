// Decomposed masks and normalizations, through optimize(), quantize(), compare() and the arithmetic of both
// engines: a few of the hundreds of cases of tests/cpp/quant/graph/masks_test.cpp and statistics_test.cpp, in the
// package.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, compare, parseModel, quantize } from '../../dist/index.js';

const TOKENS = 4;
const WIDTH = 8;

/** Uniform noise in [-scale, scale], the same every time. */
function numbers(count, seed, scale) {
  let state = (seed * 747796405 + 1) >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return scale * (state / 2 ** 31 - 1);
  });
}
const constant = (name, dims, values) =>
  `const %${name}: float32[${dims}] = {${values.map((value) => (Number.isFinite(value) ? value.toPrecision(7) : '-inf')).join(', ')}}\n`;

/** Rows of unlike magnitudes. */
const samples = (count, first) =>
  Array.from({ length: count }, (_, sample) => ({
    x: new Tensor(
      'float32',
      Float32Array.from(
        numbers(TOKENS * WIDTH, first + sample, 1),
        (value, at) => value * 2 ** ((Math.floor(at / WIDTH) + sample) % TOKENS),
      ),
      [1, TOKENS, WIDTH],
    ),
  }));

const LAYERS =
  constant('w', [WIDTH, WIDTH], numbers(WIDTH * WIDTH, 1, 0.4)) +
  constant('v', [WIDTH, WIDTH], numbers(WIDTH * WIDTH, 2, 0.4));

async function decibels(model, quantized) {
  let signal = 0;
  let noise = 0;
  const [exact, integer] = [
    await InferenceSession.create(model),
    await InferenceSession.create(quantized),
  ];
  for (const feeds of samples(8, 100)) {
    const wanted = (await exact.run(feeds)).y.data;
    const got = (await integer.run(feeds)).y.data;
    wanted.forEach((value, at) => {
      signal += value ** 2;
      noise += (value - got[at]) ** 2;
    });
  }
  exact.release();
  integer.release();
  return 10 * Math.log10(signal / noise);
}

const NORMALIZATIONS = {
  'LayerNormalization by Pow, Sqrt and Div': [
    `%m = ReduceMean(%h) {axes = [-1]}
    %c = Sub(%h, %m)
    %q = Pow(%c, %two)
    %s = ReduceMean(%q) {axes = [-1]}
    %e = Add(%s, %small)
    %r = Sqrt(%e)
    %d = Div(%c, %r)`,
    'LayerNormalization',
  ],
  'RMSNormalization by Mul and Pow(-0.5)': [
    `%q = Mul(%h, %h)
    %s = ReduceMean(%q) {axes = [-1]}
    %e = Add(%s, %small)
    %r = Pow(%e, %inverse)
    %d = Mul(%h, %r)`,
    'SimplifiedLayerNormalization',
  ],
  'an epsilon behind the root': [
    `%q = Mul(%h, %h)
    %s = ReduceMean(%q) {axes = [-1]}
    %r = Sqrt(%s)
    %e = Add(%r, %small)
    %d = Div(%h, %e)`,
    'Div',
  ],
};

for (const [name, [text, operator]] of Object.entries(NORMALIZATIONS)) {
  test(`statistics stay in float: ${name}`, async (t) => {
    const model = await parseModel(`graph "norm" opset 13
    input %x: float32[1, ${TOKENS}, ${WIDTH}]
    ${LAYERS}const %two: float32[] = {2.0}
    const %inverse: float32[] = {-0.5}
    const %small: float32[] = {0.00001}
    %h = MatMul(%x, %w)
    ${text}
    %y = MatMul(%d, %v)
    output %y`);
    const result = await quantize(model, { calibration: samples(16, 0) });
    t.after(() => (result.dispose(), model.dispose()));
    const operators = result.config.operators;
    assert.ok(operators.some(({ type, quantized }) => type === operator && !quantized));
    assert.ok(operators.filter(({ type }) => type === 'MatMul').every((entry) => entry.quantized));
    const db = await decibels(model, result);
    assert.ok(db > 25, `${db} dB`);
  });
}

for (const value of [-10000, -3.4028235e38, -Infinity]) {
  test(`scores keep their scale beside a mask of ${value}`, async (t) => {
    const mask = Array.from({ length: TOKENS ** 2 }, (_, at) =>
      at % TOKENS > Math.floor(at / TOKENS) ? value : 0,
    );
    const model = await parseModel(`graph "mask" opset 13
    input %x: float32[1, ${TOKENS}, ${WIDTH}]
    ${LAYERS}${constant('mask', [TOKENS, TOKENS], mask)}
    const %eighth: float32[] = {0.0125}
    %q = MatMul(%x, %w)
    %t = Transpose(%x) {perm = [0, 2, 1]}
    %s = MatMul(%q, %t)
    %k = Mul(%s, %eighth)
    %a = Add(%k, %mask)
    %p = Softmax(%a) {axis = -1}
    %o = MatMul(%p, %x)
    %y = MatMul(%o, %v)
    output %y`);
    const result = await quantize(model, { calibration: samples(16, 0) });
    t.after(() => (result.dispose(), model.dispose()));
    const [add] = result.config.operators.filter(({ type }) => type === 'Add');
    assert.match(add.reason, /mask/);
    const db = await decibels(model, result);
    assert.ok(db > 30, `${db} dB`);
    const report = await compare(model, result, {
      dataset: samples(4, 100).map((feeds) => ({ feeds })),
    });
    for (const layer of report.layers) assert.ok(!Number.isNaN(layer.snr), layer.name);
  });
}

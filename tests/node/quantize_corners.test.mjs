// Networks of unusual shape through quantize(), its files and its configs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  configOf,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { isError, ortOutputs } from './support.mjs';

const SHAPE = [1, 2, 3, 4];

/** Feeds of %x, the same every time: 24 numbers in [-3, 3]. */
function samples(count) {
  return Array.from({ length: count }, (_, sample) => ({
    x: new Tensor(
      'float32',
      Float32Array.from({ length: 24 }, (_, at) => 3 * Math.sin(1 + 7.3 * at + 2.1 * sample)),
      SHAPE,
    ),
  }));
}

async function outputs(source, feeds, options) {
  const session = await InferenceSession.create(source, options);
  const results = await session.run(feeds);
  await session.release();
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, [...data]]));
}

function decibels(expected, got) {
  let signal = 0;
  let noise = 0;
  expected.forEach((value, at) => {
    signal += value ** 2;
    noise += (value - got[at]) ** 2;
  });
  return 10 * Math.log10(signal / noise);
}

async function quantized(t, text, config = {}) {
  const model = await parseModel(text);
  const result = await quantize(model, { calibration: samples(4), config });
  t.after(() => (result.dispose(), model.dispose()));
  return { model, quantized: result };
}

const CONV = `const %w: float32[2, 2, 1, 1] = {0.5, -0.25, 0.75, 1}
    %c = Conv(%x, %w)`;

test('what a Pad adds is within its range', async (t) => {
  const { model, quantized: result } = await quantized(
    t,
    `graph "pad" opset 13
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    %s = HardSigmoid(%c)
    const %pads: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
    const %value: float32[] = {-1}
    %p = Pad(%s, %pads, %value)
    const %v: float32[1, 2, 3, 3] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 1, -1, 1, -1, 1, -1, 1, -1, 1}
    %y = Conv(%p, %v)
    output %y`,
  );
  const [feeds] = samples(1);
  const float = await outputs(model, feeds);
  assert.ok(decibels(float.y, (await outputs(result, feeds)).y) > 35);
});

test('a value that a table and others read is rounded once, in files as well', async (t) => {
  const { quantized: result } = await quantized(
    t,
    `graph "shared" opset 14
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    %e = Elu(%c) {alpha = 0.5}
    %r = Relu(%e)
    const %v: float32[2, 2, 1, 1] = {1, -0.5, 0.25, 1}
    %d = Conv(%r, %v)
    %y = Add(%r, %e)
    output %y
    output %d`,
  );
  const [feeds] = samples(1);
  const own = await outputs(result, feeds);
  for (const format of ['qdq', 'qoperator', 'qonnx']) {
    const file = result.toOnnx({ format });
    assert.deepEqual(await outputs(file, feeds, { requantize: 'fixed' }), own, format);
    if (format === 'qonnx') continue;
    const [theirs] = await ortOutputs(file, [feeds]);
    const ours = await outputs(file, feeds);
    assert.deepEqual(ours.y, [...theirs], `${format} in ONNX Runtime`);
  }
});

test('two outputs of one value keep their names', async () => {
  const model = await parseModel(`graph "two" opset 13
    input %x: float32[1, 2, 3, 4]
    const %s: float32[] = {0.05}
    const %z: uint8[] = {128}
    %a = Abs(%x)
    %q = QuantizeLinear(%a, %s, %z)
    %y1 = DequantizeLinear(%q, %s, %z)
    %i = Identity(%y1)
    %q2 = QuantizeLinear(%i, %s, %z)
    %y2 = DequantizeLinear(%q2, %s, %z)
    output %y1
    output %y2`);
  const [feeds] = samples(1);
  const { y1, y2 } = await outputs(model, feeds);
  assert.deepEqual(y1, y2);
  y1.forEach((value, at) => {
    assert.ok(Math.abs(value - Math.abs(feeds.x.data[at])) <= 0.0251, `${value}`);
  });
  model.dispose();
});

/** Every file gives the integers of the network itself. */
async function sameInFiles(result, formats = ['qdq', 'qoperator', 'qonnx']) {
  const [feeds] = samples(1);
  const own = await outputs(result, feeds);
  for (const format of formats) {
    const file = result.toOnnx({ format });
    assert.deepEqual(await outputs(file, feeds, { requantize: 'fixed' }), own, format);
  }
  return own;
}

test('what an activation is given decides for the layer that computes it', async (t) => {
  const { quantized: result } = await quantized(
    t,
    `graph "relu" opset 13
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    %r = Relu(%c) "relu"
    const %v: float32[1, 2, 1, 1] = {1, -0.5}
    %y = Conv(%r, %v)
    output %y
    output %r`,
    { recover: [], operators: { relu: { activations: { bits: 2, symmetric: true } } } },
  );
  const { r } = await sameInFiles(result);
  assert.deepEqual(new Set(r).size, 2); // 0 and 1 of -1, 0 and 1
});

test('operators of one table read one format', async (t) => {
  const { quantized: result } = await quantized(
    t,
    `graph "mish" opset 13
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    %p = Softplus(%c) "softplus"
    %t = Tanh(%p)
    %m = Mul(%c, %t)
    const %v: float32[1, 2, 1, 1] = {1, -0.5}
    %y = Conv(%m, %v)
    output %y`,
    { operators: { softplus: { activations: { bits: 3, signed: true } } } },
  );
  await sameInFiles(result);
});

test('int8 and uint8 in one network, in ONNX Runtime as well', async (t) => {
  const symmetric = { activations: { symmetric: true } };
  const { quantized: result } = await quantized(
    t,
    `graph "types" opset 13
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    const %u: float32[2, 2, 1, 1] = {1, -0.5, 0.25, 1}
    %d = Conv(%c, %u) "second"
    %a = Add(%d, %c) "sum"
    %k = Concat(%a, %d) {axis = 1} "both"
    %g = GlobalAveragePool(%k) "mean"
    %f = Flatten(%g)
    const %m: float32[4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}
    %y = Gemm(%f, %m) "matrix"
    output %y`,
    { operators: { second: symmetric, both: symmetric, matrix: symmetric } },
  );
  const own = await sameInFiles(result);
  const [feeds] = samples(1);
  for (const format of ['qdq', 'qoperator']) {
    const [theirs] = await ortOutputs(result.toOnnx({ format }), [feeds]);
    assert.ok(decibels(own.y, [...theirs]) > 35, format);
  }
});

test('a transposed convolution and its Clip are one operator in every file', async (t) => {
  const { quantized: result } = await quantized(
    t,
    `graph "transposed" opset 13
    input %x: float32[1, 2, 3, 4]
    const %w: float32[2, 2, 1, 1] = {0.5, -0.25, 0.75, 1}
    %c = ConvTranspose(%x, %w)
    const %low: float32[] = {-1}
    const %high: float32[] = {0.5}
    %y = Clip(%c, %low, %high)
    output %y`,
    { target: 'power-of-2' },
  );
  await sameInFiles(result, ['qdq', 'qoperator']);
});

/** Compares a Q/DQ file with ONNX Runtime. */
async function againstOrt(text) {
  const model = await parseModel(text);
  const [feeds] = samples(1);
  const [theirs] = await ortOutputs(model.toOnnx(), [feeds]);
  const { y } = await outputs(model, feeds);
  model.dispose();
  y.forEach((value, at) => {
    assert.ok(Math.abs(value - theirs[at]) < 1e-5, `${value} for ${theirs[at]}`);
  });
}

test('a value on two grids is rounded to each, not to one after the other', async () => {
  await againstOrt(`graph "grids" opset 13
    input %x: float32[1, 2, 3, 4]
    const %wide: float32[] = {1.37}
    const %fine: float32[] = {0.03}
    const %z: uint8[] = {128}
    const %w: int8[2, 2, 1, 1] = {64, -32, 96, 127}
    const %ws: float32[] = {0.0078125}
    const %wz: int8[] = {0}
    %xq = QuantizeLinear(%x, %fine, %z)
    %xd = DequantizeLinear(%xq, %fine, %z)
    %wd = DequantizeLinear(%w, %ws, %wz)
    %c = Conv(%xd, %wd)
    %q1 = QuantizeLinear(%c, %wide, %z)
    %d1 = DequantizeLinear(%q1, %wide, %z)
    %q2 = QuantizeLinear(%c, %fine, %z)
    %d2 = DequantizeLinear(%q2, %fine, %z)
    %t = Transpose(%d1) {perm = [0, 1, 3, 2]}
    %u = Conv(%d2, %wd)
    %v = Transpose(%u) {perm = [0, 1, 3, 2]}
    %y = Add(%t, %v)
    output %y`);
});

test('a Pad of floats behind integers adds what it says', async () => {
  await againstOrt(`graph "pad" opset 13
    input %x: float32[1, 2, 3, 4]
    const %s: float32[] = {0.05}
    const %z: uint8[] = {0}
    const %pads: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
    const %value: float32[] = {-0.83}
    %q = QuantizeLinear(%x, %s, %z)
    %d = DequantizeLinear(%q, %s, %z)
    %y = Pad(%d, %pads, %value)
    output %y`);
});

const SOFTMAX = `graph "softmax" opset 11
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    %s = Softmax(%c) {axis = 1} "soft"
    %r = Mul(%c, %s) "product"
    %f = Flatten(%r)
    const %m: float32[24, 1] = <splat>
    %g = MatMul(%f, %m)
    %y = Add(%g, %g)
    output %y`.replace('<splat>', `{${Array.from({ length: 24 }, (_, at) => (at % 5) - 2)}}`);

for (const config of [
  {},
  { floatOutputs: true },
  { activations: { observer: 'auto' } },
  { operators: { soft_unflatten: null } },
]) {
  test(`configOf() makes the same network without samples: ${JSON.stringify(config)}`, async (t) => {
    const { model, quantized: first } = await quantized(t, SOFTMAX, { recover: [], ...config });
    const again = await quantize(model, { calibration: [], config: configOf(first.config) });
    t.after(() => again.dispose());
    assert.deepEqual(again.toOnnx(), first.toOnnx());
  });
}

test('a grid that no integer operator has is in no file', async (t) => {
  const { quantized: result } = await quantized(
    t,
    `graph "wide" opset 13
    input %x: float32[1, 2, 3, 4]
    ${CONV}
    output %c`,
    { activations: { bits: 20 } },
  );
  for (const format of ['qdq', 'qoperator', 'qonnx']) {
    assert.throws(
      () => result.toOnnx({ format }),
      isError('UNSUPPORTED', { hint: /at most 16 bits/ }),
    );
  }
});

test('a Dropout between input and output is no operator of bytes', async (t) => {
  const { model, quantized: result } = await quantized(
    t,
    `graph "dropout" opset 13
    input %x: float32[1, 2, 3, 4]
    %d = Dropout(%x)
    ${CONV}
    output %d
    output %c`,
  );
  const [feeds] = samples(1);
  const file = result.toOnnx({ format: 'qoperator' });
  const [theirs] = await ortOutputs(file, [feeds]);
  assert.ok(decibels((await outputs(model, feeds)).d, [...theirs]) > 35);
});

test('tables are layers of the report, and their flat ends are no error', async (t) => {
  const { model, quantized: result } = await quantized(
    t,
    `graph "flat" opset 13
    input %x: float32[1, 2, 3, 4]
    const %w: float32[2, 2, 1, 1] = {1, -0.5, 1.5, 2}
    const %b: float32[2] = {0, 60}
    %c = Conv(%x, %w, %b) "conv"
    %t = Tanh(%c) "tanh"
    %m = MaxPool(%t) {kernel_shape = [2, 2]} "pool"
    output %m`,
  );
  const report = await compare(model, result, {
    dataset: samples(4).map((feeds) => ({ feeds })),
    layerwise: true,
  });
  const { conv, tanh } = Object.fromEntries(report.layers.map((layer) => [layer.name, layer]));
  assert.equal(tanh.op, 'Lut');
  assert.ok(tanh.snr > 30 && tanh.aloneSnr > 30, `tanh ${tanh.snr}`);
  // One channel is far beyond the range in which Tanh varies.
  assert.ok(conv.snr > 30 && conv.aloneSnr > 30, `conv ${conv.snr}`);
});

// Q/DQ files that round in unusual positions: outputs equal what the file defines, computed by hand.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, parseModel, quantize } from '../../dist/index.js';

async function run(text, feeds) {
  const model = await parseModel(text);
  const session = await InferenceSession.create(model);
  const { y } = await session.run(feeds);
  await session.release();
  model.dispose();
  return [...y.data];
}

const row = (...values) => new Tensor('float32', Float32Array.from(values), [1, values.length]);

function near(got, expected) {
  assert.equal(got.length, expected.length);
  got.forEach((value, at) => {
    assert.ok(
      Math.abs(value - expected[at]) < 1e-4 * Math.max(1, Math.abs(expected[at])),
      `${got} for ${expected}`,
    );
  });
}

test('a second grid before an output does not undo the first one', async () => {
  const y = await run(
    `graph "twice" opset 13
    input %x: float32[1, 4]
    const %zero: int8[] = {0}
    const %wide: float32[] = {0.1}
    const %narrow: float32[] = {0.01}
    %q = QuantizeLinear(%x, %wide, %zero)
    %d = DequantizeLinear(%q, %wide, %zero)
    %r = LeakyRelu(%d) {alpha = 0.5}
    %q2 = QuantizeLinear(%r, %narrow, %zero)
    %d2 = DequantizeLinear(%q2, %narrow, %zero)
    %q3 = QuantizeLinear(%d2, %wide, %zero)
    %y = DequantizeLinear(%q3, %wide, %zero)
    output %y`,
    { x: row(5, 0.5, -10, -0.2) },
  );
  near(y, [1.3, 0.5, -1.3, -0.1]); // 5 saturates to 1.27, -5 to -1.28
});

test('four bits saturate between float operators, too', async () => {
  const y = await run(
    `graph "nibbles" opset 21
    input %x: float32[1, 3]
    const %zero: int4[] = {0}
    const %scale: float32[] = {0.5}
    %q = QuantizeLinear(%x, %scale, %zero)
    %d = DequantizeLinear(%q, %scale, %zero)
    %y = Exp(%d)
    output %y`,
    { x: row(100, 1.1, -100) },
  );
  near(y, [Math.exp(3.5), Math.exp(1), Math.exp(-4)]);
});

test('a saturated bias leaves no room for integers', async () => {
  const y = await run(
    `graph "bias" opset 13
    input %x: float32[1, 2]
    const %s: float32[] = {1}
    const %z: uint8[] = {0}
    const %w: int8[2, 2] = {1, 100, 0, 100}
    const %ws: float32[] = {1}
    const %wz: int8[] = {0}
    const %b: int32[2] = {2147483647, 5}
    const %bz: int32[] = {0}
    const %ys: float32[] = {16843009}
    const %q0: float32[] = {1}
    %xq = QuantizeLinear(%x, %s, %z)
    %xd = DequantizeLinear(%xq, %s, %z)
    %wd = DequantizeLinear(%w, %ws, %wz)
    %bd = DequantizeLinear(%b, %s, %bz)
    %g = Gemm(%xd, %wd, %bd)
    %gq = QuantizeLinear(%g, %ys, %z)
    %y = DequantizeLinear(%gq, %ys, %z)
    output %y`,
    { x: row(200, 200) },
  );
  near(y, [16843009 * 128, 0]); // 2^31 / 16843009 = 127.5, and 200 more
});

const FUNCTIONS = {
  Min: Math.min,
  Max: Math.max,
  Div: (a, b) => a / b,
  Pow: (a, b) => a ** b,
  PRelu: (a, b) => (a < 0 ? a * b : a),
};

for (const [op, apply] of Object.entries(FUNCTIONS)) {
  test(`${op} of two quantized values is computed in float`, async () => {
    const feeds = { a: row(1, 2, 3, 4), b: row(3, 2, 1, 2) };
    const expected = [1, 2, 3, 4].map((a, at) => apply(a, [3, 2, 1, 2][at]));
    const pairs = ['a', 'b'].map(
      (name) => `%${name}q = QuantizeLinear(%${name}, %s, %z)
      %${name}d = DequantizeLinear(%${name}q, %s, %z)`,
    );
    const file = await run(
      `graph "two" opset 13
      input %a: float32[1, 4]
      input %b: float32[1, 4]
      const %s: float32[] = {0.125}
      const %z: uint8[] = {0}
      ${pairs.join('\n')}
      %f = ${op}(%ad, %bd)
      %fq = QuantizeLinear(%f, %s, %z)
      %y = DequantizeLinear(%fq, %s, %z)
      output %y`,
      feeds,
    );
    near(
      file,
      expected.map((value) => Math.min(value, 255 / 8)).map((value) => Math.round(value * 8) / 8),
    );

    const identity = Array.from({ length: 16 }, (_, i) => Number(i % 5 === 0)).join(', ');
    const model = await parseModel(`graph "two" opset 13
      input %a: float32[1, 4]
      input %b: float32[1, 4]
      const %m: float32[4, 4] = {${identity}}
      %c = MatMul(%a, %m)
      %d = MatMul(%b, %m)
      %f = ${op}(%c, %d)
      %y = MatMul(%f, %m)
      output %y`);
    const quantized = await quantize(model, { calibration: [feeds] });
    const { reason } = quantized.config.operators.find((operator) => operator.type === op) ?? {};
    assert.match(reason, /two values/);
    const session = await InferenceSession.create(quantized);
    const { y } = await session.run(feeds);
    const most = Math.max(...expected);
    [...y.data].forEach((value, at) => assert.ok(Math.abs(value - expected[at]) < 0.05 * most));
    await session.release();
    quantized.dispose();
    model.dispose();
  });
}

test('two grids in a row round twice, also where nothing quantized writes the value', async () => {
  const file = (first, last) => `graph "row" opset 13
    input %x: float32[1, 4]
    const %s1: float32[] = {0.5}
    const %z1: uint8[] = {0}
    const %s2: float32[] = {0.4}
    const %z2: int8[] = {0}
    ${first}
    %q1 = QuantizeLinear(%v, %s1, %z1)
    %d1 = DequantizeLinear(%q1, %s1, %z1)
    %q2 = QuantizeLinear(%d1, %s2, %z2)
    %d2 = DequantizeLinear(%q2, %s2, %z2)
    ${last}
    output %y`;
  const x = { x: row(-3, 0.3, 1.2, 60) };
  // 0, 0.5, 1 and 60 on the first grid; 0, 0.4, 0.8 (2.5 steps are 2) and 50.8 on the second.
  const expected = [0, 0.4, 0.8, 50.8];
  for (const first of ['%v = Identity(%x)', '%v = Elu(%x)']) {
    near(await run(file(first, '%y = Relu(%d2)'), x), expected);
    near(
      await run(
        file(first, '%y = Reshape(%d2, %shape)').replace(
          'input %x: float32[1, 4]',
          `input %x: float32[1, 4]
    const %shape: int64[2] = {1, 4}`,
        ),
        x,
      ),
      expected,
    );
  }
});

test('the functions of a GELU that are all rounded', async () => {
  const grid = (value, scale) => `%${value}q = QuantizeLinear(%${value}, %${scale}, %z)
    %${value}d = DequantizeLinear(%${value}q, %${scale}, %z)`;
  const y = await run(
    `graph "gelu" opset 13
    input %x: float32[1, 3]
    const %z: int8[] = {0}
    const %s: float32[] = {0.03125}
    const %t: float32[] = {0.011}
    const %root: float32[] = {1.41421354}
    const %one: float32[] = {1}
    const %half: float32[] = {0.5}
    %m = Softmax(%x)
    ${grid('m', 's')}
    %a = Div(%md, %root)
    ${grid('a', 't')}
    %e = Erf(%ad)
    ${grid('e', 't')}
    %o = Add(%ed, %one)
    ${grid('o', 's')}
    %h = Mul(%md, %half)
    ${grid('h', 't')}
    %y = Mul(%hd, %od)
    output %y`,
    { x: row(0, 1, -1) },
  );
  // Softmax: 0.2447, 0.6652, 0.0900 -> 8, 21 and 3 steps of 1 / 32.
  const rounded = (value, scale) => Math.round(value / scale) * scale;
  const expected = [8, 21, 3].map((steps) => {
    const m = steps / 32;
    const a = rounded(m / Math.SQRT2, 0.011);
    // erf by its series, exact enough for arguments below 1.
    let [term, erf] = [a, 0];
    for (let n = 0; n < 30; n++) {
      erf += term / (2 * n + 1);
      term *= (-a * a) / (n + 1);
    }
    const e = rounded((2 / Math.sqrt(Math.PI)) * erf, 0.011);
    return rounded(m / 2, 0.011) * rounded(e + 1, 1 / 32);
  });
  near(y, expected);
});

test('other engines read a product whose Clip ends between two codes', async () => {
  const ort = await import('onnxruntime-web');
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'fatal';
  const samples = Array.from({ length: 4 }, (_, k) => ({
    x: new Tensor(
      'float32',
      Float32Array.from({ length: 6 }, (_, i) => Math.sin(i * 1.3 + k)),
      [2, 3],
    ),
  }));
  for (const product of ['MatMul(%a, %w)', 'Gemm(%a, %w, %b)']) {
    for (const [low, high] of [
      [-0.5, 0.8],
      [-0.3, 0.7],
      [0, 6],
      [-9, 9],
    ]) {
      const model = await parseModel(`graph "clipped" opset 18
        input %x: float32[2, 3]
        const %w: float32[3, 4] = {0.3, -1, 0.5, 2, 0.1, 0.2, -0.4, 1, -0.6, 0.9, 0.7, -1.5}
        const %b: float32[4] = {0.1, 0.2, -0.3, 0}
        const %low: float32[] = {${low}}
        const %high: float32[] = {${high}}
        %a = Tanh(%x)
        %m = ${product}
        %c = Clip(%m, %low, %high)
        %y = Concat(%c, %c) {axis = 1}
        output %y`);
      const quantized = await quantize(model, { calibration: samples });
      const session = await InferenceSession.create(quantized);
      const theirs = await ort.InferenceSession.create(quantized.toOnnx());
      for (const { x } of samples) {
        const ours = (await session.run({ x })).y.data;
        const { y } = await theirs.run({ x: new ort.Tensor('float32', x.data, x.dims) });
        near([...ours], [...y.data]);
      }
      await session.release();
      await theirs.release();
      quantized.dispose();
      model.dispose();
    }
  }
});

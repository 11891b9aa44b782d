// Operators that users register, and the interpreter with a hook.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  interpret,
  loadModel,
  parseModel,
  quantize,
  registerOperator,
  removeOperator,
} from '../../dist/index.js';
import { MODEL, isError, testImages } from './support.mjs';

const owned = [];
/** Disposes of a model behind the test. */
function own(model) {
  owned.push(model);
  return model;
}
const parse = async (text) => own(await parseModel(text));
const load = async (file) => own(await loadModel(file));
afterEach(() => owned.splice(0).forEach((model) => model.dispose()));

const registered = [];
async function register(definition) {
  await registerOperator(definition);
  registered.push([definition.name, definition.domain]);
}
afterEach(() => {
  for (const [name, domain] of registered.splice(0)) removeOperator(name, domain);
});

const square = {
  name: 'Square',
  domain: 'my.domain',
  run: ([x]) =>
    new Tensor(
      'float32',
      x.data.map((value) => value * value),
      x.dims,
    ),
};

const GRAPH = `graph "m" opset 13, my.domain 1
  input %x: float32[N, 3]
  const %one: float32[] = {1}
  %a = Add(%x, %one) "a"
  %b = my.domain::Square(%a) "square"
  %y = Relu(%b) "r"
  output %y`;

const feeds = { x: new Tensor('float32', [1, -2, 3, 0.5, 0, -1], [2, 3]) };
const expected = [4, 1, 16, 2.25, 1, 0];

async function outputOf(model, given = feeds, options = {}) {
  const session = await InferenceSession.create(model, options);
  const { y } = await session.run(given);
  session.dispose();
  return y;
}

test('sessions, files and the interpreter run an operator of the user', async () => {
  await assert.rejects(async () => {
    const model = await parse(GRAPH);
    await outputOf(model);
  }, isError('UNSUPPORTED'));
  await register(square);
  const model = await parse(GRAPH);
  const y = await outputOf(model);
  assert.deepEqual([[...y.data], y.dims], [expected, [2, 3]]);
  const read = await load(model.toOnnx());
  assert.deepEqual([...(await outputOf(read)).data], expected);
  const results = await interpret(model, feeds);
  assert.deepEqual([...results.y.data], expected);
});

test('types by infer, attributes, several outputs, optional inputs', async () => {
  await register({
    name: 'SplitSign',
    domain: 'my.domain',
    inputs: [1, 2],
    outputs: 2,
    infer: ([x]) => [x, { type: 'int32', dims: x.dims }],
    run: ([x, offset], { scale }) => [
      new Tensor(
        'float32',
        x.data.map((v) => Math.abs(v) * scale + (offset?.data[0] ?? 0)),
        x.dims,
      ),
      new Tensor('int32', Array.from(x.data, Math.sign), x.dims),
    ],
  });
  const model = await parse(`graph "m" opset 13, my.domain 1
    input %x: float32[2, 2]
    const %o: float32[] = {10}
    %p, %q = my.domain::SplitSign(%x) {scale = 2.0}
    %r, %s = my.domain::SplitSign(%x, %o) {scale = 1.0}
    output %p
    output %q
    output %r`);
  model.optimize({ passes: ['InferType'] });
  assert.deepEqual(
    model.info.outputs.map(({ type, dims }) => [type, dims]),
    [
      ['float32', [2, 2]],
      ['int32', [2, 2]],
      ['float32', [2, 2]],
    ],
  );
  const session = await InferenceSession.create(model);
  const { p, q, r } = await session.run({ x: new Tensor('float32', [1, -2, 3, -4], [2, 2]) });
  session.dispose();
  assert.deepEqual([...p.data], [2, 4, 6, 8]);
  assert.deepEqual([...q.data], [1, -1, 1, -1]);
  assert.deepEqual([...r.data], [11, 12, 13, 14]);
});

test('a unary operator becomes a table when the network is quantized', async () => {
  await register({ ...square, quantize: 'unary' });
  const weights = [...Array(9).keys()].map((i) => ((i * 5) % 7) / 4 - 0.75).join(', ');
  const model = await parse(`graph "m" opset 13, my.domain 1
    input %x: float32[N, 3]
    const %w: float32[3, 3] = {${weights}}
    %a = MatMul(%x, %w) "a"
    %b = my.domain::Square(%a) "square"
    %y = MatMul(%b, %w) "c"
    output %y`);
  const samples = Array.from({ length: 8 }, (_, i) => ({
    x: new Tensor(
      'float32',
      Array.from({ length: 6 }, (_v, j) => ((i * 7 + j * 5) % 13) / 4 - 1.5),
      [2, 3],
    ),
  }));
  const quantized = await quantize(model, { calibration: samples });
  assert.match(quantized.integerModel.toText(), /ai\.requant::Lut/);
  const float = await outputOf(model, samples[1]);
  const integer = await outputOf(quantized.integerModel, samples[1]);
  float.data.forEach((value, i) => assert.ok(Math.abs(value - integer.data[i]) < 0.1, `${value}`));
  quantized.dispose();
});

test('a quantized operator of the user computes on codes between integer layers', async () => {
  // y = |x| on its own grid: scales and zero points are inputs, as of ONNX Runtime's operators.
  await register({
    name: 'QLinearAbs',
    domain: 'my.domain',
    inputs: 5,
    infer: ([x]) => x,
    run: ([x, xScale, xZero, yScale, yZero]) =>
      new Tensor(
        'uint8',
        Array.from(x.data, (code) => {
          const real = Math.abs(xScale.data[0] * (code - xZero.data[0]));
          const steps = Math.round(real / yScale.data[0]) + yZero.data[0];
          return Math.min(Math.max(steps, 0), 255);
        }),
        x.dims,
      ),
  });
  const model = await parse(`graph "m" opset 13, my.domain 1, com.microsoft 1
    input %x: uint8[4]
    const %s: float32[] = {0.5}
    const %z: uint8[] = {100}
    const %t: float32[] = {0.25}
    const %o: uint8[] = {0}
    %sum = com.microsoft::QLinearAdd(%x, %s, %z, %x, %s, %z, %s, %z) "sum"
    %y = my.domain::QLinearAbs(%sum, %s, %z, %t, %o) "abs"
    output %y`);
  const x = new Tensor('uint8', [100, 101, 95, 0], [4]);
  // The sums are 0, 1, -5 and -50, less than the smallest code; the grid of y has steps of 0.25.
  const y = await outputOf(model, { x }, { requantize: 'fixed' });
  assert.deepEqual([...y.data], [0, 4, 20, 200]);
});

test('an operator that fails, or does not keep its types', async () => {
  const cases = [
    [
      {
        run: () => {
          throw new Error('no luck');
        },
      },
      'INVALID_ARGUMENT',
      /no luck/,
    ],
    [{ run: () => 5 }, 'INVALID_ARGUMENT', /Tensor/],
    [{ run: async () => feeds.x }, 'INVALID_ARGUMENT', /promise/],
    [{ run: () => new Tensor('float32', [1], [1]) }, 'SHAPE_MISMATCH', /where infer gives/],
    [
      { run: ([x]) => new Tensor('int32', [...x.data].map(Math.round), x.dims) },
      'SHAPE_MISMATCH',
      /int32/,
    ],
    [
      {
        infer: () => {
          throw new Error('what is this');
        },
      },
      'INVALID_MODEL',
      /what is this/,
    ],
  ];
  for (const [change, code, message] of cases) {
    await register({ ...square, ...change });
    await assert.rejects(
      async () => {
        const model = await parse(GRAPH);
        await outputOf(model);
      },
      isError(code, { message, node: 'square' }),
      `${message}`,
    );
    removeOperator('Square', 'my.domain');
    registered.pop();
  }
});

test('what registerOperator refuses', async () => {
  await register(square);
  for (const [change, value] of [
    [{}, 'Square'],
    [{ domain: 'com.microsoft' }, 'definition.domain'],
    [{ domain: '' }, 'definition.domain'],
    [{ name: 'a b' }, 'definition.name'],
    [{ name: 'Q', inputs: [2, 1] }, 'definition.inputs'],
    [{ name: 'Q', inputs: 0 }, 'definition.infer'],
    [{ name: 'Q', outputs: 0 }, 'definition.outputs'],
    [{ name: 'Q', quantize: 'binary' }, 'definition.quantize'],
    [{ name: 'Q', run: undefined }, 'definition.run'],
  ]) {
    await assert.rejects(
      registerOperator({ ...square, ...change }),
      isError('INVALID_ARGUMENT', { value }),
      JSON.stringify(change),
    );
  }
  assert.throws(() => removeOperator('Relu', 'my.domain'), isError('INVALID_ARGUMENT'));
});

test('the hook of the interpreter sees every operator with its inputs', async () => {
  const model = await load(MODEL);
  const [sample] = testImages(1);
  const seen = [];
  const results = await interpret(model, sample, {
    hook: ({ node, name, tensor, inputs }) => {
      seen.push(node.op);
      assert.ok(node.outputs.includes(name));
      if (node.op === 'Relu') {
        const before = inputs[node.inputs[0]].data;
        tensor.data.forEach((value, i) => assert.equal(value, Math.max(before[i], 0)));
      }
    },
  });
  assert.deepEqual(
    seen,
    model.info.nodes.map(({ op }) => op),
  );
  const session = await InferenceSession.create(model);
  const wanted = await session.run(sample);
  session.dispose();
  const [name] = Object.keys(wanted);
  wanted[name].data.forEach((value, i) =>
    assert.ok(Math.abs(value - results[name].data[i]) < 1e-3 * (1 + Math.abs(value))),
  );
  await assert.rejects(
    interpret(model, sample, {
      hook: () => {
        throw new Error('enough');
      },
    }),
    isError('INVALID_ARGUMENT', { message: /enough/ }),
  );
  await assert.rejects(interpret(model, {}), isError('INVALID_ARGUMENT'));
});

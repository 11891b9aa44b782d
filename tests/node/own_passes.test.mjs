// Passes that users register: patterns, rewrites, checks, the pipeline.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  Tensor,
  engineInfo,
  parseModel,
  registerPass,
  removePass,
} from '../../dist/index.js';
import { isError } from './support.mjs';

const owned = [];
/** Disposes of a model behind the test. */
function own(model) {
  owned.push(model);
  return model;
}
const parse = async (text) => own(await parseModel(text));
afterEach(() => owned.splice(0).forEach((model) => model.dispose()));

const GRAPH = `graph "m" opset 13
  input %x: float32[1, 3]
  const %two: float32[] = {2}
  const %three: float32[1, 3] = {3, 4, 5}
  %a = Mul(%x, %two) "a"
  %b = Mul(%two, %a) "b"
  %c = Mul(%b, %three) "c"
  %y = LeakyRelu(%c) {alpha = 0.5} "leaky"
  output %y`;

const doubleToSum = {
  name: 'DoubleToSum',
  summary: 'twice a value becomes its sum with itself',
  pattern: { op: 'Mul', commutes: true, inputs: [{ value: 'x' }, { constant: 'two' }] },
  rewrite: ({ values: { x, two } }, builder) =>
    two.tensor.size === 1 && two.tensor.data[0] === 2 ? builder.add('Add', [x, x]) : undefined,
};

const registered = new Set();
async function register(definition) {
  await registerPass(definition);
  registered.add(definition.name);
}
afterEach(() => {
  for (const name of registered) removePass(name);
  registered.clear();
});

const x = new Tensor('float32', [1, -2, 3], [1, 3]);
async function outputOf(model) {
  const session = await InferenceSession.create(model);
  const { y } = await session.run({ x });
  session.dispose();
  return [...y.data];
}
const operators = (model) => model.info.nodes.map(({ op }) => op);

test('a pass rewrites what its pattern finds, by name, with a dump', async () => {
  await register(doubleToSum);
  const model = await parse(GRAPH);
  const before = await outputOf(model);
  const other = await parse(GRAPH);
  other.optimize();
  assert.equal(operators(other).includes('Add'), false, 'it does not run unless it is named');
  const report = model.optimize({ passes: ['DoubleToSum'], dump: true });
  assert.deepEqual(operators(model), ['Add', 'Add', 'Mul', 'LeakyRelu']);
  assert.deepEqual(
    report.passes.filter(({ changed }) => changed).map(({ name }) => name),
    ['DoubleToSum'],
  );
  assert.match(report.dumps.find(({ pass }) => pass === 'DoubleToSum').text, /Add\(%x, %x\)/);
  assert.deepEqual(await outputOf(model), before);
  const session = await ort.InferenceSession.create(model.toOnnx());
  const { y } = await session.run({ x: new ort.Tensor('float32', x.data, x.dims) });
  assert.deepEqual([...y.data], before);
});

test('conditions, names of operators, attributes and constants', async () => {
  const seen = [];
  await register({
    name: 'ScaleLeaky',
    pattern: {
      op: 'LeakyRelu',
      as: 'leaky',
      if: ({ attributes }) => attributes.alpha === 0.5,
      inputs: [
        {
          op: 'Mul',
          as: 'product',
          if: (node, { values }) => values.c.tensor.size === 3,
          inputs: [{ value: 'x' }, { constant: 'c' }],
        },
      ],
    },
    rewrite({ root, nodes, values }, builder) {
      seen.push([root.name, nodes.product.name, values.x.name, [...values.c.tensor.data]]);
      const leaky = builder.add('LeakyRelu', [values.x], { like: nodes.leaky, name: 'inner' });
      const factors = builder.constant(new Tensor('float32', [3, 4, 5], [1, 3]));
      return builder.add('Mul', [leaky, factors]);
    },
  });
  const model = await parse(GRAPH);
  const before = await outputOf(model);
  model.optimize({ passes: ['ScaleLeaky'] });
  assert.deepEqual(seen, [['leaky', 'c', 'b', [3, 4, 5]]]);
  assert.deepEqual(operators(model), ['Mul', 'Mul', 'LeakyRelu', 'Mul']);
  assert.match(model.toText(), /LeakyRelu\(%b\) \{alpha = 0\.5/);
  assert.deepEqual(await outputOf(model), before);
});

test('several outputs, attributes of all kinds', async () => {
  await register({
    name: 'SplitAgain',
    pattern: { op: 'Split', inputs: [{ value: 'x' }, { constant: 'sizes' }] },
    rewrite: ({ root, values: { x: whole } }, builder) => {
      if (root.outputs.length !== 2 || root.attributes.axis !== 1) return undefined;
      const sizes = builder.constant(new Tensor('int64', [1n, 2n], [2]));
      const parts = builder.add('Split', [whole, sizes], { attributes: { axis: -1 }, outputs: 2 });
      const first = builder.add('Elu', [parts], { attributes: { alpha: builder.float(1) } });
      return [first, builder.output(parts, 1)];
    },
  });
  const model = await parse(`graph "m" opset 13
    input %x: float32[1, 3]
    const %sizes: int64[2] = {1, 2}
    %p, %q = Split(%x, %sizes) {axis = 1}
    output %p
    output %q`);
  model.optimize({ passes: ['SplitAgain'] });
  assert.deepEqual(operators(model).sort(), ['Elu', 'Split']);
  assert.match(model.toText(), /alpha = 1\.0/);
  assert.deepEqual(
    model.info.outputs.map(({ name }) => name),
    ['p', 'q'],
  );
});

test('a pass has its position in the pipeline, and may run by default', async () => {
  await register({ ...doubleToSum, before: 'SimplifyExpr', runs: 'default' });
  const { passes } = await engineInfo();
  const names = passes.map(({ name }) => name);
  assert.equal(names.indexOf('DoubleToSum') + 1, names.indexOf('SimplifyExpr'));
  const own = passes.find(({ name }) => name === 'DoubleToSum');
  assert.deepEqual(own, {
    name: 'DoubleToSum',
    summary: doubleToSum.summary,
    bound: 0,
    optional: false,
  });
  const model = await parse(GRAPH);
  model.optimize({ disable: ['DoubleToSum'] });
  assert.equal(operators(model).includes('Add'), false);
  model.optimize();
  assert.equal(operators(model).includes('Add'), true);
  const again = await parse(GRAPH);
  const session = await InferenceSession.create(again);
  assert.match(JSON.stringify(session.plan()), /Add/);
  session.dispose();
});

test('a broken rewrite is refused, and the model stays', async () => {
  const model = await parse(GRAPH);
  const text = model.toText();
  const cases = [
    [({ values }, b) => b.add('Nonsense', [values.x]), 'UNSUPPORTED', /Nonsense/],
    [({ root }, b) => b.add('Abs', [root.outputs[0]]), 'INVALID_MODEL', /cycle/i],
    [({ values }, b) => b.add('Cast', [values.x], { attributes: { to: 6 } }), 'TYPE_MISMATCH', /./],
    [({ values }, b) => b.add('Add', [values.x, 'nowhere']), 'INVALID_ARGUMENT', /nowhere/],
    [({ values }, b) => b.add('Add', [values.x, 3]), 'INVALID_ARGUMENT', /no value/],
    [
      () => {
        throw new Error('my own mistake');
      },
      'INVALID_ARGUMENT',
      /my own mistake/,
    ],
    [async () => undefined, 'INVALID_ARGUMENT', /promise/],
  ];
  for (const [rewrite, code, message] of cases) {
    await register({ ...doubleToSum, name: 'Broken', rewrite });
    assert.throws(
      () => model.optimize({ passes: ['Broken'] }),
      (error) => isError(code, { node: 'a', message })(error) && /pass Broken at 'a'/.test(error),
      `${rewrite}`,
    );
    assert.equal(model.toText(), text);
    removePass('Broken');
    registered.delete('Broken');
  }
});

test('a pass without an end is stopped', async () => {
  await register({
    name: 'Forever',
    limit: 100,
    pattern: { op: 'LeakyRelu', inputs: [{ value: 'x' }] },
    rewrite: ({ root, values }, builder) => builder.add('LeakyRelu', [values.x], { like: root }),
  });
  const model = await parse(GRAPH);
  assert.throws(
    () => model.optimize({ passes: ['Forever'] }),
    isError('INVALID_ARGUMENT', { message: /Forever has rewritten 100/, hint: /limit/ }),
  );
});

test('what registerPass refuses', async () => {
  await register(doubleToSum);
  for (const [change, value] of [
    [{}, 'DoubleToSum'],
    [{ name: 'SimplifyExpr' }, 'SimplifyExpr'],
    [{ name: 'two words' }, 'definition.name'],
    [{ name: 'P', after: 'Nowhere' }, 'Nowhere'],
    [{ name: 'P', before: 'FuseOps', after: 'FuseOps' }, 'definition.before'],
    [{ name: 'P', runs: 'often' }, 'definition.runs'],
    [{ name: 'P', limit: 0 }, 'definition.limit'],
    [{ name: 'P', rewrite: 1 }, 'definition.rewrite'],
    [{ name: 'P', pattern: { inputs: [] } }, 'definition.pattern'],
    [{ name: 'P', pattern: { value: 'x' } }, 'definition.pattern'],
    [
      { name: 'P', pattern: { op: 'Mul', inputs: [{ op: 'Add', if: 1 }] } },
      'definition.pattern.inputs[0].if',
    ],
    [{ name: 'P', more: 1 }, 'definition.more'],
  ]) {
    await assert.rejects(
      registerPass({ ...doubleToSum, ...change }),
      isError('INVALID_ARGUMENT', { value }),
      JSON.stringify(change),
    );
  }
  assert.throws(() => removePass('SimplifyExpr'), isError('INVALID_ARGUMENT'));
});

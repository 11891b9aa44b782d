// Models divided among backends: another engine and compiled C run parts of them.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  Tensor,
  generateC,
  loadModel,
  parseModel,
  partition,
  quantize,
} from '../../dist/index.js';
import { runC, skipC } from './compile_c.mjs';
import { MODEL, calibration, testImages } from './support.mjs';

let model, quantized;
before(async () => {
  model = await loadModel(MODEL);
  quantized = await quantize(model, { calibration: calibration(8) });
});
after(() => {
  quantized.dispose();
  model.dispose();
});

/** A runner with onnxruntime-web. */
async function byOrt(part) {
  const session = await ort.InferenceSession.create(part.model.toOnnx());
  return async (feeds) => {
    const given = Object.entries(feeds).map(([name, { type, data, dims }]) => [
      name,
      new ort.Tensor(type, data, dims),
    ]);
    const outputs = await session.run(Object.fromEntries(given));
    return Object.fromEntries(
      Object.entries(outputs).map(([name, { type, data, dims }]) => [
        name,
        new Tensor(type, data, dims),
      ]),
    );
  };
}

/** A runner with C, which is compiled again for every run. */
const byC = async (part) => {
  const { outputs } = part.model.info;
  return async (feeds) => {
    const session = await InferenceSession.create(part.model);
    const expected = await session.run(feeds);
    session.release();
    const shapes = Object.fromEntries(
      Object.entries(feeds).map(([name, { dims }]) => [name, dims]),
    );
    const code = await generateC(part.model, { name: part.name, shapes });
    const types = outputs.map(({ name }) => expected[name]);
    const [results] = runC(code, part.name, [feeds], types);
    return Object.fromEntries(
      outputs.map(({ name, type }, i) => [name, new Tensor(type, results[i], types[i].dims)]),
    );
  };
};

async function outputsOf(session, samples) {
  const outputs = [];
  for (const feeds of samples) outputs.push([...(await session.run(feeds)).logits.data]);
  session.release();
  return outputs;
}

test('a float network with its convolutions in another engine', async () => {
  const parts = await partition(model, {
    backends: [
      {
        name: 'ort',
        operators: ['Conv', 'Relu'],
        patterns: [['Conv', 'BatchNormalization', 'Relu']],
      },
    ],
  });
  const backends = new Set(parts.parts.map(({ backend }) => backend));
  assert.deepEqual(backends, new Set(['ort', null]));
  const session = await parts.createSession({ ort: byOrt });
  parts.dispose();
  assert.deepEqual(session.inputNames, ['image']);
  const samples = testImages(2);
  const got = await outputsOf(session, samples);
  const expected = await outputsOf(await InferenceSession.create(model), samples);
  for (const [i, logits] of got.entries()) {
    for (const [j, value] of logits.entries()) {
      assert.ok(Math.abs(value - expected[i][j]) < 1e-4 * Math.max(1, Math.abs(value)));
    }
  }
});

test('an integer network with what has C as C, to the bit', { skip: skipC }, async () => {
  const parts = await partition(quantized, {
    backends: [{ name: 'c', operators: 'c', maxOperators: 6, minMacs: 1 }],
    shapes: { image: [1, 1, 28, 28] },
  });
  assert.ok(parts.parts.filter(({ backend }) => backend === 'c').length >= 2);
  assert.ok(parts.parts.every(({ backend, macs }) => backend === null || macs >= 1));
  const session = await parts.createSession({ c: byC });
  const samples = testImages(1);
  const expected = await outputsOf(await InferenceSession.create(quantized), samples);
  assert.deepEqual(await outputsOf(session, samples), expected);
  parts.dispose();
});

test('alternatives, members that may be missing, and conditions', async (t) => {
  const chains = await parseModel(`graph "g" opset 13
input %x: float32[1, 2, 4, 4]
const %w: float32[2, 2, 1, 1] = {1, 2, 3, 4}
const %v: float32[2, 2, 3, 3] = {${Array.from({ length: 36 }, (_, i) => i % 5).join(', ')}}
const %lo: float32[] = {0}
const %hi: float32[] = {6}
%a = Conv(%x, %w) "c1"
%b = Relu(%a) "r1"
%c = Conv(%b, %v) {pads = [1, 1, 1, 1]} "c2"
%d = Clip(%c, %lo, %hi) "k2"
%e = Add(%b, %d) "s2"
%f = Conv(%e, %w) "c3"
%g = Add(%f, %x) "s3"
%h = Relu(%g) "r3"
output %h`);
  t.after(() => chains.dispose());
  const found = async (patterns, rest = {}) => {
    const divided = await partition(chains, { backends: [{ name: 'b', patterns, ...rest }] });
    const composites = divided.parts.flatMap((part) => part.composites);
    divided.dispose();
    return composites.map(({ pattern, nodes }) => [
      pattern,
      nodes.map(({ name }) => name).join(' '),
    ]);
  };
  const activation = { op: ['Relu', 'Clip'], optional: true };
  assert.deepEqual(await found([['Conv', { op: 'Add', optional: true }, activation]]), [
    ['Conv+Add?+Relu|Clip?', 'c1 r1'],
    ['Conv+Add?+Relu|Clip?', 'c2 k2'],
    ['Conv+Add?+Relu|Clip?', 'c3 s3 r3'],
  ]);
  // The longest form is taken; a pattern behind takes what the first one has left.
  assert.deepEqual(await found([['Conv', 'Relu'], { name: 'conv', nodes: ['Conv', activation] }]), [
    ['Conv+Relu', 'c1 r1'],
    ['conv', 'c2 k2'],
    ['conv', 'c3'],
  ]);
  const seen = [];
  const pointwise = {
    op: 'Conv',
    if: (node) => {
      seen.push(node);
      return node.inputValues[1].constant && node.inputValues[1].dims[2] === 1;
    },
  };
  const residual = {
    op: 'Add',
    if: ({ inputValues }, before) =>
      before.length === 1 && inputValues.every(({ dims }) => dims.length === 4),
  };
  assert.deepEqual(await found([[pointwise, residual]]), [['Conv+Add', 'c3 s3']]);
  const [, second] = seen;
  assert.deepEqual(second.attributes, { pads: [1, 1, 1, 1] });
  assert.deepEqual(
    second.inputValues.map(({ name, type, dims, constant }) => [name, type, dims, constant]),
    [
      ['b', 'float32', [1, 2, 4, 4], false],
      ['v', 'float32', [2, 2, 3, 3], true],
    ],
  );
  assert.deepEqual(second.outputValues[0].dims, [1, 2, 4, 4]);
  assert.deepEqual(seen[0].inputValues[1].data, [1, 2, 3, 4]);
  assert.equal(second.inputValues[1].data, undefined);
  const bounded = { op: 'Clip', if: ({ inputValues }) => inputValues[2].data[0] === 6 };
  assert.deepEqual(await found([['Conv', bounded]]), [['Conv+Clip', 'c2 k2']]);
  // Nobody else may read what is computed on the way: "b" has two readers.
  assert.deepEqual(await found([['Relu', 'Conv']]), []);
  assert.deepEqual(await found([['Conv', 'Clip']], { maxOperators: 1 }), []);
  await assert.rejects(
    found([
      [
        {
          op: 'Conv',
          if: () => {
            throw new Error('my own');
          },
        },
      ],
    ]),
    /my own/,
  );
});

test('a backend gets its composites, and gives what runs them', async (t) => {
  const given = [];
  const divided = await partition(model, {
    backends: [
      {
        name: 'npu',
        patterns: [['Conv', { op: 'BatchNormalization', optional: true }, 'Relu']],
        join: false,
        compile: async (part) => {
          given.push(part);
          const session = await InferenceSession.create(part.model);
          return { run: (feeds) => session.run(feeds), dispose: () => session.dispose() };
        },
      },
    ],
  });
  t.after(() => divided.dispose());
  const session = await divided.createSession();
  const samples = testImages(2);
  const got = await outputsOf(session, samples);
  assert.deepEqual(got, await outputsOf(await divided.createSession(), samples));
  const expected = await outputsOf(
    await InferenceSession.create(model, { optimize: false }),
    samples,
  );
  for (const [i, logits] of got.entries()) {
    for (const [j, value] of logits.entries()) {
      assert.ok(Math.abs(value - expected[i][j]) < 1e-4 * Math.max(1, Math.abs(value)));
    }
  }
  assert.ok(given.length > 2);
  for (const { model: own, composites } of given) {
    const { inputs, outputs, nodes } = own.info;
    assert.equal(composites.length, 1);
    const [{ pattern, nodes: members, inputs: read, output }] = composites;
    assert.equal(pattern, 'Conv+BatchNormalization?+Relu');
    assert.deepEqual(
      members.map(({ name, op }) => [name, op]),
      nodes.map(({ name, op }) => [name, op]),
    );
    assert.deepEqual(
      read,
      inputs.map(({ name }) => name),
    );
    assert.deepEqual(
      [output],
      outputs.map(({ name }) => name),
    );
  }
});

test('all in one part, or none', async () => {
  const whole = await partition(quantized, {
    backends: [{ name: 'c', operators: 'c' }],
    shapes: { image: [1, 1, 28, 28] },
  });
  assert.deepEqual(
    whole.parts.map(({ name, backend }) => [name, backend]),
    [['part0', 'c']],
  );
  assert.deepEqual(whole.parts[0].model.info.nodes, quantized.integerModel.info.nodes);
  whole.dispose();
  const none = await partition(model, {
    backends: [{ name: 'gpu', operators: ({ op }) => op === 'Conv', minMacs: 1e12 }],
  });
  assert.deepEqual(
    none.parts.map(({ backend }) => backend),
    [null],
  );
  const session = await none.createSession({});
  assert.deepEqual(
    await outputsOf(session, testImages(1)),
    await outputsOf(await InferenceSession.create(model), testImages(1)),
  );
  none.dispose();
});

test('outputs that are inputs or constants', async (t) => {
  const odd = await parseModel(
    'graph "g" opset 13\ninput %x: float32[2]\nconst %w: float32[2] = {1, 2}\n%y = Relu(%x)\noutput %x\noutput %w\noutput %y',
  );
  t.after(() => odd.dispose());
  const parts = await partition(odd, { backends: [] });
  t.after(() => parts.dispose());
  const session = await parts.createSession({});
  const out = await session.run({ x: new Tensor('float32', [-3, 3], [2]) });
  session.release();
  assert.deepEqual([...out.x.data, ...out.w.data, ...out.y.data], [-3, 3, 1, 2, 0, 3]);
});

test('what cannot be', async (t) => {
  const refused = (backends, pattern) =>
    assert.rejects(partition(model, { backends }), (error) => {
      assert.equal(error.code, 'INVALID_ARGUMENT');
      assert.match(error.message, pattern);
      return true;
    });
  await refused([{ operators: ['Conv'] }], /has no name/);
  await refused([{ name: 'a' }, { name: 'a' }], /two backends/);
  await refused([{ name: 'a', operators: 'Conv' }], /operators is/);
  await refused([{ name: 'a', operators: [1] }], /operators is/);
  await refused([{ name: 'a', patterns: [[]] }], /patterns/);
  await refused([{ name: 'a', patterns: ['Conv'] }], /patterns\[0\] is no list/);
  await refused([{ name: 'a', patterns: 'Conv' }], /patterns is/);
  await refused([{ name: 'a', patterns: [['']] }], /patterns\[0\]\[0\] is ""/);
  await refused([{ name: 'a', patterns: [[{ op: [] }]] }], /\[0\]\.op is/);
  await refused([{ name: 'a', patterns: [[{ op: 'Conv', optional: true }]] }], /no operator/);
  await refused([{ name: 'a', patterns: [[{ op: 'Conv', if: true }]] }], /\.if must be/);
  await refused([{ name: 'a', patterns: [[{ op: 'Conv', optinal: true }]] }], /optinal/);
  await refused([{ name: 'a', patterns: [{ name: '', nodes: ['Conv'] }] }], /has no name/);
  await refused([{ name: 'a', patterns: [Array(65).fill('Conv')] }], /array of 65/);
  const named = (...nodes) => [{ name: 'a', patterns: [nodes] }];
  const add = { op: 'Add', inputs: ['a', 'b'] };
  await refused(named({ op: 'Conv', inputs: 'x' }), /\[0\]\.inputs is "x"/);
  await refused(named({ op: 'Conv', outputs: [''] }), /\[0\]\.outputs is/);
  await refused(named({ op: 'Conv', outputs: [] }), /\[0\]\.outputs is/);
  await refused(
    named({ op: 'Conv', outputs: ['a'] }, { op: 'Relu', outputs: ['a'] }),
    /two members .* compute "a"/,
  );
  await refused(
    named('Conv', { op: 'Relu', inputs: ['x'] }, add),
    /no value connects .*\[1\] with/,
  );
  await refused(
    named(...Array(16).fill('Conv'), { op: 'Relu', outputs: ['a'] }),
    /17 members and names values/,
  );
  await refused(
    named('Conv', ...Array(7).fill({ op: 'Relu', optional: true }), { op: 'Relu', outputs: ['a'] }),
    /more than 6 members/,
  );
  await refused([{ name: 'a', compile: 'c' }], /compile must be/);
  await refused([{ name: 'a', minMacs: -1 }], /minMacs/);
  await refused([{ name: 'a', maxOps: 1 }], /maxOps/);
  await refused([{ name: 'a', operators: 'c' }], /shape of input "image" is \[N, 1, 28, 28\]/);
  await refused('c', /backends is/);
  await assert.rejects(partition({}, { backends: [] }), { code: 'INVALID_ARGUMENT' });
  const parts = await partition(model, { backends: [{ name: 'ort', operators: ['Gemm'] }] });
  t.after(() => parts.dispose());
  await assert.rejects(parts.createSession({}), /nothing runs the parts of backend "ort"/);
  await assert.rejects(
    parts.createSession({
      ort: () => {
        throw new Error('no GPU');
      },
    }),
    /no GPU/,
  );
  const session = await parts.createSession({ ort: () => () => ({}) });
  await assert.rejects(session.run({}), /input "image" is missing/);
  await assert.rejects(session.run({ picture: testImages(1)[0].image }), /no input "picture"/);
  await assert.rejects(session.run(testImages(1)[0]), /the runner of part1 gave no "logits"/);
  session.release();
  await assert.rejects(
    parts.createSession({ ort: () => ({}) }),
    /backend "ort" made an Object of part1/,
  );
});

// CombineParallelConv2D and the halves of FoldScaleAxis against ONNX Runtime.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { parseModel } from '../../dist/index.js';

const owned = [];
/** Disposes of a model behind the test. */
function own(model) {
  owned.push(model);
  return model;
}
const parse = async (text) => own(await parseModel(text));
afterEach(() => owned.splice(0).forEach((model) => model.dispose()));

/** Repeatable numbers in [-1, 1). */
function noise(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

const numbers = (count, next) => Array.from({ length: count }, () => next().toFixed(6)).join(', ');
const constant = (name, dims, next) =>
  `const %${name}: float32[${dims.join(', ')}] = {${numbers(
    dims.reduce((a, b) => a * b, 1),
    next,
  )}}`;

async function outputsOf(model, x) {
  const session = await ort.InferenceSession.create(model.toOnnx(), {
    graphOptimizationLevel: 'disabled',
  });
  const results = await session.run({ x: new ort.Tensor('float32', x, [1, 4, 6, 6]) });
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, [...data]]));
}

function expectNear(got, wanted) {
  for (const [name, values] of Object.entries(wanted)) {
    values.forEach((value, i) =>
      assert.ok(Math.abs(value - got[name][i]) <= 1e-5 * (1 + Math.abs(value)), `${name} ${i}`),
    );
  }
}

test('branches of an Inception block become one convolution', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const next = noise(seed);
    const branches = [1, 2, 3].map((branch) => {
      const channels = 1 + Math.floor((next() + 1) * 3);
      const bias = next() > 0;
      return {
        channels,
        constants: [
          constant(`w${branch}`, [channels, 4, 3, 3], next),
          constant(`d${branch}`, [channels, 1, 1], next),
          ...(bias ? [constant(`b${branch}`, [channels], next)] : []),
        ],
        nodes: [
          `%c${branch} = Conv(%x, %w${branch}${bias ? `, %b${branch}` : ''}) {pads = [1, 1, 1, 1]}`,
          `%a${branch} = Add(%c${branch}, %d${branch})`,
          `%r${branch} = Relu(%a${branch})`,
        ],
      };
    });
    const model = await parse(
      [
        'graph "block" opset 13',
        'input %x: float32[1, 4, 6, 6]',
        ...branches.flatMap(({ constants }) => constants),
        ...branches.flatMap(({ nodes }) => nodes),
        ...[1, 2, 3].map((branch) => `output %r${branch}`),
      ].join('\n'),
    );
    const x = Float32Array.from({ length: 144 }, next);
    const wanted = await outputsOf(model, x);
    model.optimize({ passes: ['CombineParallelConv2D', 'FoldConstant'] });
    assert.deepEqual(
      model.info.nodes.map(({ op }) => op),
      ['Conv', 'Add', 'Relu', 'Split'],
    );
    expectNear(await outputsOf(model, x), wanted);
  }
});

test('the halves of FoldScaleAxis', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const next = noise(seed);
    const positive = () => Math.abs(next()) + 0.1;
    const text = [
      'graph "scales" opset 13',
      'input %x: float32[1, 4, 6, 6]',
      constant('before', [4, 1, 1], positive),
      constant('w', [3, 4, 3, 3], next),
      constant('b', [3], next),
      constant('behind', [3, 1, 1], positive),
      '%p = Mul(%x, %before)',
      '%q = Relu(%p)',
      '%c = Conv(%q, %w, %b) {pads = [1, 1, 1, 1]}',
      '%r = Relu(%c)',
      '%y = Mul(%r, %behind)',
      'output %y',
    ].join('\n');
    const x = Float32Array.from({ length: 144 }, next);
    const original = await parse(text);
    const wanted = await outputsOf(original, x);
    for (const [passes, left] of [
      [['FoldScaleAxisBackward'], ['Mul', 'Relu', 'Conv', 'Relu']],
      [['FoldScaleAxisForward'], ['Relu', 'Conv', 'Relu', 'Mul']],
      [
        ['FoldScaleAxisBackward', 'FoldScaleAxisForward'],
        ['Relu', 'Conv', 'Relu'],
      ],
    ]) {
      const model = await parse(text);
      model.optimize({ passes });
      assert.deepEqual(
        model.info.nodes.map(({ op }) => op),
        left,
      );
      expectNear(await outputsOf(model, x), wanted);
    }
  }
});

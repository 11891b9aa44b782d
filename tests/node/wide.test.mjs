// 16-bit activations with 8-bit weights as integers: every operator between Q/DQ pairs against ONNX
// Runtime, models of quantize() and train(), their files, and pretrained networks (in ../shared).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  configOf,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
  train,
} from 'requant';
import { feedsOf, take } from 'requant/dataset';
import { randomSource } from './ort_operators.mjs';
import {
  compareWithOrt,
  constant,
  float,
  floats,
  integers,
  product,
  scale,
} from './ort_quantized.mjs';
import { dataOf, modelPath, networks, skipShared } from './shared_models.mjs';
import { MODEL, agreement, calibration, ortOutputs, outputsOf, testImages } from './support.mjs';

const pick = (random, list) => list[Math.floor(random() * list.length)];
const zeroOf = (random, type) =>
  type === 'int16' ? pick(random, [0, 0, -500, 12345]) : pick(random, [0, 32768, 20000]);

const conv =
  (kernel, { groups = 1, channels = 6, outputs = 8 } = {}) =>
  (random) => {
    const dims = [outputs, channels / groups, kernel, kernel];
    const pad = kernel >> 1;
    return {
      inputs: [[1, channels, 9, 7]],
      body: [
        constant('wq', 'int8', dims, integers(random, product(dims), -127, 127)),
        constant(
          'ws',
          'float32',
          [outputs],
          Array.from({ length: outputs }, () => float(0.003 + random() * 0.01)),
        ),
        constant('wz', 'int8', [outputs], new Array(outputs).fill(0)),
        '%w = DequantizeLinear(%wq, %ws, %wz) {axis = 0}',
        `%f = Conv(%a, %w) {group = ${groups}, pads = [${pad}, ${pad}, ${pad}, ${pad}]}`,
      ],
      range: 3 * Math.sqrt((channels / groups) * kernel * kernel),
      out: [1, outputs, 9, 7],
    };
  };
const matrix =
  (operator, rest = '') =>
  (random) => ({
    inputs: [[5, 12]],
    body: [
      constant('wq', 'int8', rest ? [9, 12] : [12, 9], integers(random, 108, -127, 127)),
      scale('ws', 0.01),
      constant('wz', 'int8', [], [0]),
      '%w = DequantizeLinear(%wq, %ws, %wz)',
      `%f = ${operator}(%a, %w)${rest}`,
    ],
    range: 12,
    out: [5, 9],
  });
const alone =
  (operator, { out, body = [], range = 4 } = {}) =>
  () => ({
    inputs: [[1, 6, 8, 7]],
    body: [...body, `%f = ${operator}`],
    range,
    out: out ?? [1, 6, 8, 7],
  });
const pair = (operator) => (random) => ({
  inputs: [[1, 6, 8, 7], pick(random, [[1, 6, 8, 7], [1, 6, 1, 1], [1]])],
  body: [`%f = ${operator}(%a, %b)`],
  range: 8,
  out: [1, 6, 8, 7],
});

/** [name, case, the operator of the plan that shows that it runs in integers]. */
const CASES = [
  ['Conv 1x1', conv(1), 'CombineSums16'],
  ['Conv 3x3', conv(3), 'CombineSums16'],
  ['grouped Conv', conv(3, { groups: 2 }), 'CombineSums16'],
  ['depthwise Conv', conv(3, { groups: 8, channels: 8 }), 'QLinearConv16'],
  ['MatMul', matrix('MatMul'), 'CombineSums16'],
  ['Gemm', matrix('Gemm', ' {transB = 1}'), 'CombineSums16'],
  ['Add', pair('Add'), 'QLinearAdd16'],
  ['Sub', pair('Sub'), 'QLinearSub16'],
  ['Mul', pair('Mul'), 'QLinearMul16'],
  [
    'AveragePool',
    alone('AveragePool(%a) {kernel_shape = [2, 2]}', { out: [1, 6, 7, 6] }),
    'QLinearAveragePool16',
  ],
  [
    'GlobalAveragePool',
    alone('GlobalAveragePool(%a)', { out: [1, 6, 1, 1] }),
    'QLinearGlobalAveragePool16',
  ],
  ['MaxPool', alone('MaxPool(%a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}'), undefined],
  ['Relu', alone('Relu(%a)'), undefined],
  ['Sigmoid', alone('Sigmoid(%a)', { range: 1 }), 'Lut16'],
  ['HardSwish', alone('HardSwish(%a)'), 'Lut16'],
  ['Transpose', alone('Transpose(%a) {perm = [0, 2, 3, 1]}', { out: [1, 8, 7, 6] }), undefined],
  [
    'Concat',
    () => ({
      inputs: [
        [1, 6, 8, 7],
        [1, 2, 8, 7],
      ],
      body: ['%f = Concat(%a, %b) {axis = 1}'],
      range: 4,
      out: [1, 8, 8, 7],
    }),
    undefined,
  ],
];

/** The operator between pairs of that type; `types` of the inputs and of the output. */
function textOf(random, made, types) {
  const names = ['a', 'b'];
  const lines = ['graph "wide" opset 21'];
  const feeds = [];
  for (const [at, dims] of made.inputs.entries()) {
    const name = names[at];
    lines.push(
      `input %${name}0: float32[${dims.join(', ')}]`,
      scale(`${name}s`, 4 / 32768),
      constant(`${name}z`, types[0], [], [zeroOf(random, types[0])]),
      `%${name}q = QuantizeLinear(%${name}0, %${name}s, %${name}z)`,
      `%${name} = DequantizeLinear(%${name}q, %${name}s, %${name}z)`,
    );
    feeds.push({
      name: `${name}0`,
      type: 'float32',
      dims,
      data: Float32Array.from(floats(random, product(dims), 8)),
    });
  }
  const steps = types[1].endsWith('16') ? 32768 : 128;
  const zero = types[1].endsWith('16') ? zeroOf(random, types[1]) : types[1] === 'int8' ? 3 : 128;
  const step = Math.fround(made.range / steps);
  lines.push(
    ...made.body,
    scale('ys', step),
    constant('yz', types[1], [], [zero]),
    '%yq = QuantizeLinear(%f, %ys, %yz)',
    `%y: float32[${made.out.join(', ')}] = DequantizeLinear(%yq, %ys, %yz)`,
    'output %y',
  );
  return { text: lines.join('\n'), feeds, step };
}

describe('operators of 16-bit codes and ONNX Runtime', () => {
  for (const [name, make, operator] of CASES) {
    test(name, async () => {
      const random = randomSource(7);
      for (const types of [
        ['int16', 'int16'],
        ['uint16', 'uint16'],
        ['uint16', 'int16'],
        ['int16', 'uint8'],
        ['uint16', 'int8'],
      ]) {
        const made = make(random);
        const { text, feeds, step } = textOf(random, made, types);
        const { count, different, worst, steps } = await compareWithOrt(text, feeds, 'fixed');
        const what = `${name} ${types.join(' to ')}: ${different} of ${count} differ`;
        // ONNX Runtime adds floats: where a sum lies within its error of a half, codes differ by one.
        assert.ok(worst <= 1.01 * step, `${what}, by up to ${worst / step} steps`);
        assert.ok(different <= 0.06 * count + 1, what);
        if (operator)
          assert.ok(
            steps.some((op) => op.split('+').includes(operator)),
            `${what}: ${steps}`,
          );
      }
    });
  }
});

/** The largest difference of two lists of outputs, as a share of the largest number. */
function relative(outputs, wanted) {
  const numbers = wanted.flatMap((row) => [...row]);
  const largest = Math.max(...numbers.map(Math.abs));
  const others = outputs.flatMap((row) => [...row]);
  return Math.max(...numbers.map((number, at) => Math.abs(number - others[at]))) / largest;
}

const model = await loadModel(MODEL);
const samples = calibration(24);
const images = testImages(40);
const reals = await outputsOf(await InferenceSession.create(model), images);

function assertIntegers(session, what) {
  for (const { kernel, op } of session.plan().steps)
    assert.notEqual(kernel, 'reference', `${what}: ${op}`);
}

const CONFIGS = {
  symmetric: { activations: { bits: 16, symmetric: true } },
  asymmetric: { activations: { bits: 16 } },
  signed: { activations: { bits: 16, signed: true } },
  'twelve bits': { activations: { bits: 12 } },
  'powers of two': { activations: { bits: 16, symmetric: true, powerOf2: true } },
  'integers at the ends': { activations: { bits: 16 }, floatOutputs: false },
  'convolutions beside 8 bits': { operatorTypes: { Conv: { activations: { bits: 16 } } } },
  'matrices beside 8 bits': { operatorTypes: { Gemm: { activations: { bits: 16 } } } },
};

describe('models with 16-bit activations', () => {
  for (const [name, config] of Object.entries(CONFIGS)) {
    test(name, async () => {
      const quantized = await quantize(model, { calibration: samples, config });
      assert.ok(!quantized.config.operators.some(({ simulated }) => simulated));
      const session = await InferenceSession.create(quantized);
      const outputs = await outputsOf(session, images);
      assertIntegers(session, name);
      assert.ok(
        session.plan().steps.some(({ op }) => /16|SplitBytes/.test(op)),
        name,
      );
      assert.ok(agreement(outputs, reals) >= 0.95, name);
      // Both modes and a saved plan: one arithmetic.
      const other = await InferenceSession.create(quantized, { requantize: 'float' });
      if (!name.includes('beside')) assert.deepEqual(await outputsOf(other, images), outputs);
      const planned = await InferenceSession.create(session.toPlan());
      assert.deepEqual(await outputsOf(planned, images), outputs);
      for (const format of ['qdq', 'qoperator']) {
        const bytes = quantized.toOnnx({ format });
        const read = await InferenceSession.create(bytes);
        const again = await outputsOf(read, images);
        assertIntegers(read, `${name} as ${format}`);
        // Files run by float multipliers, which is one arithmetic only where all has 16 bits.
        const most = name.includes('beside') ? 0.02 : 0;
        assert.ok(relative(again, outputs) <= most, `${name} as ${format}, read`);
        const theirs = relative(await ortOutputs(bytes, images), outputs);
        assert.ok(theirs <= Math.max(most, 0.0006), `${name} as ${format}: ${theirs}`);
      }
      const record = await readQuantized(await loadModel(quantized.toOnnx()));
      const from = await outputsOf(await InferenceSession.create(record), images);
      assert.deepEqual(from, outputs);
    });
  }

  test('training goes on from 16 bits and makes such a model', async () => {
    const config = { activations: { bits: 16 }, weights: { bits: 4 } };
    const quantized = await quantize(model, { calibration: samples, config });
    const trained = await train(quantized, {
      dataset: calibration(64).map((feeds) => ({ feeds })),
      epochs: 1,
      batchSize: 16,
      loss: 'scores',
    });
    assert.ok(trained.config.operators.some(({ inputs }) => inputs[0]?.bits === 16));
    const session = await InferenceSession.create(trained);
    const outputs = await outputsOf(session, images);
    assertIntegers(session, 'trained');
    const theirs = relative(await ortOutputs(trained.toOnnx(), images), outputs);
    assert.ok(theirs <= 0.0006, `${theirs}`);
  });

  test('the record is a config as well', async () => {
    const config = { activations: { bits: 16 }, recover: [] };
    const first = await quantize(model, { calibration: samples, config });
    const again = await quantize(model, { calibration: [], config: configOf(first.config) });
    assert.deepEqual(again.toOnnx(), first.toOnnx());
  });
});

/**
 * A Q/DQ file whose activations are floats in the same ranges and whose weights stay codes: Clips take the
 * place of pairs with 16-bit codes.
 */
async function withFloatActivations(bytes) {
  const text = (await loadModel(bytes)).toText({ maxConstantElements: 2 ** 30 });
  const scalars = new Map(
    [...text.matchAll(/^const %(\S+): \w+\[\] = \{(\S+)\}/gm)].map(([, name, value]) => [
      name,
      Number(value),
    ]),
  );
  const rounded = new Set();
  const quantizers =
    /^(%(\S+)): (u?)int16(\[.*?\]) = QuantizeLinear\(%(\S+), %(\S+), %(\S+)\).*$/gm;
  const dequantizers = /^(%.*? = )DequantizeLinear\(%([^,\s]+),.*$/gm;
  const opened = text.replace(quantizers, (_, value, name, unsigned, dims, from, scale, zero) => {
    rounded.add(name);
    const least = (unsigned ? 0 : -32768) - scalars.get(zero);
    const [low, high] = [least, least + 65535].map((code) =>
      Math.fround(code * scalars.get(scale)),
    );
    return [
      `const %${name}_low: float32[] = {${low}}`,
      `const %${name}_high: float32[] = {${high}}`,
      `${value}: float32${dims} = Clip(%${from}, %${name}_low, %${name}_high)`,
    ].join('\n');
  });
  assert.ok(rounded.size > 0);
  const plain = opened.replace(dequantizers, (line, head, from) =>
    rounded.has(from) ? `${head}Identity(%${from})` : line,
  );
  return (await parseModel(plain)).toOnnx();
}

/** The signal-to-noise ratio of lists of numbers in dB. */
function decibels(lists, wanted) {
  let signal = 0;
  let noise = 0;
  for (const [at, list] of lists.entries()) {
    for (const [index, value] of list.entries()) {
      signal += wanted[at][index] ** 2;
      noise += (value - wanted[at][index]) ** 2;
    }
  }
  return 10 * Math.log10(signal / noise);
}

describe('pretrained networks with 16-bit activations', { skip: skipShared }, () => {
  for (const name of ['resnet20_cifar10', 'mobilenet_v1_025_224']) {
    test(name, async () => {
      const network = networks.find((one) => one.name === name);
      const data = dataOf(network);
      const float32 = await loadModel(modelPath(name));
      const quantized = await quantize(float32, {
        calibration: feedsOf(take(data.calibration, 16)),
        config: { activations: { bits: 16 }, recover: ['round_weights', 'bias_correction'] },
      });
      const session = await InferenceSession.create(quantized);
      const feeds = [];
      for await (const sample of take(data.test, 12)) feeds.push(sample.feeds);
      const outputs = await outputsOf(session, feeds);
      assertIntegers(session, name);
      // Rounding activations adds less than a hundredth of the power of the error that the weights
      // make by themselves, with float activations and in another engine.
      const bytes = quantized.toOnnx();
      const weightsAlone = await ortOutputs(await withFloatActivations(bytes), feeds);
      const { logits, classes } = data;
      const float = feeds.map((_, row) => logits.slice(row * classes, (row + 1) * classes));
      const byWeights = decibels(weightsAlone, float);
      const byActivations = decibels(outputs, weightsAlone);
      assert.ok(byActivations > byWeights + 20, `${byActivations} dB beside ${byWeights} dB`);
      const theirs = relative(await ortOutputs(bytes, feeds), outputs);
      assert.ok(theirs < 0.002, `${theirs} of the largest score`);
    });
  }
});

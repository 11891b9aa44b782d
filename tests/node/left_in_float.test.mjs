// quantize() reports operators that stay in float and options without effect.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  configOf,
  engineInfo,
  loadModel,
  parseModel,
  quantize,
  quantizeDynamic,
  quantizeWeights,
  substitute,
} from '../../dist/index.js';
import { isError } from './support.mjs';

const numbers = (count, seed) =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.7 + seed));
const list = (count, seed) => Array.from(numbers(count, seed), (x) => x.toFixed(4)).join(', ');

const branches = () =>
  parseModel(`graph "g" opset 17
input %x: float32[2, 32]
input %c: bool[]
const %shared: float32[32, 64] = {${list(32 * 64, 1)}}
%y = If(%c, %x, %shared, %x, %shared) {then_branch = { graph "" opset 17
capture %a: float32[2, 32]
capture %s: float32[32, 64]
%p = MatMul(%a, %s) "first"
output %p
}, else_branch = { graph "" opset 17
capture %a: float32[2, 32]
capture %s: float32[32, 64]
const %own: float32[64, 64] = {${list(64 * 64, 2)}}
%q = MatMul(%a, %s) "second"
%r = MatMul(%q, %own) "third"
output %r
}} "if"
output %y
`);

const feedsOf = (taken) => ({
  x: new Tensor('float32', numbers(64, 3), [2, 32]),
  c: new Tensor('bool', Uint8Array.of(taken), []),
});

async function outputs(model, feeds) {
  const session = await InferenceSession.create(model);
  const { y } = await session.run(feeds);
  session.dispose();
  return y.data;
}

function decibels(got, want) {
  let signal = 0;
  let noise = 0;
  want.forEach((number, i) => {
    signal += number ** 2;
    noise += (got[i] - number) ** 2;
  });
  return 10 * Math.log10(signal / noise);
}

test('weights in bodies are quantized, shared ones once, and run from their files', async () => {
  const model = await branches();
  const bytes = model.toOnnx();
  const made = [
    [await quantizeWeights(model, { bits: 8 }), 35, 0.4],
    [await quantizeWeights(model, { bits: 4, blockSize: 16 }), 15, 0.3],
    [
      await quantizeWeights(model, { bits: 4, format: 'matmulnbits', int8Activations: false }),
      14,
      0.25,
    ],
    // Codes by rows take twenty operators, some kilobytes of such a small file.
    [await quantizeDynamic(model), 30, 0.55],
    [await quantizeDynamic(model, { perToken: false }), 30, 0.4],
  ];
  for (const [quantized, least, share] of made) {
    assert.deepEqual(quantized.floatOperators, []);
    assert.deepEqual(quantized.warnings, []);
    const file = quantized.toOnnx();
    assert.ok(file.length < share * bytes.length, `${file.length} of ${bytes.length}`);
    const read = await loadModel(file);
    for (const taken of [0, 1]) {
      const want = await outputs(model, feedsOf(taken));
      for (const source of [quantized, read]) {
        const db = decibels(await outputs(source, feedsOf(taken)), want);
        assert.ok(db > least, `${db} dB of ${least}`);
      }
    }
    read.dispose();
    quantized.dispose();
  }
  model.dispose();
});

test('quantize() lists the operators of bodies and quantizes their weights', async () => {
  const model = await branches();
  const bytes = model.toOnnx();
  const calibration = [feedsOf(0), feedsOf(1)];
  const quantized = await quantize(model, { calibration });
  const inside = quantized.config.operators.filter(({ inBody }) => inBody);
  assert.deepEqual(inside.map(({ name, quantized }) => [name, quantized]).toSorted(), [
    ['if/else_branch/second', true],
    ['if/else_branch/third', true],
    ['if/then_branch/first', true],
  ]);
  assert.deepEqual(quantized.config.warnings, []);
  const file = quantized.toOnnx();
  // The operators around codes by rows, and the record, take as many bytes as the weights here.
  assert.ok(file.length < 0.65 * bytes.length, `${file.length} of ${bytes.length}`);
  const read = await loadModel(file);
  for (const taken of [0, 1]) {
    const want = await outputs(model, feedsOf(taken));
    for (const source of [quantized, read]) {
      const db = decibels(await outputs(source, feedsOf(taken)), want);
      assert.ok(db > 30, `${db} dB`);
    }
  }
  for (const made of [read, quantized]) made.dispose();

  const floats = async (operators) => {
    const made = await quantize(model, { calibration, config: { operators } });
    const names = made.config.operators
      .filter(({ inBody, quantized }) => inBody && !quantized)
      .map(({ name, reason }) => `${name}: ${reason}`);
    assert.deepEqual(made.config.warnings, []);
    const same = await quantize(model, { calibration, config: configOf(made.config) });
    assert.deepEqual(same.toOnnx(), made.toOnnx());
    same.dispose();
    made.dispose();
    return names.toSorted();
  };
  const because = 'the options keep it in float';
  assert.deepEqual(await floats({ '.*/third': null }), [`if/else_branch/third: ${because}`]);
  assert.equal((await floats({ if: null })).length, 3);
  await assert.rejects(floats({ 'if/else_branch/fourth': null }), isError('INVALID_ARGUMENT'));
  model.dispose();
});

test('what stays float without samples is listed', async () => {
  const model = await parseModel(`graph "g" opset 17
input %x: float32[1, 2, 8, 8]
const %k: float32[8, 2, 3, 3] = {${list(144, 4)}}
%y = Conv(%x, %k) "conv"
output %y
`);
  for (const quantized of [await quantizeWeights(model), await quantizeDynamic(model)]) {
    assert.deepEqual(quantized.floatOperators, [
      {
        name: 'conv',
        type: 'Conv',
        reason: 'Conv is no matrix product and no recurrent layer',
      },
    ]);
    assert.match(quantized.warnings.join(), /^1 of 1 weights stay float: those of 'conv', as Conv/);
    quantized.dispose();
  }
  const samples = [0, 1].map((seed) => ({
    x: new Tensor('float32', numbers(128, seed), [1, 2, 8, 8]),
  }));
  const quantized = await quantize(model, {
    calibration: samples,
    config: { operatorTypes: { Sigmoid: null }, recover: [], recoverSteps: 5 },
  });
  assert.match(quantized.config.warnings.join(), /the type Sigmoid have no effect/);
  assert.match(quantized.config.warnings.join(), /recoverSteps has no effect/);
  quantized.dispose();
  model.dispose();
});

test('a method that is asked for by name and finds nothing to work on is a warning', async () => {
  // One convolution: no pair of layers, no normalization before a product.
  const model = await parseModel(`graph "g" opset 17
input %x: float32[1, 2, 8, 8]
const %k: float32[3, 2, 3, 3] = {${list(54, 1)}}
%y = Conv(%x, %k) "conv"
output %y
`);
  // No layer at all.
  const product = await parseModel(`graph "p" opset 17
input %x: float32[1, 2, 8, 8]
%r = Relu(%x)
%y = Mul(%r, %r)
output %y
`);
  const calibration = [0, 1].map((seed) => ({
    x: new Tensor('float32', numbers(128, seed), [1, 2, 8, 8]),
  }));
  const warningsOf = async (network, config) => {
    const quantized = await quantize(network, { calibration, config });
    const { warnings } = quantized.config;
    quantized.dispose();
    return warnings.filter((warning) => /found nothing|no effect/.test(warning));
  };
  const nothing = (method) =>
    `the recovery method '${method}' found nothing in this network to work on`;
  for (const method of [
    'equalize',
    'equalize_relu6',
    'channel_split',
    'smooth_quant',
    'equalize_activations',
  ]) {
    assert.deepEqual(await warningsOf(model, { recover: [method] }), [nothing(method)]);
  }
  for (const method of [
    'equalize',
    'round_weights',
    'bias_correction',
    'sequential_rounding',
    'adaround',
    'block_reconstruction',
    'learned_steps',
    'empirical_bias',
    'float_sums',
  ]) {
    assert.deepEqual(await warningsOf(product, { recover: [method] }), [nothing(method)]);
  }
  // Methods with an effect, and methods that were not requested, cause no warning.
  for (const recover of [['round_weights'], ['bias_correction'], ['adaround'], undefined, []]) {
    assert.deepEqual(await warningsOf(model, recover ? { recover } : {}), []);
  }
  assert.deepEqual(await warningsOf(product, {}), []);
  assert.deepEqual(await warningsOf(model, { recover: ['round_weights'], recoverSamples: 9 }), [
    'the option recoverSamples has no effect: no method of the option recover keeps samples',
  ]);
  assert.deepEqual(await warningsOf(model, { recover: ['adaround'], recoverSamples: 9 }), []);
  product.dispose();
  model.dispose();
});

test('plans say which forced kernels no step takes', async () => {
  const model = await parseModel(`graph "g" opset 17
input %x: float32[1, 4]
const %w: float32[4, 4] = {${list(16, 1)}}
%y = MatMul(%x, %w) "product"
output %y
`);
  const { kernels } = await engineInfo();
  const scalar = kernels.find(({ family, isa }) => family === 'conv_f32' && isa === 'scalar');
  const taken = await InferenceSession.create(model, { kernels: { conv_f32: scalar.name } });
  assert.deepEqual(taken.plan().warnings, []);
  taken.dispose();
  const session = await InferenceSession.create(model, {
    kernels: { maxpool_f32: kernels.find(({ family }) => family === 'maxpool_f32').name },
  });
  assert.match(session.plan().warnings.join(), /has no effect: no step .* maxpool_f32/);
  session.dispose();
  model.dispose();
});

test('substitute() without passes, and samples that are none', async () => {
  const model = await branches();
  const dataset = [{ feeds: feedsOf(0) }];
  for (const passes of [undefined, []]) {
    await assert.rejects(
      substitute(model, { dataset, passes }),
      isError('INVALID_ARGUMENT', { value: 'options.passes' }),
    );
  }
  for (const name of [undefined, null, 5, Symbol('name')]) {
    await assert.rejects(model.save(name), isError('INVALID_ARGUMENT', { value: 'name' }));
  }
  model.dispose();
});

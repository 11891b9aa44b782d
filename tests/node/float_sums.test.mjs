// Sums of residual blocks in float: in sessions, in exported files, and from the config of a record.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  configOf,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
} from 'requant';
import { randomSource } from './ort_operators.mjs';
import { constant, float, floats, product } from './ort_quantized.mjs';
import { agreement, maxDifference, ortOutputs, outputsOf } from './support.mjs';

const SIZE = 10;
const CHANNELS = 6;

const BLOCKS = 8;

/** Blocks that are wide inside and add a little to a narrow trunk, and classes. */
function residualNetwork() {
  const random = randomSource(3);
  const lines = ['graph "residual" opset 13', `input %x: float32[1, 3, ${SIZE}, ${SIZE}]`];
  const weights = (name, dims, size = 1) => {
    const fan = size * Math.sqrt(12 / product(dims.slice(1)));
    lines.push(constant(name, 'float32', dims, floats(random, product(dims), fan).map(float)));
  };
  const conv = (x, name, outputs, inputs, size) => {
    weights(`${name}_w`, [outputs, inputs, 3, 3], size);
    weights(`${name}_b`, [outputs], 0.1);
    lines.push(`%${name} = Conv(%${x}, %${name}_w, %${name}_b) {pads = [1, 1, 1, 1]}`);
  };
  conv('x', 'sum0', CHANNELS, 3);
  for (let block = 1; block <= BLOCKS; block++) {
    conv(`sum${block - 1}`, `wide${block}`, 32, CHANNELS);
    lines.push(`%relu${block} = Relu(%wide${block})`);
    conv(`relu${block}`, `narrow${block}`, CHANNELS, 32, 0.2);
    lines.push(`%sum${block} = Add(%sum${block - 1}, %narrow${block})`);
  }
  conv(`sum${BLOCKS}`, 'last', 24, CHANNELS);
  weights('fc', [10, 24]);
  lines.push(
    '%end = Relu(%last)',
    '%mean = GlobalAveragePool(%end)',
    '%flat = Flatten(%mean)',
    '%y = Gemm(%flat, %fc) {transB = 1}',
    'output %y',
  );
  return lines.join('\n');
}

function images(count, seed) {
  const random = randomSource(seed);
  return Array.from({ length: count }, () => ({
    x: new Tensor('float32', Float32Array.from(floats(random, 3 * SIZE * SIZE, 2)), [
      1,
      3,
      SIZE,
      SIZE,
    ]),
  }));
}

const model = await parseModel(residualNetwork());
const calibration = images(16, 1);
const test40 = images(40, 2);
const wanted = await outputsOf(await InferenceSession.create(model), test40);
const quantized = await quantize(model, {
  calibration,
  config: { floatOutputs: true, recover: ['float_sums'] },
});
const ours = await outputsOf(await InferenceSession.create(quantized), test40);

/**
 * The noise without the part that all samples have in common, the mean error of each of the ten outputs,
 * which is chance.
 */
function noise(outputs, reference) {
  let sum = 0;
  for (let j = 0; j < 10; j++) {
    const errors = outputs.map((output, i) => output[j] - reference[i][j]);
    const mean = errors.reduce((a, b) => a + b) / errors.length;
    for (const error of errors) sum += (error - mean) ** 2;
  }
  return sum;
}

test('sums in float take noise away, and the record says which they are', async () => {
  const plain = await quantize(model, { calibration, config: { floatOutputs: true, recover: [] } });
  const rounded = await outputsOf(await InferenceSession.create(plain), test40);
  const more = images(200, 4);
  const outputs = async (from) => outputsOf(await InferenceSession.create(from), more);
  const reference = await outputs(model);
  const [less, all] = [quantized, plain].map(outputs);
  const [left, before] = [noise(await less, reference), noise(await all, reference)];
  assert.ok(left < 0.7 * before, `${left} of ${before}`);
  assert.ok(agreement(ours, wanted) >= agreement(rounded, wanted));
  const [step] = quantized.config.recovery;
  assert.match(
    step.detail,
    /^8 sums, from '.*' on, and what 9 layers add to them stay in float: 10200 values$/,
  );
  assert.ok(step.afterDb > step.beforeDb + 2);
  const { operators } = quantized.config;
  for (const { type, quantized: integer, reason } of operators) {
    assert.equal(reason, type === 'Add' ? 'float_sums keeps it in float' : undefined, type);
    assert.equal(integer, type !== 'Add');
  }
  const layers = operators.filter(({ floatOutput }) => floatOutput);
  // The last layer never had a grid for its result.
  const states = layers.map(({ outputs }) => outputs[0].state).sort();
  assert.deepEqual(states, [...new Array(BLOCKS + 1).fill('DEQUANTIZED'), 'FP32']);
});

test('exports run in ONNX Runtime as here, and come back', async () => {
  const session = await InferenceSession.create(quantized, { requantize: 'float' });
  const like = await outputsOf(session, test40);
  const largest = Math.max(...wanted.flatMap((output) => [...output].map(Math.abs)));
  for (const format of ['qdq', 'qoperator']) {
    const bytes = quantized.toOnnx({ format });
    const theirs = await ortOutputs(bytes, test40);
    assert.equal(agreement(theirs, like), 1, format);
    theirs.forEach((y, i) => assert.ok(maxDifference(y, like[i]) < 0.01 * largest, format));
    const read = await readQuantized(await loadModel(bytes));
    const again = await outputsOf(await InferenceSession.create(read), test40);
    assert.deepEqual(again, ours, format);
  }
});

test('the config of the record gives the same network without calibration', async () => {
  const config = configOf(quantized.config);
  assert.equal(Object.values(config.operators).filter((one) => one === null).length, BLOCKS);
  assert.equal(
    Object.values(config.operators).filter((one) => one?.floatOutput).length,
    BLOCKS + 2,
  );
  const again = await quantize(model, { calibration: [], config });
  assert.deepEqual(await outputsOf(await InferenceSession.create(again), test40), ours);
});

test('auto keeps sums in float', async () => {
  const auto = await quantize(model, {
    calibration,
    config: { activations: { observer: 'auto' } },
  });
  const methods = auto.config.recovery.map(({ method }) => method);
  assert.deepEqual(methods.slice(-5), [
    'float_start',
    'float_sums',
    'float_end',
    'float_answers',
    'empirical_bias',
  ]);
});

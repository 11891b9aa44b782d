// narrowWeights: layers get weights of 7 bits as long as the outputs lose no more than the option permits.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { InferenceSession, Tensor, env, parseModel, quantize } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { randomSource } from './ort_operators.mjs';
import { floats } from './ort_quantized.mjs';

const LAYERS = 6;
const WIDTH = 32;
const random = randomSource(11);
const numbers = (count, size) => floats(random, count, size).map((x) => x.toFixed(5));
const sample = () => ({
  x0: new Tensor('float32', Float32Array.from(numbers(12 * WIDTH, 2).map(Number)), [12, WIDTH]),
});
const calibration = Array.from({ length: 64 }, sample);
const others = Array.from({ length: 64 }, sample);

/** Products in a row; the first one's input decides how much its codes hide. */
function products() {
  let text = `graph "products" opset 17\ninput %x0: float32[12, ${WIDTH}]\n`;
  for (let i = 0; i < LAYERS; i++) {
    text += `const %w${i}: float32[${WIDTH}, ${WIDTH}] = {${numbers(WIDTH * WIDTH, 0.6)}}\n`;
    text += `%m${i} = MatMul(%x${i}, %w${i})\n%x${i + 1} = Relu(%m${i})\n`;
  }
  return parseModel(`${text}output %x${LAYERS}\n`);
}

let model;
let float;
before(async () => {
  model = await products();
  float = await outputsOf(model);
});

async function outputsOf(source) {
  const session = await InferenceSession.create(source);
  const outputs = [];
  for (const feeds of others) {
    outputs.push(...Object.values(await session.run(feeds)).map(({ data }) => [...data]));
  }
  await session.release();
  return outputs;
}

const squares = (list) => list.reduce((sum, x) => sum + x * x, 0);
/** The mean over the samples of the ratio of signal to errors, in dB. */
function decibels(outputs) {
  const each = outputs.map((output, at) => {
    const errors = output.map((x, i) => x - float[at][i]);
    return 10 * Math.log10(squares(float[at]) / squares(errors));
  });
  return each.reduce((sum, x) => sum + x, 0) / each.length;
}

async function quantized(narrowWeights, more = {}) {
  const made = await quantize(model, {
    calibration,
    config: { recover: ['round_weights'], floatOutputs: true, narrowWeights, ...more },
  });
  const { operators, recovery, warnings } = made.config;
  const layers = operators.filter(({ type }) => type === 'MatMul');
  const outputs = await outputsOf(made);
  const onnx = made.toOnnx();
  made.dispose();
  const line = recovery.find(({ method }) => method === 'narrow_weights');
  const bits = layers.map(({ inputs }) => inputs[1].bits);
  return { bits, names: layers.map(({ name }) => name), line, warnings, outputs, onnx };
}

const narrowOf = ({ bits }) => bits.filter((each) => each === 7).length;

test('no layer has 7 bits by default, and 0 is the default', async () => {
  const without = await quantized(undefined);
  const zero = await quantized(0);
  assert.deepEqual(without.bits, Array(LAYERS).fill(8));
  assert.equal(without.line, undefined);
  assert.deepEqual(zero.onnx, without.onnx);
});

test('more is permitted, more layers are narrow, and other samples lose about as much', async (t) => {
  const wide = await quantized(0);
  const counts = [];
  for (const most of [0.05, 0.5, 1.5, 20]) {
    const narrow = await quantized(most);
    const count = narrowOf(narrow);
    const loss = decibels(wide.outputs) - decibels(narrow.outputs);
    t.diagnostic(`${most} dB: ${count} layers, ${loss.toFixed(2)} dB; ${narrow.line.detail}`);
    assert.match(narrow.line.detail, new RegExp(`weights of ${count} of ${LAYERS} layers`));
    assert.ok(loss <= most + 0.15, `${loss} dB of ${most}`);
    counts.push(count);
  }
  assert.deepEqual(
    counts,
    [...counts].sort((a, b) => a - b),
  );
  assert.equal(counts[3], LAYERS);
  assert.ok(counts[1] > 0 && counts[1] < LAYERS, String(counts));
});

test('all layers with 7 bits are what bits: 7 makes', async () => {
  const narrow = await quantized(20);
  const seven = await quantized(undefined, { weights: { bits: 7 } });
  assert.deepEqual(narrow.outputs, seven.outputs);
});

test('settings of operators decide who may be narrow', async () => {
  const some = await quantized(undefined, {
    operatorTypes: { MatMul: { narrowWeights: 20 } },
    operators: { 'MatMul#[02]': { narrowWeights: 0 } },
  });
  assert.deepEqual(
    some.bits,
    some.names.map((name) => (/#[02]$/.test(name) ? 8 : 7)),
  );
  assert.equal(narrowOf(some), LAYERS - 2);
  const none = await quantized(20, { operatorTypes: { MatMul: { narrowWeights: 0 } } });
  assert.equal(narrowOf(none), 0);
});

test('says when it has no effect', async () => {
  const four = await quantized(1, { weights: { bits: 4 } });
  assert.ok(four.warnings.some((text) => /narrowWeights has no effect/.test(text)));
  assert.equal(four.line, undefined);
});

test(
  'the same choice in every build',
  { skip: !hasRelaxedSimd() && 'no relaxed SIMD' },
  async () => {
    const made = [];
    for (const simd of ['simd128', 'relaxed']) {
      env.wasm.simd = simd;
      made.push(await quantized(0.5));
    }
    env.wasm.simd = 'auto';
    assert.deepEqual(made[0].onnx, made[1].onnx);
  },
);

test('refuses values out of range', async () => {
  for (const narrowWeights of [-1, 21, NaN, '1']) {
    await assert.rejects(quantize(model, { calibration, config: { narrowWeights } }), {
      code: 'INVALID_ARGUMENT',
    });
  }
});

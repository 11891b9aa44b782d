// A decoder network with ConvTranspose: quantized, compared, exported and read back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';

/** Pseudo-random numbers in [-1, 1). */
function noise(length, seed) {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

const constant = (name, dims, seed) => {
  const length = dims.reduce((a, b) => a * b, 1);
  const size = Math.sqrt(dims.slice(1).reduce((a, b) => a * b, 1));
  return `const %${name}: float32[${dims}] = {${Array.from(noise(length, seed), (x) => (x / size).toFixed(5))}}`;
};

// One group, groups of one channel, groups of several channels.
const DECODER = `graph "decoder" opset 13
input %x: float32[N, 3, 8, 8]
${constant('w1', [12, 3, 3, 3], 1)}
${constant('w2', [12, 8, 4, 4], 2)}
${constant('b2', [8], 3)}
${constant('w3', [8, 1, 3, 3], 4)}
${constant('w4', [8, 3, 2, 2], 5)}
${constant('w5', [4, 6, 1, 1], 6)}
%c1 = Conv(%x, %w1) {pads = [1, 1, 1, 1]} "first"
%r1 = Relu(%c1)
%c2 = ConvTranspose(%r1, %w2, %b2) {strides = [2, 2], pads = [1, 1, 1, 1]} "up"
%r2 = Relu(%c2)
%c3 = ConvTranspose(%r2, %w3) {strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1], group = 8} "depthwise"
%c4 = ConvTranspose(%c3, %w4) {strides = [2, 2], group = 2} "grouped"
%y = Conv(%c4, %w5) "last"
output %y`;
const UP = ['up', 'depthwise', 'grouped'];

const samples = Array.from({ length: 8 }, (_, i) => ({
  x: new Tensor('float32', noise(192, 100 + i), [1, 3, 8, 8]),
}));
let model, quantized;
before(async () => {
  model = await parseModel(DECODER);
  quantized = await quantize(model, { calibration: samples });
});
after(() => {
  quantized.dispose();
  model.dispose();
});

test('compare() shows every ConvTranspose', async () => {
  const report = await compare(model, quantized, {
    dataset: samples.map((feeds) => ({ feeds })),
    layerwise: true,
    aloneSamples: 1,
  });
  assert.equal(report.samples, samples.length);
  assert.ok(report.outputs[0].snr > 25 && report.outputs[0].cosine > 0.99);
  for (const name of UP) {
    const layer = report.layers.find((line) => line.name === name);
    assert.ok(layer.snr > 25 && layer.aloneSnr > 25, name);
    assert.ok(layer.maxAbs > 0 && layer.range > 10 * layer.maxAbs, name);
  }
  const identical = await compare(model, model, { dataset: [{ feeds: samples[0] }] });
  assert.equal(identical.outputs[0].snr, null);
});

test('every form of export computes it in integers again', async () => {
  const outputs = [];
  for (const format of ['qdq', 'qoperator']) {
    const file = await loadModel(quantized.toOnnx({ format }));
    const session = await InferenceSession.create(file, { requantize: 'float' });
    outputs.push(await Promise.all(samples.map(async (feeds) => (await session.run(feeds)).y)));
    const { steps } = session.plan();
    assert.ok(!steps.some(({ op, kernel }) => kernel === 'reference' || op === 'ConvTranspose'));
    for (const name of UP) {
      const kernels = steps.filter((step) => step.name === name).map(({ kernel }) => kernel);
      assert.ok(
        kernels.some((kernel) => /^(dw)?conv_q8/.test(kernel)),
        `${format} ${name}: ${kernels}`,
      );
    }
    session.dispose();
    file.dispose();
  }
  for (const [at, { data }] of outputs[0].entries()) {
    assert.deepEqual(outputs[1][at].data, data);
  }
});

// Boxes of 0..640 beside scores of 0..1, joined as in detectors: every part keeps the step that it would have
// alone, at an output and inside of a network.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, compare, parseModel, quantize } from '../../dist/index.js';
import { ortOutputs } from './support.mjs';

/** Feeds of %x; other values of `from` give other feeds. */
function samples(count, from = 0) {
  return Array.from({ length: count }, (_, sample) => ({
    x: new Tensor(
      'float32',
      Float32Array.from({ length: 3 * 64 }, (_, at) =>
        Math.sin(1 + 7.3 * at + 2.1 * (sample + from) + 0.01 * at * at),
      ),
      [1, 3, 8, 8],
    ),
  }));
}

/** Pseudo-random weights. */
function weights(dims, scale, seed) {
  const count = dims.reduce((a, b) => a * b, 1);
  const values = Array.from({ length: count }, (_, at) =>
    (scale * Math.sin(seed + 2.7 * at)).toFixed(5),
  );
  return `float32[${dims.join(', ')}] = {${values.join(', ')}}`;
}

const HEAD = `input %x: float32[1, 3, 8, 8]
  const %wb: ${weights([4, 3, 1, 1], 200, 1)}
  const %ws: ${weights([5, 3, 1, 1], 2, 5)}
  %b = Conv(%x, %wb) "boxes_conv"
  %boxes = Relu(%b) "boxes"
  %s = Conv(%x, %ws) "scores_conv"
  %scores = Sigmoid(%s) "scores"
  %joined = Concat(%boxes, %scores) {axis = 1} "join"`;

const networks = {
  output: `graph "output" opset 13
  ${HEAD}
  output %joined`,
  'turned output': `graph "turned" opset 13
  ${HEAD}
  const %shape: int64[3] = {1, 9, 64}
  %flat = Reshape(%joined, %shape) "flat"
  %turned = Transpose(%flat) {perm = [0, 2, 1]} "turned"
  output %turned`,
  layer: `graph "layer" opset 13
  ${HEAD}
  const %wl: ${weights([6, 9, 1, 1], 1, 3)}
  const %each: float32[1, 9, 1, 1] = {0.003, 0.003, 0.003, 0.003, 1, 1, 1, 1, 1}
  %scaled = Mul(%wl, %each)
  %y = Conv(%joined, %scaled) "reader"
  output %y`,
  'layers of one part each': `graph "parts" opset 13
  ${HEAD}
  const %sizes: int64[2] = {4, 5}
  %pb, %ps = Split(%joined, %sizes) {axis = 1} "apart"
  const %w1: ${weights([3, 4, 1, 1], 0.1, 3)}
  const %w2: ${weights([3, 5, 1, 1], 1, 4)}
  %y = Conv(%pb, %w1) "first"
  %z = Conv(%ps, %w2) "second"
  output %y
  output %z`,
};

for (const [name, text] of Object.entries(networks)) {
  for (const floatOutputs of [true, false]) {
    test(`parts of unlike ranges, ${name}, ${floatOutputs ? 'float' : 'integer'} outputs`, async (t) => {
      const model = await parseModel(text);
      const quantized = await quantize(model, {
        calibration: samples(16),
        config: { floatOutputs },
      });
      t.after(() => (quantized.dispose(), model.dispose()));
      const report = await compare(model, quantized, {
        dataset: samples(8, 50).map((feeds) => ({ feeds })),
      });
      const parts = report.outputs.flatMap((output) => output.parts ?? [output]);
      assert.equal(parts.length, name === 'layer' ? 1 : 2);
      for (const part of parts) assert.ok(part.snr > 28, `${part.name}: ${part.snr} dB`);
      // Another engine gives the same from the file.
      const feeds = samples(2, 90);
      const others = await ortOutputs(quantized.toOnnx(), feeds);
      const session = await InferenceSession.create(quantized, { requantize: 'float' });
      for (const [index, sample] of feeds.entries()) {
        const [{ data }] = Object.values(await session.run(sample));
        const largest = Math.max(...data.map(Math.abs));
        data.forEach((value, at) =>
          assert.ok(Math.abs(value - others[index][at]) <= 0.02 * largest, `element ${at}`),
        );
      }
      session.release();
    });
  }
}

test('a part that dies is seen, and said', async (t) => {
  const model = await parseModel(networks.output);
  const scales = { joined: { scale: 2.5, zero_point: 0 } };
  const quantized = await quantize(model, {
    calibration: samples(16),
    config: { floatOutputs: false, scales },
  });
  t.after(() => (quantized.dispose(), model.dispose()));
  const report = await compare(model, quantized, {
    dataset: samples(8, 50).map((feeds) => ({ feeds })),
  });
  const [{ snr, parts }] = report.outputs;
  assert.ok(snr > 30, `${snr} dB together`);
  const scores = parts.find((part) => part.name === 'scores');
  assert.ok(scores.snr < 6, `${scores.snr} dB of the scores`);
});

// Fewer than eight bits: the same integers from every kernel, variant and number of threads, from a file of
// 4-bit tensors and from a saved plan; and weights at half the size.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { InferenceSession, engineInfo, env, loadModel, quantize } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { MODEL, calibration, testImages } from './support.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
const SCALAR = { conv_q8: 'conv_q8_scalar', dwconv_q8: 'dwconv_q8_scalar' };
// Bits of weights and activations.
const widths = [
  [4, 4],
  [4, 8],
  [8, 4],
  [2, 8],
  [2, 6],
  [2, 4],
  [3, 5],
];

/** The results of a session of `source`, and its plan. */
async function runAll(source, images, options) {
  const session = await InferenceSession.create(source, options);
  const logits = [];
  for (const image of images) logits.push(...(await session.run(image)).logits.data);
  const plan = session.plan();
  const saved = session.toPlan();
  session.dispose();
  return { logits, plan, saved };
}

const quantized = (model, [weights, activations], more = {}) =>
  quantize(model, {
    calibration: calibration(8),
    config: {
      weights: { bits: weights },
      activations: { bits: activations },
      recover: [],
      ...more,
    },
  });

/** The kernels of a plan's convolutions. */
const convolutions = ({ steps }) =>
  steps.map(({ kernel }) => kernel).filter((name) => name?.startsWith('conv_q8_'));

/**
 * Kernels that run every convolution of these bits on any machine: a narrow operand has seven bits at most.
 */
const rowsFor = ([weights, activations]) => [
  'conv_q8_vector',
  ...(activations < 8 ? ['conv_q8_narrow_x'] : []),
  ...(weights < 8 ? ['conv_q8_narrow_w'] : []),
];

afterEach(() => {
  env.wasm.simd = 'auto';
});

for (const simd of variants) {
  describe(`low bits, ${simd}`, () => {
    for (const width of widths) {
      test(`W${width[0]}A${width[1]}: the integers of the scalar kernels`, async () => {
        env.wasm.simd = simd;
        const images = testImages(6);
        let expected;
        for (const numThreads of [1, 3]) {
          const model = await loadModel(MODEL, { numThreads });
          const low = await quantized(model, width);
          const scalar = await runAll(low, images, { kernels: SCALAR });
          assert.deepEqual(new Set(convolutions(scalar.plan)), new Set(['conv_q8_scalar']));
          expected ??= scalar.logits;
          assert.deepEqual(scalar.logits, expected);
          const { logits, plan } = await runAll(low, images);
          assert.deepEqual(logits, expected);
          const used = convolutions(plan);
          assert.ok(!used.includes('conv_q8_scalar'), used.join());
          const { kernels } = await engineInfo();
          const { missing } = kernels.find(({ name }) => name === 'conv_q8_dot8');
          if (simd === 'relaxed' && missing) {
            assert.ok(
              used.some((name) => name.startsWith('conv_q8_narrow')),
              used.join(),
            );
          }
          for (const row of rowsFor(width)) {
            const forced = await runAll(low, images, { kernels: { conv_q8: row } });
            assert.deepEqual(new Set(convolutions(forced.plan)), new Set([row]));
            assert.deepEqual(forced.logits, expected, row);
          }
          low.dispose();
          model.dispose();
        }
      });
    }
  });
}

test('4-bit files and saved plans compute the same; weights take half the bytes', async () => {
  const images = testImages(4);
  const model = await loadModel(MODEL);
  const low = await quantized(model, [4, 4]);
  const eight = await quantized(model, [8, 8]);
  // Depthwise rows that multiply whole bytes pad more.
  const depthwise = { dwconv_q8: 'dwconv_q8_vector' };
  const kernels = { conv_q8: 'conv_q8_narrow_x', ...depthwise };
  const { logits, plan, saved } = await runAll(low, images, { kernels });
  assert.deepEqual((await runAll(saved, images)).logits, logits);
  const file = low.toOnnx({ format: 'qdq', int4: true });
  assert.deepEqual((await runAll(file, images, { requantize: 'fixed' })).logits, logits);
  const file8 = eight.toOnnx({ format: 'qdq' });
  assert.ok(file.length < 0.7 * file8.length, `${file.length} and ${file8.length} bytes of file`);
  const packed = plan.memory.packedWeights;
  const options = { kernels: { conv_q8: 'conv_q8_vector', ...depthwise } };
  const packed8 = (await runAll(eight, images, options)).plan.memory.packedWeights;
  // The remaining bytes are biases and sums of small layers, and depthwise weights.
  assert.ok(packed < 0.65 * packed8, `${packed} and ${packed8} bytes of packed weights`);
});

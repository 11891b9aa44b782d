// Convolutions of few-bit codes by lookup give the bits of the scalar row in every variant, for all forms
// that a graph can express.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { InferenceSession, Tensor, env, interpret, parseModel } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { integersFrom } from './few_bits.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];

const numbers = (count, next) => Array.from({ length: count }, next).join(', ');

/** Two convolutions, of which the first limits the codes that the second reads, and a matrix product. */
function network({ type, low, high, zero, weights }) {
  const next = integersFrom(7);
  const weight = () => weights[next(0, weights.length - 1)];
  return `graph "bits" opset 13
input %x: ${type}[1, 24, 19, 18]
const %s: float32[] = {1.0}
const %ys: float32[] = {9.0}
const %z: ${type}[] = {${zero}}
const %wz: int8[] = {0}
const %low: ${type}[] = {${low}}
const %high: ${type}[] = {${high}}
const %a: int8[40, 24, 3, 3] = {${numbers(40 * 24 * 9, weight)}}
const %b: int8[21, 40, 3, 3] = {${numbers(21 * 40 * 9, weight)}}
const %c: int8[630, 33] = {${numbers(630 * 33, weight)}}
const %shape: int64[2] = {3, 630}
%u = Clip(%x, %low, %high)
%v = QLinearConv(%u, %s, %z, %a, %s, %wz, %ys, %z) {pads = [1, 1, 1, 1], strides = [2, 2]}
%w = Clip(%v, %low, %high)
%p = QLinearConv(%w, %s, %z, %b, %s, %wz, %ys, %z) {pads = [1, 1, 1, 1], dilations = [1, 1]}
%q = Clip(%p, %low, %high)
%r = Reshape(%q, %shape)
%y = QLinearMatMul(%r, %s, %z, %c, %s, %wz, %ys, %z)
output %y
`;
}

const forms = {
  A1W1: { type: 'uint8', low: 0, high: 1, zero: 0, weights: [-1, 1] },
  'both bipolar': { type: 'int8', low: -1, high: 1, zero: 0, weights: [-1, 1] },
  A2W2: { type: 'uint8', low: 0, high: 3, zero: 0, weights: [-1, 0, 1] },
  'A4W1 around a zero point': { type: 'uint8', low: 120, high: 135, zero: 128, weights: [-1, 1] },
};

afterEach(() => {
  env.wasm.simd = 'auto';
});

for (const simd of variants) {
  describe(`bit-serial, ${simd}`, () => {
    for (const [name, form] of Object.entries(forms)) {
      test(name, async () => {
        env.wasm.simd = simd;
        const next = integersFrom(3);
        const data = new (form.type === 'int8' ? Int8Array : Uint8Array)(24 * 19 * 18);
        for (let at = 0; at < data.length; at++)
          data[at] = next((form.low - 1) & 255, form.high + 1);
        const feeds = { x: new Tensor(form.type, data, [1, 24, 19, 18]) };
        const model = await parseModel(network(form));
        const run = async (options) => {
          const session = await InferenceSession.create(model, options);
          const { y } = await session.run(feeds);
          const kernels = session.plan().steps.map(({ kernel }) => kernel);
          session.dispose();
          return { y: [...y.data], kernels };
        };
        const expected = await run({ kernels: { conv_q8: 'conv_q8_scalar' } });
        assert.ok(new Set(expected.y).size > 1);
        for (const options of [{}, { kernels: { conv_q8: 'conv_q8_vector' } }]) {
          assert.deepEqual((await run(options)).y, expected.y);
        }
        if (form.weights.length === 2) {
          const { kernels } = await run({});
          // The matrix product has few rows: one bit by one bit is counted, and for more than three codes 33
          // outputs are too few for a lookup.
          const lookups = kernels.filter((kernel) => kernel === 'conv_q8_lookup').length;
          assert.equal(lookups, name === 'both bipolar' ? 3 : 2);
          if (name === 'A1W1') assert.ok(kernels.includes('conv_q8_popcount'));
        }
        model.dispose();
      });
    }
  });
}

describe('operators on packed bits', () => {
  const channels = 64;
  const size = 10;
  const weights = (next) => numbers(channels * channels * 9, () => next(0, 1));
  /** Two layers with a BitPack before each, or, without the first one, with packed inputs. */
  const packedNetwork = (form, type, packed) => {
    const next = integersFrom(11);
    return `graph "packed" opset 21, ai.requant 1
${packed ? `input %x: uint32[1, 2, ${size}, ${size}, 1]` : `input %c: uint8[1, ${channels}, ${size}, ${size}]`}
const %low: uint8[] = {0}
const %high: uint8[] = {1}
const %w: uint8[${channels}, ${channels}, 3, 3] = {${weights(next)}}
const %v: uint8[${channels}, ${channels}, 3, 3] = {${weights(next)}}
const %half: float32[] = {0.1}
const %one: float32[] = {1.0}
const %zero: uint8[] = {0}
${packed ? '' : '%b = Clip(%c, %low, %high)\n%x = ai.requant::BitPack(%b) {axis = 1}'}
%p = ai.requant::BitPack(%w) {axis = 1, pack_type = 64}
%q = ai.requant::BitPack(%v) {axis = 1, bit_axis = 0, pack_type = 8}
%s = ai.requant::BitSerialConv(%x, %p) {form = "${form}", length = ${channels}, pads = [1, 1, 1, 1]}
%f = Cast(%s) {to = 1}
%g = Mul(%f, %half)
%u = QuantizeLinear(%g, %one, %zero)
%t = Clip(%u, %low, %high)
%k = ai.requant::BitPack(%t) {axis = 1, bit_axis = 2, pack_type = 16}
%y = ai.requant::BitSerialConv(%k, %q) {form = "${form}", length = ${channels}, bit_axis = 2, weight_bit_axis = 0, out_type = "${type}"}
output %y
`;
  };
  for (const form of ['and', 'mixed', 'xnor']) {
    for (const [type, packed] of [
      ['int32', false],
      ['int16', false],
      ['int16', true],
    ]) {
      test(`${form}, ${type}, ${packed ? 'packed inputs' : 'packed in the network'}`, async () => {
        const next = integersFrom(5);
        const model = await parseModel(packedNetwork(form, type, packed));
        const feeds = packed
          ? {
              x: new Tensor(
                'uint32',
                Uint32Array.from({ length: 2 * size * size }, () => next(0, 2 ** 31 - 1)),
                [1, 2, size, size, 1],
              ),
            }
          : {
              c: new Tensor(
                'uint8',
                Uint8Array.from({ length: channels * size * size }, () => next(0, 2)),
                [1, channels, size, size],
              ),
            };
        const expected = (await interpret(model, feeds)).y;
        assert.ok(new Set(expected.data).size > 3);
        for (const simd of variants) {
          env.wasm.simd = simd;
          const session = await InferenceSession.create(model);
          const { y } = await session.run(feeds);
          assert.equal(y.type, type);
          assert.deepEqual([...y.data], [...expected.data]);
          const steps = session.plan().steps;
          assert.ok(!steps.some(({ op }) => /BitSerial|BitPack/.test(op)));
          // Words that come in are unpacked by the reference.
          assert.equal(steps.filter(({ op }) => op === 'BitUnpack').length, packed ? 1 : 0);
          const products = steps.filter(({ op }) => op.startsWith('ConvInteger'));
          assert.ok(
            products.every(({ kernel }) => /lookup|popcount|carry/.test(kernel)),
            simd,
          );
          session.dispose();
        }
        model.dispose();
      });
    }
  }
});

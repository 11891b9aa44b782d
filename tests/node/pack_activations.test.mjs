// Values of at most 16 codes, two to a byte: the same integers with every kernel that can read and write
// them, in saved plans and on threads.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Tensor, env, parseModel } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { integersFrom, runOnce } from './few_bits.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];

/**
 * Residual blocks of codes from `low` to `low + 15`. Some of their values cannot be packed: one of 20
 * channels, one that a pool reads, one that is an output.
 */
function network({ type, low, weights, channels, groups }) {
  const next = integersFrom(11);
  const c = channels;
  const numbers = (count) =>
    Array.from({ length: count }, () => weights[next(0, weights.length - 1)]).join(', ');
  const kernel = (name, out, inner, size) =>
    `const %${name}: int8[${out}, ${inner}, ${size}, ${size}] = {${numbers(out * inner * size * size)}}\n`;
  const conv = (to, from, weight, scale, more) =>
    `%${to}_ = QLinearConv(%${from}, %s, %z, %${weight}, %s, %wz, %${scale}, %z)${more && ` {${more}}`}
%${to} = Clip(%${to}_, %low, %high)
`;
  return `graph "packed" opset 13, com.microsoft 1
input %x: ${type}[2, ${c}, 15, 13]
const %s: float32[] = {1.0}
const %d: float32[] = {0.75}
const %ys: float32[] = {${c / groups / 2}}
const %ps: float32[] = {${c / 4}}
const %gs: float32[] = {4.0}
const %z: ${type}[] = {${low + 6}}
const %wz: int8[] = {0}
const %low: ${type}[] = {${low}}
const %high: ${type}[] = {${low + 15}}
${kernel('a', c, c / groups, 3)}${kernel('b', c, c, 1)}${kernel('e', 20, c, 1)}${kernel('f', c, 20, 1)}${kernel('g', c, 1, 3)}
%u = Clip(%x, %low, %high)
${conv('v', 'u', 'a', 'ys', `pads = [1, 1, 1, 1], group = ${groups}`)}
${conv('w', 'v', 'b', 'ps', '')}
%t_ = com.microsoft::QLinearAdd(%w, %s, %z, %v, %d, %z, %s, %z)
%t = Clip(%t_, %low, %high)
${conv('p', 't', 'a', 'ys', `pads = [2, 2, 2, 2], dilations = [2, 2], group = ${groups}`)}
${conv('e1', 'p', 'e', 'ps', '')}
${conv('k', 'w', 'e', 'ps', '')}
${conv('q', 'e1', 'f', 'ps', '')}
%r_ = com.microsoft::QLinearAdd(%q, %s, %z, %t, %s, %z, %d, %z)
%r = Clip(%r_, %low, %high)
${conv('y', 'r', 'a', 'ys', `pads = [1, 1, 0, 0], strides = [2, 2], group = ${groups}`)}
%pool = MaxPool(%p) {kernel_shape = [2, 2]}
${conv('m', 'u', 'b', 'ps', '')}
${conv('n', 'm', 'g', 'gs', `pads = [1, 1, 1, 1], strides = [1, 2], group = ${c}`)}
${conv('o', 'n', 'e', 'gs', '')}
output %y
output %pool
output %t
output %k
output %o
`;
}

const forms = {
  W4A4: { type: 'uint8', low: 0, weights: [-8, -3, 0, 1, 7], channels: 40, groups: 1 },
  'W4A4 of signed codes': { type: 'int8', low: -9, weights: [-7, 0, 7], channels: 24, groups: 1 },
  'W2A4, groups': { type: 'uint8', low: 100, weights: [-2, -1, 0, 1], channels: 48, groups: 3 },
  W1A4: { type: 'uint8', low: 0, weights: [-1, 1], channels: 32, groups: 1 },
};
const rows = ['conv_q8_narrow_x', 'conv_q8_narrow_w', 'conv_q8_lookup', 'conv_q8_popcount'];

afterEach(() => {
  env.wasm.simd = 'auto';
  delete env.wasm.numThreads;
});

async function run(source, feeds, options) {
  const { steps, ...rest } = await runOnce(source, feeds, options);
  const packed = steps.filter(({ output }) => output.packing === 'nibbles').length;
  return { ...rest, packed };
}

for (const simd of variants) {
  for (const numThreads of [1, 2]) {
    describe(`packed activations, ${simd}, threads ${numThreads}`, () => {
      for (const [name, form] of Object.entries(forms)) {
        test(name, async () => {
          env.wasm.simd = simd;
          env.wasm.numThreads = numThreads;
          const next = integersFrom(5);
          const size = 2 * form.channels * 15 * 13;
          const data = new (form.type === 'int8' ? Int8Array : Uint8Array)(size);
          for (let at = 0; at < size; at++) data[at] = next(form.low, form.low + 15);
          const feeds = { x: new Tensor(form.type, data, [2, form.channels, 15, 13]) };
          const model = await parseModel(network(form));
          for (const requantize of ['fixed', 'float']) {
            const scalar = { requantize, kernels: { conv_q8: 'conv_q8_scalar' } };
            const expected = await run(model, feeds, scalar);
            assert.ok(expected.outputs.every((values) => new Set(values).size > 4));
            for (const row of rows) {
              const options = { requantize, kernels: { conv_q8: row } };
              const bytes = await run(model, feeds, options);
              const packs = await run(model, feeds, { ...options, compact: true });
              assert.deepEqual(bytes.outputs, expected.outputs, row);
              assert.deepEqual(packs.outputs, expected.outputs, row);
              assert.equal(bytes.packed, 0);
              // v, w and r are packed; q is part of the step of r, t is an output, a pool reads p, and e1 has
              // 20 channels. m and n surround a depthwise convolution, whose row for few bits needs relaxed
              // SIMD.
              const depthwise = simd === 'relaxed' ? 2 : 0;
              if (row === 'conv_q8_popcount') assert.equal(packs.packed, 3 + depthwise);
              if (packs.packed > 0) {
                assert.deepEqual((await run(packs.saved, feeds)).outputs, expected.outputs);
              }
            }
            // By default, values are packed if the machine multiplies whole bytes as well.
            const usual = await run(model, feeds, { requantize, compact: true });
            assert.deepEqual(usual.outputs, expected.outputs);
          }
          model.dispose();
        });
      }
    });
  }
}

// Operators that quantize at run time against ONNX Runtime on equal inputs: accumulators are equal, bytes
// differ by one step at most, floats are within rounding.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { randomSource } from './ort_operators.mjs';
import {
  compareWithOrt,
  constant,
  float,
  floats,
  integers,
  model,
  product,
  range,
  scale,
  zero,
} from './ort_quantized.mjs';

/** Dynamic quantization with accumulators and floats as outputs. */
const dynamic = {
  ConvInteger(random, type) {
    const groups = [1, 1, 2, 7][Math.floor(random() * 4)];
    const channels = groups * (groups === 7 ? 1 : 1 + Math.floor(random() * 9));
    const outputs = groups * (groups === 7 ? 1 : 1 + Math.floor(random() * 9));
    const kernel = [1, 3][Math.floor(random() * 2)];
    const size = 5 + Math.floor(random() * 6);
    const [lo, hi] = range(type);
    const dims = [1, channels, size, size];
    const weights = [outputs, channels / groups, kernel, kernel];
    const out = size + 2 - kernel + 1;
    return {
      inputs: [
        { name: 'x', type, dims, data: integers(random, product(dims), lo, hi) },
        { name: 'z', type, dims: [], data: integers(random, 1, lo, hi) },
      ],
      constants: [
        constant('w', 'uint8', weights, integers(random, product(weights), 0, 255)),
        zero('wz', 'uint8', 128),
      ],
      output: { type: 'int32', dims: [1, outputs, out, out] },
      operator: `ConvInteger(%x, %w, %z, %wz) {pads = [1, 1, 1, 1], group = ${groups}}`,
    };
  },
  MatMulInteger(random, type) {
    const [m, k, n] = Array.from({ length: 3 }, () => 1 + Math.floor(random() * 40));
    const [lo, hi] = range(type);
    return {
      inputs: [
        { name: 'x', type, dims: [2, m, k], data: integers(random, 2 * m * k, lo, hi) },
        { name: 'z', type, dims: [], data: integers(random, 1, lo, hi) },
      ],
      constants: [constant('w', 'int8', [k, n], integers(random, k * n, -128, 127))],
      output: { type: 'int32', dims: [2, m, n] },
      operator: 'MatMulInteger(%x, %w, %z)',
    };
  },
  DynamicQuantizeLinear(random, type) {
    const shift = type === 'int8' ? 20 : 0; // all of one sign
    const data = floats(random, 777, 17).map((value) => Math.fround(Math.abs(shift) + value));
    return {
      inputs: [{ name: 'x', type: 'float32', dims: [777], data }],
      constants: [],
      output: { type: 'uint8', dims: [777], more: ', %s: float32[], %z: uint8[]' },
      operator: 'DynamicQuantizeLinear(%x)',
    };
  },
  MatMulIntegerToFloat(random, type) {
    const [m, k, n] = Array.from({ length: 3 }, () => 1 + Math.floor(random() * 40));
    const [lo, hi] = range(type);
    return {
      inputs: [{ name: 'x', type, dims: [m, k], data: integers(random, m * k, lo, hi) }],
      constants: [
        constant('w', 'int8', [k, n], integers(random, k * n, -128, 127)),
        scale('xs', 0.02 + random() * 0.1),
        constant(
          'ws',
          'float32',
          [n],
          Array.from({ length: n }, () => float(random() + 0.01)),
        ),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant('b', 'float32', [n], floats(random, n, 4).map(float)),
      ],
      output: { type: 'float32', dims: [m, n] },
      operator: 'com.microsoft::MatMulIntegerToFloat(%x, %w, %xs, %ws, %xz, _, %b)',
    };
  },
  DynamicQuantizeMatMul(random) {
    const [m, k, n] = Array.from({ length: 3 }, () => 1 + Math.floor(random() * 40));
    return {
      inputs: [{ name: 'x', type: 'float32', dims: [m, k], data: floats(random, m * k, 6) }],
      constants: [
        constant('w', 'int8', [k, n], integers(random, k * n, -128, 127)),
        scale('ws', 0.02 + random() * 0.1),
        zero('wz', 'int8', 0),
        constant('b', 'float32', [n], floats(random, n, 4).map(float)),
      ],
      output: { type: 'float32', dims: [m, n] },
      operator: 'com.microsoft::DynamicQuantizeMatMul(%x, %w, %ws, %wz, %b)',
    };
  },
  MatMulNBits(random, type) {
    const [m, n] = Array.from({ length: 2 }, () => 1 + Math.floor(random() * 20));
    const blocks = 1 + Math.floor(random() * 3);
    const k = blocks * 16;
    const zeros = type === 'int8' ? '' : ', %z';
    const each = Math.ceil(blocks / 2);
    return {
      inputs: [{ name: 'x', type: 'float32', dims: [m, k], data: floats(random, m * k, 6) }],
      constants: [
        constant('w', 'uint8', [n, blocks, 8], integers(random, n * blocks * 8, 0, 255)),
        constant(
          's',
          'float32',
          [n * blocks],
          floats(random, n * blocks, 1).map((value) => float(Math.abs(value) + 0.01)),
        ),
        constant('z', 'uint8', [n * each], integers(random, n * each, 0, 255)),
      ],
      output: { type: 'float32', dims: [m, n] },
      operator:
        `com.microsoft::MatMulNBits(%x, %w, %s${zeros}) ` +
        `{K = ${k}, N = ${n}, bits = 4, block_size = 16}`,
    };
  },
};

describe('dynamic quantization against ONNX Runtime', () => {
  for (const [name, make] of Object.entries(dynamic)) {
    for (const type of ['uint8', 'int8']) {
      test(`${name}, ${type}`, async () => {
        const random = randomSource(name.length * 77 + (type === 'int8' ? 3 : 0));
        for (let round = 0; round < 6; round++) {
          const { inputs, constants, output, operator } = make(random, type);
          const text = model(inputs, constants, output, operator);
          const { worst, different, count, largest } = await compareWithOrt(text, inputs, 'float');
          if (output.type === 'float32') {
            assert.ok(worst <= 2e-5 * largest, `${worst} of ${largest}\n${operator}`);
          } else if (output.type === 'int32') {
            assert.equal(different, 0, operator);
          } else {
            assert.ok(worst <= 1 && different <= count / 1000, operator);
          }
        }
      });
    }
  }
});

// Every integer operator against ONNX Runtime on equal inputs: with `requantize: 'float'` at least 99.9 % of
// the elements are identical and none differs by more than one step; with 'fixed' none differs by more than
// one step.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { randomSource } from './ort_operators.mjs';
import {
  compareWithOrt,
  constant,
  float,
  integers,
  model,
  product,
  range,
  scale,
  zero,
} from './ort_quantized.mjs';

/** One random instance of each operator; `type` is that of the activations. */
const operators = {
  QLinearConv(random, type) {
    const groups = [1, 1, 2, 6][Math.floor(random() * 4)];
    const channels = groups * (1 + Math.floor(random() * (groups === 6 ? 1 : 9)));
    const outputs = groups === 6 ? 6 : groups * (1 + Math.floor(random() * 9));
    const kernel = [1, 3, 5][Math.floor(random() * 3)];
    const stride = 1 + Math.floor(random() * 2);
    const pad = Math.floor(random() * ((kernel + 1) / 2));
    const size = 5 + Math.floor(random() * 9);
    const out = Math.floor((size + 2 * pad - kernel) / stride) + 1;
    const [lo, hi] = range(type);
    const taps = (channels / groups) * kernel * kernel;
    const dims = [1, channels, size, size];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.02 + random() * 0.1),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant(
          'w',
          'int8',
          [outputs, channels / groups, kernel, kernel],
          integers(random, outputs * taps, -127, 127),
        ),
        constant(
          'ws',
          'float32',
          [outputs],
          Array.from({ length: outputs }, () => float(0.002 + random() * 0.02)),
        ),
        constant('wz', 'int8', [outputs], new Array(outputs).fill(0)),
        scale('ys', 0.02 * Math.sqrt(taps) * (0.5 + random())),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
        constant('b', 'int32', [outputs], integers(random, outputs, -4000, 4000)),
      ],
      output: { type, dims: [1, outputs, out, out] },
      operator:
        'QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {group = ' +
        `${groups}, strides = [${stride}, ${stride}], pads = [${pad}, ${pad}, ${pad}, ${pad}]}`,
    };
  },
  QLinearMatMul(random, type) {
    const [m, k, n] = integers(random, 3, 1, 40);
    const [lo, hi] = range(type);
    return {
      inputs: [{ name: 'x', type, dims: [m, k], data: integers(random, m * k, lo, hi) }],
      constants: [
        scale('xs', 0.03),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant('w', 'int8', [k, n], integers(random, k * n, -128, 127)),
        scale('ws', 0.01),
        zero('wz', 'int8', 0),
        scale('ys', 0.03 * Math.sqrt(k)),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [m, n] },
      operator: 'QLinearMatMul(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz)',
    };
  },
  QGemm(random, type) {
    const [m, k, n] = integers(random, 3, 1, 40);
    const [lo, hi] = range(type);
    return {
      inputs: [{ name: 'x', type, dims: [m, k], data: integers(random, m * k, lo, hi) }],
      constants: [
        scale('xs', 0.03),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant('w', 'int8', [n, k], integers(random, k * n, -127, 127)),
        scale('ws', 0.01),
        zero('wz', 'int8', 0),
        constant('b', 'int32', [n], integers(random, n, -2000, 2000)),
        scale('ys', 0.03 * Math.sqrt(k)),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [m, n] },
      operator: 'com.microsoft::QGemm(%x, %xs, %xz, %w, %ws, %wz, %b, %ys, %yz) {transB = 1}',
    };
  },
  'QLinearConv of volumes'(random, type) {
    const [groups, channels] = [1, 1, 2, 6][Math.floor(random() * 4)] === 6 ? [6, 6] : [1, 5];
    const kernel = [1, 2, 3].map((most) => 1 + Math.floor(random() * most));
    const size = [4, 5, 6].map((least) => least + Math.floor(random() * 4));
    const pads = kernel.map((taps) => Math.floor(random() * taps));
    const stride = 1 + Math.floor(random() * 2);
    const out = size.map((n, i) => Math.floor((n + 2 * pads[i] - kernel[i]) / stride) + 1);
    const [lo, hi] = range(type);
    const taps = (channels / groups) * product(kernel);
    const dims = [1, channels, ...size];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.02 + random() * 0.1),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant(
          'w',
          'int8',
          [6, channels / groups, ...kernel],
          integers(random, 6 * taps, -127, 127),
        ),
        scale('ws', 0.01),
        zero('wz', 'int8', 0),
        scale('ys', 0.02 * Math.sqrt(taps) * (0.5 + random())),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, 6, ...out] },
      operator:
        `QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz) {group = ${groups}, ` +
        `strides = [${stride}, ${stride}, ${stride}], pads = [${[...pads, ...pads].join(', ')}]}`,
    };
  },
  QLinearAdd: (random, type) => binary(random, type, 'QLinearAdd', 0.02 + random() * 0.05),
  QLinearMul: (random, type) => binary(random, type, 'QLinearMul', 0.1 + random() * 0.2),
  QLinearGlobalAveragePool: (random, type) => globalPool(random, type, false),
  QLinearAveragePool: (random, type) => averagePool(random, type, false),
  QLinearConcat(random, type) {
    const [lo, hi] = range(type);
    const input = (name, channels) => ({
      name,
      type,
      dims: [1, channels, 4, 5],
      data: integers(random, channels * 20, lo, hi),
    });
    return {
      inputs: [input('a', 3), input('b', 7)],
      constants: [
        scale('ys', 0.03),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
        scale('as', 0.02 + random() * 0.03),
        zero('az', type, integers(random, 1, lo, hi)[0]),
        scale('bs', 0.02 + random() * 0.03),
        zero('bz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, 10, 4, 5] },
      operator: 'com.microsoft::QLinearConcat(%ys, %yz, %a, %as, %az, %b, %bs, %bz) {axis = 1}',
    };
  },
  QLinearSigmoid: (random, type) => unary(random, type, 'QLinearSigmoid', '', 1 / 256),
  QLinearLeakyRelu: (random, type) =>
    unary(random, type, 'QLinearLeakyRelu', ' {alpha = 0.125}', 0.05),
  QLinearSoftmax(random, type) {
    const [lo, hi] = range(type);
    const rows = 1 + Math.floor(random() * 60);
    const dims = [2, rows, 1 + Math.floor(random() * 40)];
    const axis = Math.floor(random() * 3);
    const opset = random() < 0.5 ? 12 : 13;
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.01 + random() * 0.1),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        // Use scales whose results fit the type, as ONNX Runtime wraps around for int8.
        scale('ys', [1 / 127, 1 / 120, 0.011][Math.floor(random() * 3)]),
        zero('yz', type, type === 'int8' ? -5 : 3),
      ],
      output: { type, dims },
      operator: `com.microsoft::QLinearSoftmax(%x, %xs, %xz, %ys, %yz) {axis = ${axis}, opset = ${opset}}`,
    };
  },
  'QLinearGlobalAveragePool, channels last': (random, type) => globalPool(random, type, true),
  'QLinearAveragePool, channels last': (random, type) => averagePool(random, type, true),
  'QLinearMatMul of computed operands'(random, type) {
    const [m, k, n] = integers(random, 3, 1, 30);
    const [lo, hi] = range(type);
    return {
      inputs: [
        { name: 'x', type, dims: [2, m, k], data: integers(random, 2 * m * k, lo, hi) },
        { name: 'w', type, dims: [k, n], data: integers(random, k * n, lo, hi) },
      ],
      constants: [
        scale('xs', 0.03),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        scale('ws', 0.01),
        zero('wz', type, integers(random, 1, lo, hi)[0]),
        scale('ys', 0.05 * Math.sqrt(k)),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [2, m, n] },
      operator: 'QLinearMatMul(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz)',
    };
  },
  'QLinearConv, weights with a zero point'(random, type) {
    const [channels, outputs] = integers(random, 2, 1, 12);
    const [lo, hi] = range(type);
    const dims = [1, channels, 7, 6];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.03),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        constant(
          'w',
          type,
          [outputs, channels, 3, 3],
          integers(random, outputs * channels * 9, lo, hi),
        ),
        scale('ws', 0.01),
        zero('wz', type, integers(random, 1, lo + 90, hi - 90)[0]),
        scale('ys', 0.03 * Math.sqrt(channels * 9)),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, outputs, 7, 6] },
      operator: 'QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz) {pads = [1, 1, 1, 1]}',
    };
  },
  QuantizeLinear(random, type) {
    const [lo, hi] = range(type);
    const count = 5000;
    return {
      inputs: [
        {
          name: 'x',
          type: 'float32',
          dims: [count],
          data: Array.from({ length: count }, () => Math.fround((random() - 0.5) * 30)),
        },
      ],
      constants: [scale('s', 0.1), zero('z', type, integers(random, 1, lo, hi)[0])],
      output: { type, dims: [count] },
      operator: 'QuantizeLinear(%x, %s, %z)',
    };
  },
  DequantizeLinear(random, type) {
    const [lo, hi] = range(type);
    return {
      inputs: [{ name: 'x', type, dims: [256], data: integers(random, 256, lo, hi) }],
      constants: [scale('s', 0.1), zero('z', type, integers(random, 1, lo, hi)[0])],
      output: { type: 'float32', dims: [256] },
      operator: 'DequantizeLinear(%x, %s, %z)',
    };
  },
  MaxPool(random, type) {
    const [lo, hi] = range(type);
    const dims = [1, 5, 9, 11];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [],
      output: { type, dims: [1, 5, 5, 6] },
      operator: 'MaxPool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}',
    };
  },
};

/** A pool's operands: x of [1, C, H, W] or channels last, and scales of step `outputScale`. */
function pool(random, type, last, name, [channels, ...image], out, outputScale, attributes) {
  const [lo, hi] = range(type);
  const arrange = (size) => (last ? [1, ...size, channels] : [1, channels, ...size]);
  const dims = arrange(image);
  return {
    inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
    constants: [
      scale('xs', 0.05),
      zero('xz', type, integers(random, 1, lo, hi)[0]),
      scale('ys', outputScale),
      zero('yz', type, integers(random, 1, lo, hi)[0]),
    ],
    output: { type, dims: arrange(out) },
    operator:
      `com.microsoft::${name}(%x, %xs, %xz, %ys, %yz) ` +
      `{${attributes}channels_last = ${Number(last)}}`,
  };
}

function globalPool(random, type, last) {
  const size = integers(random, 3, 1, 20);
  const step = 0.01 + random() * 0.02;
  return pool(random, type, last, 'QLinearGlobalAveragePool', size, [1, 1], step, '');
}

function averagePool(random, type, last) {
  const size = [1 + Math.floor(random() * 20), 9, 11];
  const step = 0.03 + random() * 0.02;
  const window = 'kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ';
  return pool(random, type, last, 'QLinearAveragePool', size, [5, 6], step, window);
}

function binary(random, type, name, outputScale) {
  const [lo, hi] = range(type);
  const dims = [1 + Math.floor(random() * 2), 1 + Math.floor(random() * 20), 7, 5];
  // Half of the second operands have another shape, which is broadcast along any dimensions.
  const stretched = dims.map((dim) => (random() < 0.5 ? dim : 1));
  const other = random() < 0.5 ? dims : stretched.slice(Math.floor(random() * 3));
  const input = (input, dims) => ({
    name: input,
    type,
    dims,
    data: integers(random, product(dims), lo, hi),
  });
  return {
    inputs: [input('a', dims), input('b', other)],
    constants: [
      scale('as', 0.02 + random() * 0.03),
      zero('az', type, integers(random, 1, lo, hi)[0]),
      scale('bs', 0.02 + random() * 0.03),
      zero('bz', type, integers(random, 1, lo, hi)[0]),
      scale('ys', outputScale),
      zero('yz', type, integers(random, 1, lo, hi)[0]),
    ],
    output: { type, dims },
    operator: `com.microsoft::${name}(%a, %as, %az, %b, %bs, %bz, %ys, %yz)`,
  };
}

function unary(random, type, name, attributes, outputScale) {
  const [lo, hi] = range(type);
  return {
    inputs: [{ name: 'x', type, dims: [1, 256], data: integers(random, 256, lo, hi) }],
    constants: [
      scale('xs', 0.05),
      zero('xz', type, integers(random, 1, lo, hi)[0]),
      scale('ys', outputScale),
      zero('yz', type, type === 'int8' ? -128 : 0),
    ],
    output: { type, dims: [1, 256] },
    operator: `com.microsoft::${name}(%x, %xs, %xz, %ys, %yz)${attributes}`,
  };
}

describe('integer operators against ONNX Runtime', () => {
  for (const [name, make] of Object.entries(operators)) {
    for (const type of ['uint8', 'int8']) {
      test(`${name}, ${type}`, async () => {
        const random = randomSource(name.length * 131 + (type === 'int8' ? 7 : 0));
        let count = 0;
        let different = 0;
        for (let round = 0; round < 8; round++) {
          const { inputs, constants, output, operator } = make(random, type);
          const text = model(inputs, constants, output, operator);
          const exact = await compareWithOrt(text, inputs, 'float');
          assert.ok(exact.worst <= 1, `${exact.worst} steps away\n${text.slice(0, 400)}`);
          count += exact.count;
          different += exact.different;
          const fixed = await compareWithOrt(text, inputs, 'fixed');
          assert.ok(fixed.worst <= 1, `fixed: ${fixed.worst} steps away`);
        }
        assert.ok(
          different <= count / 1000,
          `${different} of ${count} elements differ with requantize 'float'`,
        );
      });
    }
  }
});

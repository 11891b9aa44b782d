// Every integer operator against ONNX Runtime on equal inputs: with `requantize: 'float'` at least
// 99.9 % of the elements are identical and none is more than one step away; with 'fixed' none is
// more than one step away.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
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

/** One random instance of each operator; type is that of the activations. */
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
  QLinearAdd: (random, type) => binary(random, type, 'QLinearAdd', 0.02 + random() * 0.05),
  QLinearMul: (random, type) => binary(random, type, 'QLinearMul', 0.1 + random() * 0.2),
  QLinearGlobalAveragePool(random, type) {
    const [channels, height, width] = integers(random, 3, 1, 20);
    const [lo, hi] = range(type);
    const dims = [1, channels, height, width];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.05),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        scale('ys', 0.01 + random() * 0.02),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, channels, 1, 1] },
      operator:
        'com.microsoft::QLinearGlobalAveragePool(%x, %xs, %xz, %ys, %yz) {channels_last = 0}',
    };
  },
  QLinearAveragePool(random, type) {
    const channels = 1 + Math.floor(random() * 20);
    const [lo, hi] = range(type);
    const dims = [1, channels, 9, 11];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.05),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        scale('ys', 0.03 + random() * 0.02),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, channels, 5, 6] },
      operator:
        'com.microsoft::QLinearAveragePool(%x, %xs, %xz, %ys, %yz) {kernel_shape = [3, 3], ' +
        'strides = [2, 2], pads = [1, 1, 1, 1], channels_last = 0}',
    };
  },
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
        // Whose result is never more than the type holds: ONNX Runtime wraps around for int8.
        scale('ys', [1 / 127, 1 / 120, 0.011][Math.floor(random() * 3)]),
        zero('yz', type, type === 'int8' ? -5 : 3),
      ],
      output: { type, dims },
      operator: `com.microsoft::QLinearSoftmax(%x, %xs, %xz, %ys, %yz) {axis = ${axis}, opset = ${opset}}`,
    };
  },
  'QLinearGlobalAveragePool, channels last'(random, type) {
    const [height, width, channels] = integers(random, 3, 1, 20);
    const [lo, hi] = range(type);
    const dims = [1, height, width, channels];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.05),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        scale('ys', 0.01 + random() * 0.02),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, 1, 1, channels] },
      operator:
        'com.microsoft::QLinearGlobalAveragePool(%x, %xs, %xz, %ys, %yz) {channels_last = 1}',
    };
  },
  'QLinearAveragePool, channels last'(random, type) {
    const channels = 1 + Math.floor(random() * 20);
    const [lo, hi] = range(type);
    const dims = [1, 9, 11, channels];
    return {
      inputs: [{ name: 'x', type, dims, data: integers(random, product(dims), lo, hi) }],
      constants: [
        scale('xs', 0.05),
        zero('xz', type, integers(random, 1, lo, hi)[0]),
        scale('ys', 0.03 + random() * 0.02),
        zero('yz', type, integers(random, 1, lo, hi)[0]),
      ],
      output: { type, dims: [1, 5, 6, channels] },
      operator:
        'com.microsoft::QLinearAveragePool(%x, %xs, %xz, %ys, %yz) {kernel_shape = [3, 3], ' +
        'strides = [2, 2], pads = [1, 1, 1, 1], channels_last = 1}',
    };
  },
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

function binary(random, type, name, outputScale) {
  const [lo, hi] = range(type);
  const dims = [1, 1 + Math.floor(random() * 20), 7, 5];
  const input = (input) => ({
    name: input,
    type,
    dims,
    data: integers(random, product(dims), lo, hi),
  });
  return {
    inputs: [input('a'), input('b')],
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

const floats = (random, count, size) =>
  Array.from({ length: count }, () => Math.fround((random() - 0.5) * size));

/** Dynamic quantization: accumulators and floats come out. */
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

// QONNX has no kernels in ONNX Runtime: the judge is its published text (qonnx, custom_op/general),
// written down once more.
describe('QONNX operators against their published semantics', () => {
  const halfEven = (x) => {
    const low = Math.floor(x);
    if (x - low !== 0.5) return Math.round(x);
    return low % 2 === 0 ? low : low + 1;
  };
  const roundings = { ROUND: halfEven, CEIL: Math.ceil, FLOOR: Math.floor };
  const run = async (operator, constants, data) => {
    const text = [
      'graph "qonnx" opset 13, qonnx.custom_op.general 1, onnx.brevitas 1, finn.custom_op.general 1',
      `input %x: float32[${data.length}]`,
      ...constants,
      `%y = ${operator}`,
      'output %y',
    ].join('\n');
    const session = await InferenceSession.create(await parseModel(text));
    try {
      return (await session.run({ x: new Tensor('float32', data, [data.length]) })).y.data;
    } finally {
      await session.release();
    }
  };
  for (const domain of ['qonnx.custom_op.general', 'onnx.brevitas', 'finn.custom_op.general']) {
    for (const [mode, round] of Object.entries(roundings)) {
      test(`Quant of ${domain}, ${mode}`, async () => {
        const random = randomSource(mode.length);
        for (let repeat = 0; repeat < 12; repeat++) {
          const [bits, signed, narrow] = [2, 2, 2].map((n) => Math.floor(random() * n));
          const width = [1, 2, 3, 4, 8][repeat % 5] + bits;
          const step = Math.fround(0.05 + random());
          const shift = signed ? 0 : Math.floor(random() * 3);
          const data = Float32Array.from(floats(random, 500, 40));
          const got = await run(
            `${domain}::Quant(%x, %s, %z, %b) {signed = ${signed}, narrow = ${narrow}, rounding_mode = "${mode}"}`,
            [scale('s', step), scale('z', shift), scale('b', width)],
            data,
          );
          const low = signed ? -(2 ** (width - 1)) + narrow : 0;
          const high = signed ? 2 ** (width - 1) - 1 : 2 ** width - 1 - narrow;
          data.forEach((x, at) => {
            const y = Math.fround(Math.fround(x / step) + shift);
            const q =
              width === 1 && signed ? (y >= 0 ? 1 : -1) : round(Math.min(Math.max(y, low), high));
            // Adding 0 makes -0 the same as 0.
            const wanted = Math.fround(Math.fround(q - shift) * step);
            assert.equal(got[at] + 0, wanted + 0, `${x} at ${at}`);
          });
        }
      });
    }
  }
  test('BipolarQuant and Trunc', async () => {
    const random = randomSource(5);
    const data = Float32Array.from(floats(random, 500, 4), (value, at) => (at === 7 ? 0 : value));
    const bipolar = await run('onnx.brevitas::BipolarQuant(%x, %s)', [scale('s', 0.25)], data);
    data.forEach((x, at) => assert.equal(bipolar[at], x >= 0 ? 0.25 : -0.25));
    const trunc = await run(
      'qonnx.custom_op.general::Trunc(%x, %s, %z, %i, %o) {rounding_mode = "FLOOR"}',
      [scale('s', 0.125), scale('z', 0), scale('i', 6), scale('o', 4)],
      data,
    );
    data.forEach((x, at) => {
      assert.equal(trunc[at] + 0, Math.floor(halfEven(x / 0.125) / 4) * 0.125 + 0);
    });
  });
});

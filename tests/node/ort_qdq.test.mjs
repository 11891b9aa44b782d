// Every operator between Q/DQ pairs, as other tools write it, against ONNX Runtime on equal inputs: with
// `requantize: 'float'` at least 99.9 % of the elements are identical and none differs by more than one step,
// and operators with an integer form run in integers.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { check as compareFloats, graph, randomSource } from './ort_operators.mjs';
import {
  compareWithOrt,
  constant,
  float,
  integers,
  product,
  range,
  scale,
  zero,
} from './ort_quantized.mjs';

const ROUNDS = 6;
const pick = (random, list) => list[Math.floor(random() * list.length)];

/**
 * Weights [outputs, ...] as int8 before a DequantizeLinear of their own; `axis`: with a scale for each index
 * of it.
 */
function weights(random, dims, axis) {
  const count = product(dims);
  const each = axis === undefined ? [] : [dims[axis]];
  const scales = Array.from({ length: product(each) }, () => float(0.003 + random() * 0.01));
  return [
    constant('wq', 'int8', dims, integers(random, count, -127, 127)),
    constant('ws', 'float32', each, scales),
    constant('wz', 'int8', each, new Array(scales.length).fill(0)),
    `%w = DequantizeLinear(%wq, %ws, %wz)${axis === undefined ? '' : ` {axis = ${axis}}`}`,
  ];
}

/** A bias as int32 with the scale of input times weights. */
function bias(random, count, each) {
  return [
    '%bs = Mul(%as, %ws)',
    constant('bq', 'int32', [count], integers(random, count, -3000, 3000)),
    constant('bz', 'int32', each ? [count] : [], each ? new Array(count).fill(0) : [0]),
    `%bias = DequantizeLinear(%bq, %bs, %bz)${each ? ' {axis = 0}' : ''}`,
  ];
}

const image = (random) => [1, 1 + Math.floor(random() * 12), 7, 9];
const alone =
  (operator, { step = 0.05, dims = image, body = [], out, integer = true } = {}) =>
  (random) => {
    const shape = dims(random);
    return {
      inputs: [shape],
      body: [...body, `%f = ${operator}`],
      step,
      out: out ? out(shape) : shape,
      integer,
    };
  };
const pair = (operator, step) => (random) => {
  const shape = image(random);
  const other = pick(random, [shape, shape, [1, shape[1], 1, 1], [1]]);
  return {
    inputs: [shape, other],
    body: [`%f = ${operator}(%a, %b)`],
    step,
    out: shape,
    integer: operator !== 'Sub' && operator !== 'Div',
  };
};

const convolution = (random, { activation, depthwise } = {}) => {
  const groups = depthwise ? 6 : pick(random, [1, 1, 2]);
  const channels = depthwise ? 6 : groups * (1 + Math.floor(random() * 6));
  const outputs = depthwise ? 6 : groups * (1 + Math.floor(random() * 9));
  const kernel = pick(random, [1, 3]);
  const stride = pick(random, [1, 2]);
  const pad = kernel === 3 ? 1 : 0;
  const each = random() < 0.5;
  const out = [1, outputs, Math.floor((7 + 2 * pad - kernel) / stride) + 1];
  out.push(Math.floor((9 + 2 * pad - kernel) / stride) + 1);
  const attributes = `{group = ${groups}, strides = [${stride}, ${stride}], pads = [${pad}, ${pad}, ${pad}, ${pad}]}`;
  return {
    inputs: [[1, channels, 7, 9]],
    body: [
      ...weights(random, [outputs, channels / groups, kernel, kernel], each ? 0 : undefined),
      ...bias(random, outputs, each),
      `%${activation ? 'c' : 'f'} = Conv(%a, %w, %bias) ${attributes}`,
      ...(activation ?? []),
    ],
    step: 0.03 * Math.sqrt((channels / groups) * kernel * kernel) * (0.5 + random()),
    out,
    integer: true,
  };
};

/** Transposed convolutions with random strides, kernels, pads and output paddings. */
const transposed = (
  random,
  { activation, groups = 1, depthwise, dilation = 1, same, image: size = [7, 9] } = {},
) => {
  const depth = depthwise ? 1 : 1 + Math.floor(random() * 6);
  const width = depthwise ? 1 : 1 + Math.floor(random() * 6);
  const [channels, outputs] = [groups * depth, groups * width];
  const strides = size.map(() => pick(random, [1, 2, 3]));
  const kernel = size.map((_, axis) =>
    Math.max(pick(random, [1, 2, 3, 4]), strides[axis] - (same ? 0 : 1)),
  );
  const extent = kernel.map((taps) => (taps - 1) * dilation + 1);
  const begin = extent.map((taps) => Math.floor(random() * Math.min(taps, 3)));
  const end = extent.map((taps, axis) => Math.floor(random() * Math.min(taps - begin[axis], 3)));
  const more = strides.map((stride) => (same ? 0 : Math.floor(random() * stride)));
  const each = width > 1 && random() < 0.7;
  // A bias has a scale for each output; the weights only have those of one group.
  const biased = !each || groups === 1;
  const padding = same ? 'auto_pad = "SAME_UPPER"' : `pads = [${[...begin, ...end].join(', ')}]`;
  const attributes = `{group = ${groups}, strides = [${strides.join(', ')}], ${padding}, output_padding = [${more.join(', ')}], dilations = [${size.map(() => dilation).join(', ')}]}`;
  const out = size.map((input, axis) =>
    same
      ? input * strides[axis]
      : (input - 1) * strides[axis] + more[axis] + extent[axis] - begin[axis] - end[axis],
  );
  return {
    inputs: [[1, channels, ...size]],
    body: [
      ...weights(random, [channels, width, ...kernel], each ? 1 : undefined),
      ...(biased ? bias(random, outputs, each) : []),
      `%${activation ? 'c' : 'f'} = ConvTranspose(%a, %w${biased ? ', %bias' : ''}) ${attributes}`,
      ...(activation ?? []),
    ],
    step: 0.03 * Math.sqrt(depth * product(kernel)) * (0.5 + random()),
    out: [1, outputs, ...out],
    integer: true,
  };
};

/** A convolution along a line with this size of kernel and dilation. */
const line = (random, kernel, dilation) => {
  const [channels, outputs] = integers(random, 2, 1, 9);
  const out = [7, 9].map((size, axis) => size - dilation * (kernel[axis] - 1));
  return {
    inputs: [[1, channels, 7, 9]],
    body: [
      ...weights(random, [outputs, channels, ...kernel], 0),
      ...bias(random, outputs, true),
      `%f = Conv(%a, %w, %bias) {dilations = [${dilation}, ${dilation}]}`,
    ],
    step: 0.03 * Math.sqrt(channels * kernel[0] * kernel[1]),
    out: [1, outputs, ...out],
    integer: true,
  };
};

const operators = {
  Conv: (random) => convolution(random),
  'Conv, depthwise': (random) => convolution(random, { depthwise: true }),
  'Conv and Relu': (random) => convolution(random, { activation: ['%f = Relu(%c)'] }),
  'Conv and Clip': (random) =>
    convolution(random, {
      activation: [scale('lo', 0), scale('hi', 6), '%f = Clip(%c, %lo, %hi)'],
    }),
  ConvTranspose: (random) => transposed(random),
  'ConvTranspose and Relu': (random) => transposed(random, { activation: ['%f = Relu(%c)'] }),
  'ConvTranspose of groups': (random) => transposed(random, { groups: 3 }),
  'ConvTranspose, depthwise': (random) => transposed(random, { groups: 5, depthwise: true }),
  'ConvTranspose, dilated': (random) => transposed(random, { dilation: 2 }),
  'ConvTranspose, same': (random) => transposed(random, { same: true }),
  'ConvTranspose, one dimension': (random) => transposed(random, { image: [11] }),
  MatMul(random) {
    const [m, k, n] = integers(random, 3, 1, 40);
    const each = random() < 0.5;
    return {
      inputs: [[m, k]],
      body: [...weights(random, [k, n], each ? 1 : undefined), '%f = MatMul(%a, %w)'],
      step: 0.03 * Math.sqrt(k),
      out: [m, n],
      integer: true,
    };
  },
  'MatMul of two dynamic operands'(random) {
    const [m, k, n] = integers(random, 3, 1, 24);
    return {
      inputs: [
        [2, m, k],
        [2, k, n],
      ],
      body: ['%f = MatMul(%a, %b)'],
      step: 0.1 * Math.sqrt(k),
      out: [2, m, n],
    };
  },
  Gemm(random) {
    const [m, k, n] = integers(random, 3, 1, 40);
    return {
      inputs: [[m, k]],
      body: [
        ...weights(random, [n, k]),
        ...bias(random, n, false),
        '%f = Gemm(%a, %w, %bias) {transB = 1}',
      ],
      step: 0.03 * Math.sqrt(k),
      out: [m, n],
      integer: true,
    };
  },
  'Conv, dilated': (random) => line(random, [3, 3], 2),
  'Conv, one column': (random) => line(random, [3, 1], 1),
  'Conv, one row': (random) => line(random, [1, 3], 1),
  Add: pair('Add', 0.07),
  Sub: pair('Sub', 0.07),
  Mul: pair('Mul', 0.15),
  'Add and Relu': (random) => {
    const shape = image(random);
    return {
      inputs: [shape, shape],
      body: ['%c = Add(%a, %b)', '%f = Relu(%c)'],
      step: 0.07,
      out: shape,
      integer: true,
    };
  },
  Concat(random) {
    const [first, second] = [image(random), image(random)];
    return {
      inputs: [first, second],
      body: ['%f = Concat(%a, %b) {axis = 1}'],
      step: 0.06,
      out: [1, first[1] + second[1], 7, 9],
      integer: true,
    };
  },
  AveragePool: alone('AveragePool(%a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}'),
  'AveragePool, padding counted': alone(
    'AveragePool(%a) {kernel_shape = [2, 2], pads = [0, 1, 0, 1], strides = [2, 2], count_include_pad = 1}',
    { out: ([n, c]) => [n, c, 3, 5] },
  ),
  GlobalAveragePool: alone('GlobalAveragePool(%a)', { step: 0.02, out: ([n, c]) => [n, c, 1, 1] }),
  ReduceMean: alone('ReduceMean(%a) {axes = [2, 3]}', {
    step: 0.02,
    out: ([n, c]) => [n, c, 1, 1],
  }),
  MaxPool: alone('MaxPool(%a) {kernel_shape = [2, 2]}', { out: ([n, c]) => [n, c, 6, 8] }),
  Relu: alone('Relu(%a)'),
  Clip: alone('Clip(%a, %lo, %hi)', { body: [scale('lo', -1), scale('hi', 4)] }),
  LeakyRelu: alone('LeakyRelu(%a) {alpha = 0.1}'),
  Sigmoid: alone('Sigmoid(%a)', { step: 1 / 255 }),
  Tanh: alone('Tanh(%a)', { step: 2 / 255 }),
  HardSigmoid: alone('HardSigmoid(%a) {alpha = 0.2}', { step: 1 / 255 }),
  Elu: alone('Elu(%a)'),
  Exp: alone('Exp(%a)', { step: 2 }),
  Erf: alone('Erf(%a)', { step: 2 / 255 }),
  // ONNX Runtime truncates 1 / scale to an integer: 256, which every tool writes.
  Softmax: alone('Softmax(%a) {axis = -1}', { step: 1 / 256, integer: false }),
  Reshape: alone('Reshape(%a, %to)', {
    body: ['const %to: int64[2] = {1, -1}'],
    out: (dims) => [1, product(dims)],
  }),
  Transpose: alone('Transpose(%a) {perm = [0, 2, 3, 1]}', { out: ([n, c, h, w]) => [n, h, w, c] }),
  Slice: alone('Slice(%a, %from, %till, %axes)', {
    body: [
      'const %from: int64[2] = {1, 2}',
      'const %till: int64[2] = {6, 9}',
      'const %axes: int64[2] = {2, 3}',
    ],
    out: ([n, c]) => [n, c, 5, 7],
  }),
  Gather: alone('Gather(%a, %at) {axis = 2}', {
    body: ['const %at: int64[3] = {6, 0, 3}'],
    out: ([n, c, , w]) => [n, c, 3, w],
  }),
  Pad: alone('Pad(%a, %pads, %fill)', {
    body: ['const %pads: int64[8] = {0, 0, 1, 2, 0, 0, 3, 0}', scale('fill', 0)],
    out: ([n, c]) => [n, c, 11, 11],
  }),
  'Resize, nearest': alone('Resize(%a, _, %sizes) {mode = "nearest"}', {
    body: ['const %sizes: float32[4] = {1.0, 1.0, 2.0, 2.0}'],
    out: ([n, c]) => [n, c, 14, 18],
  }),
};

// Operators that only move or clamp numbers keep the scale.
const KEEPS = /^%f = (Max|Reshape|Transpose|Slice|Gather|Pad|Resize|Clip|Relu)/;

/**
 * The text of one operator between its pairs; `step` is that of the output. With `bytes` the graph takes and
 * gives integers, without the outer halves of the pairs.
 */
function textOf(random, type, { inputs, body, step, out }, bytes = false) {
  const [lo, hi] = range(type);
  const names = ['a', 'b'].slice(0, inputs.length);
  const zeros = names.map(() => integers(random, 1, lo + 60, hi - 60)[0]);
  const steps = names.map(() => 0.02 + random() * 0.04);
  const feeds = inputs.map((dims, at) => ({
    name: `${names[at]}${bytes ? 'q' : 'x'}`,
    type: bytes ? type : 'float32',
    dims,
    data: integers(random, product(dims), lo, hi).map((q) =>
      bytes ? q : (q - zeros[at] + 0.9 * (random() - 0.5)) * steps[at],
    ),
  }));
  const keeps = body.some((line) => KEEPS.test(line)) && !body.some((line) => /^%c =/.test(line));
  const lines = [
    'graph "pairs" opset 13, com.microsoft 1',
    ...feeds.map((feed) => `input %${feed.name}: ${feed.type}[${feed.dims.join(', ')}]`),
    ...names.flatMap((name, at) => [
      scale(`${name}s`, steps[at]),
      zero(`${name}z`, type, zeros[at]),
    ]),
    scale('ys', keeps ? steps[0] : step),
    zero('yz', type, keeps ? zeros[0] : integers(random, 1, lo + 20, hi - 20)[0]),
    ...names.flatMap((name) => [
      ...(bytes ? [] : [`%${name}q = QuantizeLinear(%${name}x, %${name}s, %${name}z)`]),
      `%${name} = DequantizeLinear(%${name}q, %${name}s, %${name}z)`,
    ]),
    ...body,
    ...(bytes
      ? [`%y: ${type}[${out.join(', ')}] = QuantizeLinear(%f, %ys, %yz)`]
      : [
          '%q = QuantizeLinear(%f, %ys, %yz)',
          `%y: float32[${out.join(', ')}] = DequantizeLinear(%q, %ys, %yz)`,
        ]),
    'output %y',
  ];
  return { text: lines.join('\n'), feeds, step: keeps ? steps[0] : step };
}

/** `outer`: the number of Quantize- and DequantizeLinear steps around an operator in integers. */
async function check(name, type, make, bytes, outer) {
  const random = randomSource(name.length * 313 + (type === 'int8' ? 11 : 0));
  let [count, different] = [0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    const form = make(random);
    const { text, feeds, step } = textOf(random, type, form, bytes);
    const found = await compareWithOrt(text, feeds, 'float');
    const apart = Math.round(found.worst / (bytes ? 1 : step));
    assert.ok(apart <= 1, `${apart} steps away\n${text.slice(0, 900)}`);
    count += found.count;
    different += found.different;
    const between = found.steps.filter((op) => /^(Dequantize|Quantize)/.test(op));
    if (form.integer) assert.equal(between.length, outer(feeds), found.steps.join());
  }
  assert.ok(different <= count / 1000, `${different} of ${count} elements differ`);
}

describe('operators between Q/DQ pairs against ONNX Runtime', () => {
  for (const [name, make] of Object.entries(operators)) {
    for (const type of ['uint8', 'int8']) {
      // Numbers are quantized on entry and become floats on exit.
      test(`${name}, ${type}`, () => check(name, type, make, false, (feeds) => feeds.length + 1));
    }
  }
});

describe('graphs that take and give 8-bit integers', () => {
  for (const [name, make] of Object.entries(operators)) {
    for (const type of ['uint8', 'int8']) {
      test(`${name}, ${type}`, () => check(name, type, make, true, () => 0));
    }
  }
});

// A reader of the value itself, beside its pair, sees it before rounding.
describe('a value that is read beside its Q/DQ pair', () => {
  const inputs = { a: 'float32[1, 4, 5, 5]' };
  const readers = {
    'by an operator': { x: 'Neg(%a)', beside: ['%t = Tanh(%x)'], outputs: ['y', 't'] },
    'by an operator, as a graph input': { beside: ['%t = Tanh(%a)'], outputs: ['y', 't'] },
    'as an output': { x: 'Neg(%a)', beside: [], outputs: ['y', 'x'] },
    'by the addition around a convolution': {
      x: 'Neg(%a)',
      beside: ['%t = Add(%y, %x)'],
      outputs: ['t'],
    },
  };
  for (const [name, { x, beside, outputs }] of Object.entries(readers)) {
    test(name, async () => {
      const body = [
        scale('s', 0.0625),
        zero('z', 'uint8', 128),
        scale('ws', 0.015625),
        zero('wz', 'int8', 0),
        constant('w', 'int8', [4, 4, 1, 1], integers(randomSource(8), 16, -127, 127)),
        ...(x ? [`%x = ${x}`] : []),
        `%q = QuantizeLinear(${x ? '%x' : '%a'}, %s, %z)`,
        '%d = DequantizeLinear(%q, %s, %z)',
        '%wd = DequantizeLinear(%w, %ws, %wz)',
        '%y = Conv(%d, %wd)',
        ...beside,
      ];
      const { kernels } = await compareFloats(graph(17, inputs, body, outputs), inputs, outputs);
      assert.ok(
        kernels.some((step) => /conv_q8/.test(step)),
        kernels.join(),
      );
    });
  }
});

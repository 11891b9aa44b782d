// Small models of single operators, for every type that LiteRT.js runs: a table of names and functions that
// build a Net from a generator of random numbers.

import { activations, padding } from './schema.mjs';
import { Net, Random, typeNumber } from './net.mjs';

const bytes = ['int8', 'uint8'];
const integers = [...bytes, 'int16'];
const all = ['float32', ...integers];

const cases = [];

/** A case for each type; `build(net, type)` returns the outputs. */
function add(name, kinds, build) {
  for (const type of kinds) {
    const seed = cases.length + 1;
    cases.push({
      name: `${name} ${type}`,
      build: (wrapped) => {
        const net = new Net(new Random(seed), wrapped);
        const outputs = build(net, type);
        return net.done(...(Array.isArray(outputs) ? outputs : [outputs]));
      },
    });
  }
}

/** A case of an operator on an image as it is in the file, and on one that a convolution made. */
function onImages(name, kinds, shape, build, range) {
  add(name, kinds, (net, type) => build(net, type, net.input(type, shape, ...(range ?? []))));
  add(`${name}, planar`, kinds, (net, type) =>
    build(net, type, net.pointwise(net.input(type, shape, ...(range ?? [])))),
  );
}

const window = (pads, stride, more = {}) => ({
  padding: padding[pads],
  strideW: stride,
  strideH: stride,
  ...more,
});

// --- Layers
for (const [label, size, kernel, stride, dilation, activation] of [
  ['3x3', 7, 3, 1, 1, 'RELU'],
  ['3x3 stride 2', 8, 3, 2, 1, 'RELU6'],
  ['5x5 stride 3', 11, 5, 3, 1, 'NONE'],
  ['3x3 dilation 2', 9, 3, 1, 2, 'RELU_N1_TO_1'],
]) {
  for (const pads of ['SAME', 'VALID']) {
    add(`CONV_2D ${label} ${pads}`, all, (net, type) => {
      const x = net.input(type, [1, size, size + 1, 3]);
      const w = net.weights(
        type === 'int16' ? 'int8' : type,
        [5, kernel, kernel, 3],
        type === 'uint8' ? undefined : 0,
      );
      const extent = (kernel - 1) * dilation + 1;
      const out = (n) =>
        pads === 'SAME' ? Math.ceil(n / stride) : Math.ceil((n - extent + 1) / stride);
      return net.node(
        'CONV_2D',
        [x, w, net.bias(x, w, 5)],
        type,
        [1, out(size), out(size + 1), 5],
        {
          ...window(pads, stride),
          dilationW: dilation,
          dilationH: dilation,
          activation: activations[activation],
        },
      );
    });
    add(`DEPTHWISE_CONV_2D ${label} ${pads}`, all, (net, type) => {
      const x = net.input(type, [1, size, size + 1, 3]);
      const w = net.weights(
        type === 'int16' ? 'int8' : type,
        [1, kernel, kernel, 6],
        type === 'uint8' ? undefined : 3,
      );
      const extent = (kernel - 1) * dilation + 1;
      const out = (n) =>
        pads === 'SAME' ? Math.ceil(n / stride) : Math.ceil((n - extent + 1) / stride);
      return net.node(
        'DEPTHWISE_CONV_2D',
        [x, w, net.bias(x, w, 6)],
        type,
        [1, out(size), out(size + 1), 6],
        {
          ...window(pads, stride),
          multiplier: 2,
          dilationW: dilation,
          dilationH: dilation,
          activation: activations[activation],
        },
      );
    });
  }
}
add('CONV_2D with weights of 16 bits', ['float32'], (net, type) => {
  const x = net.input(type, [1, 6, 6, 4]);
  const w16 = net.weights('float16', [5, 3, 3, 4]);
  const b16 = net.weights('float16', [5]);
  const w = net.node('DEQUANTIZE', [w16], 'float32', [5, 3, 3, 4]);
  const b = net.node('DEQUANTIZE', [b16], 'float32', [5]);
  return net.node('CONV_2D', [x, w, b], type, [1, 6, 6, 5], window('SAME', 1));
});
for (const [kernel, stride, pads] of [
  [2, 2, 'SAME'],
  [3, 2, 'SAME'],
  [4, 2, 'SAME'],
  [3, 2, 'VALID'],
  [2, 3, 'VALID'],
  [3, 1, 'SAME'],
]) {
  add(
    `TRANSPOSE_CONV ${kernel}x${kernel} stride ${stride} ${pads}`,
    ['float32', 'int8'],
    (net, type) => {
      const out = pads === 'SAME' ? 5 * stride : 4 * stride + Math.max(kernel, stride);
      const x = net.input(type, [1, 5, 5, 3]);
      const w = net.weights(type, [4, kernel, kernel, 3], 0);
      const shape = net.ints([1, out, out, 4]);
      return net.node(
        'TRANSPOSE_CONV',
        [shape, w, x, net.bias(x, w, 4)],
        type,
        [1, out, out, 4],
        window(pads, stride),
      );
    },
  );
}
for (const activation of ['NONE', 'RELU', 'RELU6']) {
  add(`FULLY_CONNECTED ${activation}`, all, (net, type) => {
    const x = net.input(type, [3, 24]);
    const w = net.weights(type === 'int16' ? 'int8' : type, [7, 24]);
    return net.node('FULLY_CONNECTED', [x, w, net.bias(x, w, 7)], type, [3, 7], {
      activation: activations[activation],
    });
  });
}
add('FULLY_CONNECTED of an image', ['float32', 'int8'], (net, type) => {
  const x = net.pointwise(net.input(type, [2, 3, 2, 4]));
  const w = net.weights(type, [5, 24]);
  return net.node('FULLY_CONNECTED', [x, w, net.bias(x, w, 5)], type, [2, 5]);
});
add('FULLY_CONNECTED of three dimensions', ['float32', 'int8'], (net, type) => {
  const x = net.input(type, [2, 3, 8]);
  const w = net.weights(type, [5, 8]);
  return net.node('FULLY_CONNECTED', [x, w, net.bias(x, w, 5)], type, [2, 3, 5], {
    keepNumDims: true,
  });
});
for (const adj of [0, 1, 2, 3]) {
  add(`BATCH_MATMUL adj ${adj}`, ['float32', 'int8'], (net, type) => {
    const x = net.input(type, adj & 1 ? [2, 4, 3] : [2, 3, 4]);
    const y = net.input(type, adj & 2 ? [2, 5, 4] : [2, 4, 5]);
    return net.node(
      'BATCH_MATMUL',
      [x, y],
      type,
      [2, 3, 5],
      { adjX: adj & 1, adjY: adj >> 1 },
      { range: [-20, 20] },
    );
  });
}

// --- Pools
for (const pads of ['SAME', 'VALID']) {
  for (const op of ['AVERAGE_POOL_2D', 'MAX_POOL_2D']) {
    onImages(`${op} ${pads}`, all, [1, 7, 6, 3], (net, type, x) => {
      const out = pads === 'SAME' ? [4, 3] : [3, 2];
      return net.node(op, [x], type, [1, ...out, 3], window(pads, 2, { filterW: 3, filterH: 3 }), {
        grid: net.grid(x),
      });
    });
  }
}
onImages('L2_POOL_2D', ['float32'], [1, 6, 6, 2], (net, type, x) =>
  net.node('L2_POOL_2D', [x], type, [1, 3, 3, 2], window('VALID', 2, { filterW: 2, filterH: 2 })),
);

// --- One operand
for (const [op, kinds, low, high, range] of [
  ['RELU', all],
  ['RELU6', all],
  ['RELU_N1_TO_1', ['float32', 'int8', 'uint8']],
  ['RELU_0_TO_1', ['float32', 'int8', 'uint8']],
  ['LOGISTIC', ['float32'], -6, 6],
  ['TANH', ['float32'], -4, 4],
  ['ELU', ['float32', 'int8']],
  ['HARD_SWISH', ['float32', 'int8', 'uint8']],
  ['LEAKY_RELU', all],
  ['GELU', ['float32']],
  ['EXP', ['float32', 'int8'], -2, 1, [0, 3]],
  ['LOG', ['float32', 'int8'], 0.5, 6, [-2, 2]],
  ['SQRT', ['float32'], 0, 9],
  ['RSQRT', ['float32', 'int8'], 0.5, 6, [0, 2]],
  ['SQUARE', ['float32']],
  ['ABS', ['float32', 'int8'], -3, 3, [0, 3]],
  ['NEG', ['float32']],
  ['SIN', ['float32']],
  ['COS', ['float32']],
  ['FLOOR', ['float32']],
  ['CEIL', ['float32']],
  ['ROUND', ['float32']],
  ['SIGN', ['float32']],
  ['ZEROS_LIKE', ['float32']],
]) {
  const build = (net, type, x) => {
    const options = op === 'LEAKY_RELU' ? { alpha: 0.2 } : {};
    return net.node(op, [x], type, [2, 3, 4, 5], options, { range: range ?? [-4, 4] });
  };
  // A convolution would make numbers outside of the domain of these.
  const alone = low >= 0;
  if (alone)
    add(op, kinds, (net, type) => build(net, type, net.input(type, [2, 3, 4, 5], low, high)));
  else onImages(op, kinds, [2, 3, 4, 5], build, low === undefined ? undefined : [low, high]);
}
add('GELU by tanh', ['float32'], (net, type) =>
  net.node('GELU', [net.input(type, [40])], type, [40], { approximate: true }),
);
for (const op of ['LOGISTIC', 'TANH']) {
  // The grids that their kernels demand (quantization_spec.md).
  add(op, bytes, (net, type) => {
    const fixed = {
      'LOGISTIC int8': [1 / 256, -128],
      'LOGISTIC uint8': [1 / 256, 0],
      'TANH int8': [1 / 128, 0],
      'TANH uint8': [1 / 128, 128],
    }[`${op} ${type}`];
    const x = net.input(type, [2, 60], -6, 6);
    return net.node(
      op,
      [x],
      type,
      [2, 60],
      {},
      { grid: { scales: [fixed[0]], zeros: [fixed[1]] } },
    );
  });
}

// --- Two operands
for (const [op, kinds] of [
  ['ADD', all],
  ['SUB', all],
  ['MUL', all],
  ['DIV', ['float32']],
  ['MAXIMUM', ['float32', 'int8', 'uint8', 'int32']],
  ['MINIMUM', ['float32', 'int8', 'uint8', 'int32']],
  ['SQUARED_DIFFERENCE', ['float32', 'int8']],
  ['POW', ['float32']],
  ['FLOOR_DIV', ['float32', 'int32']],
  ['FLOOR_MOD', ['float32', 'int32']],
]) {
  const positive = ['POW', 'DIV'].includes(op);
  const int = (type) => (type === 'int32' ? [1, 9] : positive ? [0.5, 2] : [-3, 3]);
  const options = ['ADD', 'SUB', 'MUL', 'DIV'].includes(op)
    ? { activation: activations.RELU6 }
    : {};
  const same = ['MAXIMUM', 'MINIMUM'].includes(op);
  for (const [label, left, right] of [
    ['alike', [2, 3, 4, 5], [2, 3, 4, 5]],
    ['by channel', [2, 3, 4, 5], [5]],
    ['by image', [2, 3, 4, 5], [2, 1, 1, 5]],
    ['by number', [2, 3, 4, 5], []],
  ]) {
    add(`${op} ${label}`, kinds, (net, type) => {
      const a = net.input(
        type,
        left,
        ...(op.startsWith('FLOOR') && type === 'int32' ? [-9, 9] : int(type)),
      );
      const b = net.input(type, right, ...int(type));
      return net.node(op, [a, b], type, left, options, {
        range: [-9, 9],
        ...(same ? { grid: net.grid(a) } : {}),
      });
    });
    // A product would multiply the step by which the convolutions of both engines may differ.
    const planar = kinds.filter(
      (type) => type !== 'int32' && !positive && !(type === 'int16' && op === 'MUL'),
    );
    add(`${op} ${label}, planar`, planar, (net, type) => {
      const a = net.pointwise(net.input(type, left));
      const grid = net.grid(a);
      const codes = net.data(type, right, ...int(type));
      const b = net.constant(type, right, codes, grid);
      return net.node(op, [a, b], type, left, options, {
        range: [-9, 9],
        ...(same ? { grid } : {}),
      });
    });
  }
}
for (const op of ['LESS', 'LESS_EQUAL', 'GREATER', 'GREATER_EQUAL', 'EQUAL', 'NOT_EQUAL']) {
  add(op, ['float32', 'int32'], (net, type) => {
    const a = net.input(type, [3, 4, 5], -2, 2);
    const b = net.input(type, [3, 4, 5], -2, 2);
    return net.node(op, [a, b], 'bool', [3, 4, 5]);
  });
}
for (const op of ['LOGICAL_AND', 'LOGICAL_OR']) {
  add(op, ['bool'], (net, type) =>
    net.node(op, [net.input(type, [3, 8]), net.input(type, [3, 8])], 'bool', [3, 8]),
  );
}
add('LOGICAL_NOT', ['bool'], (net, type) =>
  net.node('LOGICAL_NOT', [net.input(type, [24])], 'bool', [24]),
);
for (const op of ['SELECT', 'SELECT_V2']) {
  add(op, ['float32', 'int32'], (net, type) => {
    const inputs = [net.input('bool', [2, 6]), net.input(type, [2, 6]), net.input(type, [2, 6])];
    return net.node(op, inputs, type, [2, 6]);
  });
}
add('SELECT by first dimension', ['float32'], (net, type) => {
  const inputs = [net.input('bool', [4]), net.input(type, [4, 3]), net.input(type, [4, 3])];
  return net.node('SELECT', inputs, type, [4, 3]);
});
add('SELECT_V2 broadcast', ['float32'], (net, type) => {
  const inputs = [net.input('bool', [4, 1]), net.input(type, [1, 3]), net.input(type, [4, 3])];
  return net.node('SELECT_V2', inputs, type, [4, 3]);
});
add('ADD_N', ['float32'], (net, type) => {
  const inputs = [1, 2, 3].map(() => net.input(type, [2, 5]));
  return net.node('ADD_N', inputs, type, [2, 5]);
});
onImages('PRELU', ['float32', 'int8', 'uint8'], [1, 3, 4, 5], (net, type, x) => {
  const alpha = net.constant(
    type,
    [1, 1, 5],
    net.data(type, [5], 0, 1),
    type === 'float32' ? {} : { scales: [0.004], zeros: [type === 'int8' ? -100 : 28] },
  );
  return net.node('PRELU', [x, alpha], type, [1, 3, 4, 5]);
});

// --- Reductions
for (const [op, kinds] of [
  ['MEAN', all],
  ['SUM', ['float32', 'int8']],
  ['REDUCE_MAX', ['float32', 'int8']],
  ['REDUCE_MIN', ['float32', 'int8']],
  ['REDUCE_PROD', ['float32']],
]) {
  for (const [axes, keepDims] of [
    [[1, 2], true],
    [[1, 2], false],
    [[3], false],
    [[-1], true],
    [[1], false],
    [[0, 1, 2, 3], false],
  ]) {
    onImages(`${op} over ${axes} keep ${keepDims}`, kinds, [2, 3, 4, 5], (net, type, x) => {
      const normal = axes.map((axis) => (axis < 0 ? axis + 4 : axis));
      const shape = [2, 3, 4, 5]
        .map((dim, i) => (normal.includes(i) ? 1 : dim))
        .filter((_, i) => keepDims || !normal.includes(i));
      const same = op.startsWith('REDUCE');
      return net.node(
        op,
        [x, net.ints(axes)],
        type,
        shape,
        { keepDims },
        same ? { grid: net.grid(x) } : {},
      );
    });
  }
}
for (const op of ['REDUCE_ANY', 'REDUCE_ALL']) {
  add(op, ['bool'], (net, type) =>
    net.node(op, [net.input(type, [4, 3]), net.ints([1])], 'bool', [4], { keepDims: false }),
  );
}
for (const op of ['ARG_MAX', 'ARG_MIN']) {
  onImages(op, ['float32', 'int8', 'uint8'], [2, 3, 4, 7], (net, type, x) =>
    net.node(op, [x, net.ints([3], [])], 'int32', [2, 3, 4], { type: typeNumber('int32') }),
  );
}
add('TOPK_V2', ['float32', 'int8'], (net, type) => {
  const x = net.input(type, [3, 9]);
  const outputs = [
    { type, shape: [3, 4], grid: net.grid(x) },
    { type: 'int32', shape: [3, 4] },
  ];
  return net.nodes2('TOPK_V2', [x, net.ints([4], [])], outputs);
});
for (const [exclusive, reverse] of [
  [false, false],
  [true, false],
  [true, true],
]) {
  add(`CUMSUM ${exclusive} ${reverse}`, ['float32', 'int32'], (net, type) => {
    const x = net.input(type, [2, 5, 3]);
    return net.node('CUMSUM', [x, net.ints([1], [])], type, [2, 5, 3], { exclusive, reverse });
  });
}

// --- Normalization
onImages('SOFTMAX', ['float32'], [1, 3, 4, 6], (net, type, x) =>
  net.node('SOFTMAX', [x], type, [1, 3, 4, 6], { beta: 1 }),
);
add('SOFTMAX beta', ['float32'], (net, type) =>
  net.node('SOFTMAX', [net.input(type, [3, 9])], type, [3, 9], { beta: 0.5 }),
);
add('SOFTMAX', bytes, (net, type) => {
  const grid = { scales: [1 / 256], zeros: [type === 'int8' ? -128 : 0] };
  return net.node('SOFTMAX', [net.input(type, [3, 9])], type, [3, 9], { beta: 1 }, { grid });
});
onImages('LOG_SOFTMAX', ['float32'], [1, 3, 4, 6], (net, type, x) =>
  net.node('LOG_SOFTMAX', [x], type, [1, 3, 4, 6]),
);
onImages('L2_NORMALIZATION', ['float32'], [1, 3, 4, 6], (net, type, x) =>
  net.node('L2_NORMALIZATION', [x], type, [1, 3, 4, 6]),
);
onImages('LOCAL_RESPONSE_NORMALIZATION', ['float32'], [1, 3, 4, 8], (net, type, x) =>
  net.node('LOCAL_RESPONSE_NORMALIZATION', [x], type, [1, 3, 4, 8], {
    radius: 2,
    bias: 1,
    alpha: 0.5,
    beta: 0.75,
  }),
);

// --- Images
for (const op of ['RESIZE_BILINEAR', 'RESIZE_NEAREST_NEIGHBOR']) {
  for (const [alignCorners, halfPixelCenters] of [
    [false, false],
    [true, false],
    [false, true],
  ]) {
    for (const size of [
      [10, 7],
      [3, 2],
    ]) {
      onImages(
        `${op} ${size} ${alignCorners} ${halfPixelCenters}`,
        ['float32', 'int8', 'uint8'],
        [1, 5, 4, 3],
        (net, type, x) =>
          net.node(
            op,
            [x, net.ints(size)],
            type,
            [1, ...size, 3],
            { alignCorners, halfPixelCenters },
            { grid: net.grid(x) },
          ),
      );
    }
  }
}
onImages('SPACE_TO_DEPTH', ['float32', 'int8', 'uint8'], [1, 4, 6, 3], (net, type, x) =>
  net.node('SPACE_TO_DEPTH', [x], type, [1, 2, 3, 12], { block: 2 }, { grid: net.grid(x) }),
);
onImages('DEPTH_TO_SPACE', ['float32', 'int8', 'uint8'], [1, 2, 3, 12], (net, type, x) =>
  net.node('DEPTH_TO_SPACE', [x], type, [1, 4, 6, 3], { block: 2 }, { grid: net.grid(x) }),
);
onImages('SPACE_TO_BATCH_ND', ['float32', 'int8'], [1, 5, 4, 3], (net, type, x) =>
  net.node(
    'SPACE_TO_BATCH_ND',
    [x, net.ints([2, 2]), net.ints([1, 0, 0, 2], [2, 2])],
    type,
    [4, 3, 3, 3],
    {},
    { grid: net.grid(x) },
  ),
);
onImages('BATCH_TO_SPACE_ND', ['float32', 'int8'], [8, 3, 2, 3], (net, type, x) =>
  net.node(
    'BATCH_TO_SPACE_ND',
    [x, net.ints([2, 2]), net.ints([1, 0, 0, 1], [2, 2])],
    type,
    [2, 5, 3, 3],
    {},
    { grid: net.grid(x) },
  ),
);

// --- Movement
for (const axis of [1, 3]) {
  onImages(`CONCATENATION ${axis}`, all, [1, 3, 4, 5], (net, type, x) => {
    let y = net.input(type, [1, 3, 4, 5]);
    // Only uint8 may have several grids.
    if (String(net.grid(x).scales) !== String(net.grid(y).scales)) y = net.pointwise(y);
    const shape = axis === 1 ? [1, 6, 4, 5] : [1, 3, 4, 10];
    return net.node(
      'CONCATENATION',
      [x, y],
      type,
      shape,
      { axis },
      type === 'uint8' ? {} : { grid: net.grid(x) },
    );
  });
}
onImages('PAD', ['float32', 'int8', 'uint8'], [1, 3, 4, 2], (net, type, x) =>
  net.node(
    'PAD',
    [x, net.ints([0, 0, 1, 2, 0, 1, 1, 0], [4, 2])],
    type,
    [1, 6, 5, 3],
    {},
    { grid: net.grid(x) },
  ),
);
onImages('PADV2', ['float32', 'int8'], [1, 3, 4, 2], (net, type, x) => {
  const grid = net.grid(x);
  const value = net.constant(type, [], type === 'float32' ? [1.5] : [17], grid);
  return net.node(
    'PADV2',
    [x, net.ints([0, 0, 1, 2, 0, 1, 1, 0], [4, 2]), value],
    type,
    [1, 6, 5, 3],
    {},
    { grid },
  );
});
for (const mode of [0, 1]) {
  onImages(`MIRROR_PAD ${mode}`, ['float32', 'int8'], [1, 3, 4, 2], (net, type, x) =>
    net.node(
      'MIRROR_PAD',
      [x, net.ints([0, 0, 1, 2, 2, 1, 0, 0], [4, 2])],
      type,
      [1, 6, 7, 2],
      { mode },
      { grid: net.grid(x) },
    ),
  );
}
onImages('RESHAPE', ['float32', 'int8', 'uint8'], [1, 3, 4, 6], (net, type, x) =>
  net.node(
    'RESHAPE',
    [x, net.ints([2, 36])],
    type,
    [2, 36],
    { newShape: [2, 36] },
    { grid: net.grid(x) },
  ),
);
onImages('SQUEEZE', ['float32', 'int8'], [1, 3, 1, 6], (net, type, x) =>
  net.node('SQUEEZE', [x], type, [3, 6], { squeezeDims: [0, 2] }, { grid: net.grid(x) }),
);
onImages('EXPAND_DIMS', ['float32', 'int8'], [1, 3, 2, 6], (net, type, x) =>
  net.node(
    'EXPAND_DIMS',
    [x, net.ints([-1], [])],
    type,
    [1, 3, 2, 6, 1],
    {},
    { grid: net.grid(x) },
  ),
);
onImages('TRANSPOSE', ['float32', 'int8'], [1, 3, 2, 6], (net, type, x) =>
  net.node('TRANSPOSE', [x, net.ints([0, 2, 3, 1])], type, [1, 2, 6, 3], {}, { grid: net.grid(x) }),
);
for (const [label, options, bounds, shape] of [
  [
    'plain',
    {},
    [
      [0, 1, 0, 1],
      [1, 3, 4, 4],
      [1, 1, 2, 1],
    ],
    [1, 2, 2, 3],
  ],
  [
    'masks',
    { beginMask: 2, endMask: 4 },
    [
      [0, 2, 1, -3],
      [1, 2, 2, -1],
      [1, 1, 1, 1],
    ],
    [1, 2, 3, 2],
  ],
  [
    'shrunk',
    { shrinkAxisMask: 2 },
    [
      [0, 1, 0, 0],
      [1, 2, 4, 5],
      [1, 1, 1, 1],
    ],
    [1, 4, 5],
  ],
  [
    'backwards',
    { beginMask: 8, endMask: 8 },
    [
      [0, 0, 3, 0],
      [1, 3, 0, 0],
      [1, 1, -1, -2],
    ],
    [1, 3, 3, 3],
  ],
]) {
  onImages(`STRIDED_SLICE ${label}`, ['float32', 'int8'], [1, 3, 4, 5], (net, type, x) =>
    net.node('STRIDED_SLICE', [x, ...bounds.map((list) => net.ints(list))], type, shape, options, {
      grid: net.grid(x),
    }),
  );
}
add('STRIDED_SLICE new axis and ellipsis', ['float32'], (net, type) => {
  const bounds = [
    [0, 0, 1],
    [0, 0, 3],
    [1, 1, 1],
  ].map((list) => net.ints(list));
  const x = net.input(type, [2, 3, 4]);
  return net.node('STRIDED_SLICE', [x, ...bounds], type, [1, 2, 3, 2], {
    newAxisMask: 1,
    ellipsisMask: 2,
  });
});
onImages('SLICE', ['float32', 'int8', 'uint8'], [1, 3, 4, 5], (net, type, x) =>
  net.node(
    'SLICE',
    [x, net.ints([0, 1, 0, 2]), net.ints([1, 2, -1, 2])],
    type,
    [1, 2, 4, 2],
    {},
    { grid: net.grid(x) },
  ),
);
onImages('SPLIT', ['float32', 'int8'], [1, 3, 4, 6], (net, type, x) => {
  const part = { type, shape: [1, 3, 4, 2], grid: net.grid(x) };
  return net.nodes2('SPLIT', [net.ints([3], []), x], [part, part, part], { count: 3 });
});
onImages('SPLIT_V', ['float32', 'int8'], [1, 3, 4, 6], (net, type, x) => {
  const part = (n) => ({ type, shape: [1, 3, 4, n], grid: net.grid(x) });
  return net.nodes2(
    'SPLIT_V',
    [x, net.ints([1, -1, 2]), net.ints([3], [])],
    [part(1), part(3), part(2)],
    { count: 3 },
  );
});
add('PACK', ['float32', 'int8', 'int32'], (net, type) => {
  const x = net.input(type, [2, 3]);
  const y = net.input(type, [2, 3]);
  return net.node('PACK', [x, y], type, [2, 2, 3], { count: 2, axis: 1 }, { grid: net.grid(x) });
});
onImages('UNPACK', ['float32', 'int8'], [1, 2, 3, 4], (net, type, x) => {
  const part = { type, shape: [1, 3, 4], grid: net.grid(x) };
  return net.nodes2('UNPACK', [x], [part, part], { count: 2, axis: 1 });
});
add('TILE', ['float32', 'int32'], (net, type) =>
  net.node('TILE', [net.input(type, [2, 3]), net.ints([2, 3])], type, [4, 9]),
);
add('BROADCAST_TO', ['float32', 'int32'], (net, type) =>
  net.node('BROADCAST_TO', [net.input(type, [2, 1]), net.ints([3, 2, 4])], type, [3, 2, 4]),
);
add('FILL', ['float32', 'int32'], (net, type) =>
  net.node('FILL', [net.ints([2, 3]), net.input(type, [])], type, [2, 3]),
);
// LiteRT.js gives no constants out, so something is added to them.
add('SHAPE', ['float32'], (net, type) => {
  const shape = net.node('SHAPE', [net.input(type, [2, 3, 4])], 'int32', [3], {
    type: typeNumber('int32'),
  });
  return net.node('ADD', [shape, net.input('int32', [3])], 'int32', [3]);
});
add('RANK', ['float32'], (net, type) => {
  const rank = net.node('RANK', [net.input(type, [2, 3, 4])], 'int32', []);
  return net.node('ADD', [rank, net.input('int32', [1])], 'int32', [1]);
});
add('REVERSE_V2', ['float32', 'int32'], (net, type) =>
  net.node('REVERSE_V2', [net.input(type, [2, 3, 4]), net.ints([1])], type, [2, 3, 4]),
);
add('REVERSE_SEQUENCE', ['float32'], (net, type) => {
  const lengths = net.input('int32', [2], 1, 5);
  return net.node('REVERSE_SEQUENCE', [net.input(type, [2, 5, 3]), lengths], type, [2, 5, 3], {
    seqDim: 1,
    batchDim: 0,
  });
});

// --- Indices
for (const [axis, batchDims, data, indices, shape] of [
  [0, 0, [5, 3], [4], [4, 3]],
  [1, 0, [2, 5, 3], [2, 2], [2, 2, 2, 3]],
  [1, 1, [2, 5, 3], [2, 4], [2, 4, 3]],
  [2, 1, [2, 3, 5], [2, 4], [2, 3, 4]],
]) {
  add(`GATHER axis ${axis} batches ${batchDims}`, ['float32', 'int32', 'int8'], (net, type) => {
    const x = net.input(type, data);
    const i = net.input('int32', indices, 0, data[axis] - 1);
    return net.node('GATHER', [x, i], type, shape, { axis, batchDims }, { grid: net.grid(x) });
  });
}
add('GATHER_ND', ['float32', 'int32'], (net, type) => {
  const i = net.input('int32', [4, 2], 0, 2);
  return net.node('GATHER_ND', [net.input(type, [3, 3, 2]), i], type, [4, 2]);
});
add('EMBEDDING_LOOKUP', ['float32'], (net, type) => {
  const i = net.input('int32', [4], 0, 5);
  return net.node('EMBEDDING_LOOKUP', [i, net.weights(type, [6, 3])], type, [4, 3]);
});
add('ONE_HOT', ['float32', 'int32'], (net, type) => {
  const inputs = [
    net.input('int32', [3], 0, 4),
    net.ints([5], []),
    net.constant(type, [], [2]),
    net.constant(type, [], [-1]),
  ];
  return net.node('ONE_HOT', inputs, type, [3, 5], { axis: -1 });
});
add('SCATTER_ND', ['float32', 'int32'], (net, type) => {
  const i = net.input('int32', [5, 1], 0, 3);
  return net.node('SCATTER_ND', [i, net.input(type, [5, 2]), net.ints([4, 2])], type, [4, 2]);
});

// --- Types
add('CAST to int32', ['float32'], (net, type) =>
  net.node('CAST', [net.input(type, [20])], 'int32', [20], { from: 0, to: 2 }),
);
add('CAST to float32', ['int32', 'bool'], (net, type) =>
  net.node('CAST', [net.input(type, [20])], 'float32', [20], { from: typeNumber(type), to: 0 }),
);
add('QUANTIZE', integers, (net, type) =>
  net.node('QUANTIZE', [net.input('float32', [40])], type, [40]),
);
add('QUANTIZE again', bytes, (net, type) =>
  net.node(
    'QUANTIZE',
    [net.input(type, [40])],
    type === 'int8' ? 'uint8' : 'int8',
    [40],
    {},
    { range: [-2, 3] },
  ),
);
onImages('DEQUANTIZE', integers, [1, 2, 3, 4], (net, type, x) =>
  net.node('DEQUANTIZE', [x], 'float32', [1, 2, 3, 4]),
);
add('FAKE_QUANT', ['float32'], (net, type) =>
  net.node('FAKE_QUANT', [net.input(type, [60])], type, [60], { min: -2, max: 2.5, bits: 8 }),
);

export default cases;

// Small ONNX graphs of every operator that toTflite() writes: { name, text, inputs: { NAME: dims }, quantize }, where
// `quantize` says whether the graph is quantized and written as well.

import { Random } from './net.mjs';

const product = (dims) => dims.reduce((a, b) => a * b, 1);
const real = (value) => {
  const text = Math.fround(value).toPrecision(9);
  return /[.e]/.test(text) ? text : `${text}.0`;
};

function graph(name, inputs, body, constants = {}, options = {}) {
  const random = new Random([...name].reduce((sum, c) => sum * 31 + c.charCodeAt(0), 7) % 99991);
  const lines = [`graph "g" opset ${options.opset ?? 18}`];
  for (const [key, dims] of Object.entries(inputs)) {
    lines.push(`input %${key}: ${options.types?.[key] ?? 'float32'}[${dims.join(', ')}]`);
  }
  for (const [key, given] of Object.entries(constants)) {
    if (Array.isArray(given)) {
      const values = Array.from({ length: product(given) }, () => real(random.real(-1, 1)));
      lines.push(`const %${key}: float32[${given.join(', ')}] = {${values.join(', ')}}`);
    } else {
      const { type = 'int64', dims = [given.values.length], values } = given;
      const texts = values.map((value) => (type === 'float32' ? real(value) : String(value)));
      lines.push(`const %${key}: ${type}[${dims.join(', ')}] = {${texts.join(', ')}}`);
    }
  }
  const steps = [body].flat();
  for (const step of steps) {
    const equals = step.indexOf(' = ');
    const right = step.slice(equals + 3);
    const results = step
      .slice(0, equals)
      .split(',')
      .map((one) => {
        const [value, type = 'float32'] = one.trim().split(':');
        return `%${value}: ${type}[...]`;
      });
    lines.push(`${results.join(', ')} = ${right}`);
  }
  for (const output of options.outputs ?? ['y']) lines.push(`output %${output}`);
  return { name, text: lines.join('\n'), inputs, quantize: options.quantize ?? true, ...options };
}

const ints = (...values) => ({ values });
const image = { x: [1, 4, 9, 7] };
const float = { quantize: false };

const convolutions = [
  ['pads 1', 'kernel_shape = [3, 3], pads = [1, 1, 1, 1]', [6, 4, 3, 3]],
  ['valid', 'kernel_shape = [3, 3]', [6, 4, 3, 3]],
  [
    'stride 2, pads 1',
    'kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]',
    [6, 4, 3, 3],
  ],
  ['same upper', 'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"', [6, 4, 3, 3]],
  ['same lower', 'kernel_shape = [4, 4], strides = [2, 2], auto_pad = "SAME_LOWER"', [6, 4, 4, 4]],
  ['uneven pads', 'kernel_shape = [3, 3], pads = [0, 2, 1, 0]', [6, 4, 3, 3]],
  ['dilation 2', 'kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]', [6, 4, 3, 3]],
  ['groups', 'kernel_shape = [3, 3], group = 2, pads = [1, 1, 1, 1]', [6, 2, 3, 3]],
  ['depthwise', 'kernel_shape = [3, 3], group = 4, pads = [1, 1, 1, 1]', [4, 1, 3, 3]],
  [
    'depthwise, multiplier 2',
    'kernel_shape = [3, 3], group = 4, pads = [1, 1, 1, 1]',
    [8, 1, 3, 3],
  ],
  ['1x1', 'kernel_shape = [1, 1]', [5, 4, 1, 1]],
].flatMap(([name, attributes, w]) => [
  graph(`Conv ${name}`, image, `y = Conv(%x, %w, %b) {${attributes}}`, { w, b: [w[0]] }),
]);

const activations = [
  graph('Conv Relu', image, ['c = Conv(%x, %w, %b)', 'y = Relu(%c)'], { w: [6, 4, 3, 3], b: [6] }),
  graph('Conv Relu6', image, ['c = Conv(%x, %w)', 'y = Clip(%c, %lo, %hi)'], {
    w: [6, 4, 3, 3],
    lo: { type: 'float32', dims: [], values: [0] },
    hi: { type: 'float32', dims: [], values: [6] },
  }),
  graph('Conv Clip', image, ['c = Conv(%x, %w)', 'y = Clip(%c, %lo, %hi)'], {
    w: [6, 4, 3, 3],
    lo: { type: 'float32', dims: [], values: [-0.5] },
    hi: { type: 'float32', dims: [], values: [0.75] },
  }),
  graph('Conv HardSwish', image, ['c = Conv(%x, %w)', 'y = HardSwish(%c)'], { w: [6, 4, 3, 3] }),
  graph('Conv LeakyRelu', image, ['c = Conv(%x, %w)', 'y = LeakyRelu(%c) {alpha = 0.2}'], {
    w: [6, 4, 3, 3],
  }),
  graph('Conv PRelu', image, ['c = Conv(%x, %w)', 'y = PRelu(%c, %s)'], {
    w: [6, 4, 3, 3],
    s: [6, 1, 1],
  }),
  graph('Conv Silu', image, ['c = Conv(%x, %w)', 's = Sigmoid(%c)', 'y = Mul(%c, %s)'], {
    w: [6, 4, 3, 3],
  }),
  ...[
    'Sigmoid',
    'Tanh',
    'Elu',
    'Relu',
    'Softplus',
    'HardSigmoid',
    'Abs',
    'Neg',
    'Floor',
    'Ceil',
    'Exp',
    'Sin',
    'Cos',
    'Sign',
    'Round',
    'Reciprocal',
  ].map((op) =>
    graph(
      op,
      image,
      `y = ${op}(%x)`,
      {},
      { quantize: !['Floor', 'Ceil', 'Sign', 'Round', 'Reciprocal'].includes(op) },
    ),
  ),
  graph('Gelu', { x: [2, 12] }, 'y = Gelu(%x)', {}, { opset: 20 }),
  graph('Sqrt', image, ['a = Abs(%x)', 'y = Sqrt(%a)'], {}, float),
  graph('Log', image, ['a = Exp(%x)', 'y = Log(%a)'], {}, float),
];

const transposed = [
  ['stride 2', 'strides = [2, 2], pads = [1, 1, 1, 1], kernel_shape = [4, 4]', [4, 5, 4, 4]],
  ['valid', 'strides = [2, 2], kernel_shape = [2, 2]', [4, 5, 2, 2]],
  ['cut', 'strides = [1, 1], pads = [1, 1, 1, 1], kernel_shape = [3, 3]', [4, 5, 3, 3]],
  [
    'output padding',
    'strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1], kernel_shape = [3, 3]',
    [4, 5, 3, 3],
  ],
  ['cut unevenly', 'strides = [2, 2], pads = [0, 2, 1, 1], kernel_shape = [4, 4]', [4, 5, 4, 4]],
  ['groups', 'strides = [2, 2], group = 2, kernel_shape = [2, 2]', [4, 3, 2, 2]],
].map(([name, attributes, w]) =>
  graph(`ConvTranspose ${name}`, image, `y = ConvTranspose(%x, %w, %b) {${attributes}}`, {
    w,
    b: [w[1] * (name === 'groups' ? 2 : 1)],
  }),
);

const pools = [
  ['MaxPool', 'kernel_shape = [2, 2], strides = [2, 2]'],
  ['MaxPool', 'kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]'],
  ['MaxPool', 'kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, 1, 1]'],
  ['MaxPool', 'kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1'],
  ['MaxPool', 'kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1'],
  ['AveragePool', 'kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]'],
  [
    'AveragePool',
    'kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1',
  ],
  ['AveragePool', 'kernel_shape = [2, 2], strides = [2, 2]'],
].map(([op, attributes]) => graph(`${op} ${attributes}`, image, `y = ${op}(%x) {${attributes}}`));

const wholes = [
  graph('GlobalAveragePool', image, 'y = GlobalAveragePool(%x)'),
  graph('GlobalMaxPool', image, 'y = GlobalMaxPool(%x)'),
  graph(
    'Classifier',
    image,
    [
      'c = Conv(%x, %w)',
      'p = GlobalAveragePool(%c)',
      'f = Flatten(%p)',
      'y = Gemm(%f, %v, %b) {transB = 1}',
    ],
    {
      w: [6, 4, 3, 3],
      v: [5, 6],
      b: [5],
    },
  ),
  graph('Flatten image', image, ['c = Conv(%x, %w)', 'f = Flatten(%c)', 'y = Gemm(%f, %v, %b)'], {
    w: [6, 4, 3, 3],
    v: [210, 5],
    b: [5],
  }),
];

const dense = [
  graph('Gemm', { x: [3, 12] }, 'y = Gemm(%x, %w, %b)', { w: [12, 5], b: [5] }),
  graph('Gemm Relu', { x: [3, 12] }, ['d = Gemm(%x, %w, %b) {transB = 1}', 'y = Relu(%d)'], {
    w: [5, 12],
    b: [5],
  }),
  graph('Gemm alpha', { x: [3, 12] }, 'y = Gemm(%x, %w, %b) {alpha = 0.5, beta = 2.0}', {
    w: [12, 5],
    b: [5],
  }),
  graph('MatMul', { x: [2, 3, 12] }, 'y = MatMul(%x, %w)', { w: [12, 5] }),
  graph('MatMul Add', { x: [2, 3, 12] }, ['m = MatMul(%x, %w)', 'y = Add(%m, %b)'], {
    w: [12, 5],
    b: [5],
  }),
  graph('MatMul of values', { x: [2, 3, 12], z: [2, 12, 4] }, 'y = MatMul(%x, %z)'),
  graph('MatMul of images', { x: [1, 2, 5, 6], z: [1, 2, 6, 4] }, 'y = MatMul(%x, %z)'),
];

const pairs = [
  ...['Add', 'Sub', 'Mul', 'Div', 'Min', 'Max'].flatMap((op) => [
    graph(
      `${op}`,
      { x: [1, 4, 9, 7], z: [1, 4, 9, 7] },
      `y = ${op}(%x, %z)`,
      {},
      { quantize: op !== 'Div' },
    ),
    graph(`${op} constant`, image, `y = ${op}(%x, %c)`, {
      c: { type: 'float32', dims: [4, 1, 1], values: [0.5, -1, 2, 1.5] },
    }),
    graph(
      `${op} behind Conv`,
      { x: [1, 4, 9, 7], z: [9, 7] },
      ['c = Conv(%x, %w)', `y = ${op}(%c, %z)`],
      { w: [3, 4, 1, 1] },
      { quantize: op !== 'Div' },
    ),
  ]),
  graph('Add Relu', { x: [1, 4, 9, 7], z: [1, 4, 9, 7] }, ['a = Add(%x, %z)', 'y = Relu(%a)']),
  graph(
    'Pow',
    image,
    ['a = Abs(%x)', 'y = Pow(%a, %c)'],
    { c: { type: 'float32', dims: [], values: [1.5] } },
    float,
  ),
  graph(
    'Where',
    { x: [1, 4, 9, 7], z: [1, 4, 9, 7] },
    ['g:bool = Greater(%x, %z)', 'y = Where(%g, %x, %z)'],
    {},
    float,
  ),
  graph(
    'Residual',
    image,
    [
      'c = Conv(%x, %w) {pads = [1, 1, 1, 1], kernel_shape = [3, 3]}',
      'r = Relu(%c)',
      'd = Conv(%r, %v)',
      'y = Add(%d, %x)',
    ],
    { w: [6, 4, 3, 3], v: [4, 6, 1, 1] },
  ),
  graph(
    'Squeeze and excite',
    image,
    [
      'c = Conv(%x, %w)',
      'p = GlobalAveragePool(%c)',
      'e = Conv(%p, %v)',
      's = Sigmoid(%e)',
      'y = Mul(%c, %s)',
    ],
    { w: [6, 4, 3, 3], v: [6, 6, 1, 1] },
  ),
];

const moves = [
  graph(
    'Concat channels',
    image,
    ['a = Conv(%x, %w)', 'b = Conv(%x, %v)', 'y = Concat(%a, %b) {axis = 1}'],
    { w: [3, 4, 1, 1], v: [5, 4, 1, 1] },
  ),
  graph('Concat rows', { x: [1, 4, 3, 7], z: [1, 4, 5, 7] }, 'y = Concat(%x, %z) {axis = 2}'),
  graph(
    'Split',
    image,
    ['c = Conv(%x, %w)', 'a,b = Split(%c, %s) {axis = 1}', 'y = Concat(%b, %a) {axis = 1}'],
    { w: [5, 4, 1, 1], s: ints(2, 3) },
  ),
  graph('Slice', image, ['c = Conv(%x, %w)', 'y = Slice(%c, %s, %e, %a)'], {
    w: [5, 4, 1, 1],
    s: ints(1, -6),
    e: ints(4, 6),
    a: ints(1, 3),
  }),
  graph('Slice steps', image, 'y = Slice(%x, %s, %e, %a, %t)', {
    s: ints(0, -1),
    e: ints(9, -9),
    a: ints(2, 3),
    t: ints(2, -2),
  }),
  graph('Pad', image, ['c = Conv(%x, %w)', 'y = Pad(%c, %p)'], {
    w: [5, 4, 1, 1],
    p: ints(0, 1, 2, 0, 0, 0, 1, 3),
  }),
  graph('Pad reflect', image, 'y = Pad(%x, %p) {mode = "reflect"}', {
    p: ints(0, 0, 2, 1, 0, 0, 1, 3),
  }),
  graph('Pad value', image, 'y = Pad(%x, %p, %v)', {
    p: ints(0, 0, 2, 1, 0, 0, 1, 3),
    v: { type: 'float32', dims: [], values: [0.5] },
  }),
  graph(
    'Transpose',
    image,
    ['c = Conv(%x, %w)', 't = Transpose(%c) {perm = [0, 2, 3, 1]}', 'y = Reshape(%t, %s)'],
    { w: [5, 4, 1, 1], s: ints(1, 63, 5) },
  ),
  graph('Reshape', image, ['c = Conv(%x, %w)', 'y = Reshape(%c, %s)'], {
    w: [5, 4, 1, 1],
    s: ints(1, 5, 63),
  }),
  graph(
    'Shuffle',
    image,
    [
      'c = Conv(%x, %w)',
      'a = Reshape(%c, %s)',
      't = Transpose(%a) {perm = [0, 2, 1, 3, 4]}',
      'b = Reshape(%t, %u)',
      'y = Conv(%b, %v)',
    ],
    { w: [6, 4, 1, 1], s: ints(1, 2, 3, 9, 7), u: ints(1, 6, 9, 7), v: [4, 6, 1, 1] },
  ),
  graph('Squeeze', { x: [1, 4, 1, 7] }, ['c = Conv(%x, %w)', 'y = Squeeze(%c, %a)'], {
    w: [5, 4, 1, 1],
    a: ints(2),
  }),
  graph('Unsqueeze', { x: [4, 7] }, 'y = Unsqueeze(%x, %a)', { a: ints(0, 3) }),
  graph('Expand', { x: [4, 1] }, 'y = Expand(%x, %s)', { s: ints(2, 4, 5) }),
  graph('Tile', image, 'y = Tile(%x, %s)', { s: ints(1, 2, 1, 3) }),
  graph('Gather', { x: [5, 7] }, 'y = Gather(%x, %i) {axis = 1}', { i: ints(3, -1, 0) }),
  graph(
    'DepthToSpace',
    { x: [1, 8, 3, 4] },
    ['c = Conv(%x, %w)', 'y = DepthToSpace(%c) {blocksize = 2}'],
    { w: [8, 8, 1, 1] },
  ),
  graph(
    'DepthToSpace CRD',
    { x: [1, 8, 3, 4] },
    ['c = Conv(%x, %w)', 'y = DepthToSpace(%c) {blocksize = 2, mode = "CRD"}'],
    { w: [8, 8, 1, 1] },
  ),
  graph('SpaceToDepth', { x: [1, 3, 4, 6] }, 'y = SpaceToDepth(%x) {blocksize = 2}'),
  graph(
    'Resize nearest',
    image,
    'y = Resize(%x, %r, %s) {mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"}',
    {
      r: { type: 'float32', dims: [0], values: [] },
      s: { type: 'float32', dims: [4], values: [1, 1, 2, 2] },
    },
  ),
  graph('Resize nearest half pixel', image, 'y = Resize(%x, %r, %s) {mode = "nearest"}', {
    r: { type: 'float32', dims: [0], values: [] },
    s: { type: 'float32', dims: [4], values: [1, 1, 2, 2] },
  }),
  graph('Resize linear', image, 'y = Resize(%x, %r, %s) {mode = "linear"}', {
    r: { type: 'float32', dims: [0], values: [] },
    s: { type: 'float32', dims: [4], values: [1, 1, 2, 2] },
  }),
  graph(
    'Resize linear corners',
    image,
    'y = Resize(%x, %r, %s) {mode = "linear", coordinate_transformation_mode = "align_corners"}',
    {
      r: { type: 'float32', dims: [0], values: [] },
      s: { type: 'float32', dims: [4], values: [1, 1, 2, 2] },
    },
  ),
  graph(
    'Resize linear asymmetric',
    image,
    'y = Resize(%x, %r, %s) {mode = "linear", coordinate_transformation_mode = "asymmetric"}',
    {
      r: { type: 'float32', dims: [0], values: [] },
      s: { type: 'float32', dims: [4], values: [1, 1, 2, 3] },
    },
  ),
];

const reductions = [
  ...['ReduceMean', 'ReduceSum', 'ReduceMax', 'ReduceMin'].flatMap((op) => [
    graph(`${op} space`, image, ['c = Conv(%x, %w)', `y = ${op}(%c, %a) {keepdims = 0}`], {
      w: [5, 4, 1, 1],
      a: ints(2, 3),
    }),
    graph(`${op} channels`, image, ['c = Conv(%x, %w)', `y = ${op}(%c, %a) {keepdims = 1}`], {
      w: [5, 4, 1, 1],
      a: ints(1),
    }),
  ]),
  graph(
    'ArgMax',
    image,
    ['c = Conv(%x, %w)', 'y:int64 = ArgMax(%c) {axis = 1, keepdims = 0}'],
    { w: [5, 4, 1, 1] },
    float,
  ),
  graph('ArgMin', image, 'y:int64 = ArgMin(%x) {axis = 3, keepdims = 1}', {}, float),
  graph('Softmax', { x: [2, 12] }, 'y = Softmax(%x)'),
  graph('Softmax channels', image, ['c = Conv(%x, %w)', 'y = Softmax(%c) {axis = 1}'], {
    w: [5, 4, 1, 1],
  }),
  graph('LogSoftmax', { x: [2, 12] }, 'y = LogSoftmax(%x)', {}, float),
  graph(
    'CumSum',
    { x: [2, 12] },
    'y = CumSum(%x, %a)',
    { a: { type: 'int64', dims: [], values: [1] } },
    float,
  ),
  graph(
    'LayerNormalization',
    { x: [2, 5, 12] },
    'y = LayerNormalization(%x, %g, %b)',
    { g: [12], b: [12] },
    float,
  ),
];

const lines = [
  graph(
    'Conv of lines',
    { x: [1, 4, 20] },
    'y = Conv(%x, %w, %b) {kernel_shape = [3], pads = [1, 1], strides = [2]}',
    { w: [6, 4, 3], b: [6] },
  ),
  graph(
    'Depthwise of lines',
    { x: [1, 4, 20] },
    'y = Conv(%x, %w) {kernel_shape = [3], group = 4}',
    { w: [4, 1, 3] },
  ),
  graph(
    'MaxPool of lines',
    { x: [1, 4, 20] },
    'y = MaxPool(%x) {kernel_shape = [2], strides = [2]}',
  ),
  graph(
    'ConvTranspose of lines',
    { x: [1, 4, 10] },
    'y = ConvTranspose(%x, %w) {kernel_shape = [4], strides = [2], pads = [1, 1]}',
    { w: [4, 3, 4] },
  ),
];

export default [
  ...convolutions,
  ...activations,
  ...transposed,
  ...pools,
  ...wholes,
  ...dense,
  ...pairs,
  ...moves,
  ...reductions,
  ...lines,
];

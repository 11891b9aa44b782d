// Small ONNX graphs of every operator that toTflite() writes: { name, text, inputs: { NAME: dims }, quantize }, where
// `quantize` says whether the graph is quantized and written as well.

import { formulas } from './write_formulas.mjs';
import { float, graph, image } from './write_graph.mjs';
import { lines, moves, places, reductions } from './write_moves.mjs';

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

export default [
  ...convolutions,
  ...activations,
  ...transposed,
  ...pools,
  ...wholes,
  ...dense,
  ...pairs,
  ...moves,
  ...places,
  ...reductions,
  ...lines,
  ...formulas,
];

// The single operators that operators.mjs measures: at sizes of attention over 128 tokens, of images of 64 x 64
// pixels, and of tables of embeddings. A case is `{ name, kind, text, feeds }`: a graph, and the numbers of inputs
// that noise would not fit.

import { uniform } from './numbers.js';

/** Heads, tokens, tokens. */
const SCORES = [1, 12, 128, 128];
const IMAGE = [1, 32, 64, 64];

const list = (numbers) => `[${numbers.join(', ')}]`;
export const sizeOf = (dims) => dims.reduce((a, b) => a * b, 1);
const constant = (name, type, dims, numbers) =>
  `const %${name}: ${type}${list(dims)} = {${[...numbers].join(', ')}}`;
const ints = (name, ...numbers) => constant(name, 'int64', [numbers.length], numbers);

/**
 * A graph of one operator: `operands` are inputs `[type, dims]` or whole lines for constants, and `attributes` is text
 * between braces.
 */
function graphOf(op, operands, attributes = '', opset = 18) {
  const results = op === 'TopK' ? '%y, %places' : '%y';
  const lines = operands.map((operand, i) =>
    typeof operand === 'string' ? operand : `input %x${i}: ${operand[0]}${list(operand[1])}`,
  );
  const names = operands.map((operand, i) =>
    typeof operand === 'string' ? operand.match(/%\w+/)[0] : `%x${i}`,
  );
  return [
    `graph "operator" opset ${opset}`,
    ...lines,
    `${results} = ${op}(${names.join(', ')})${attributes && ` {${attributes}}`}`,
    'output %y',
  ].join('\n');
}

const float = (dims) => ['float32', dims];

const CASTS = [
  ['int64', 'float32', 1],
  ['int32', 'float32', 1],
  ['uint8', 'float32', 1],
  ['int8', 'float32', 1],
  ['bool', 'float32', 1],
  ['int64', 'int32', 6],
  ['int32', 'int64', 7],
  ['float32', 'int64', 7],
  ['float32', 'int32', 6],
  ['float32', 'uint8', 2],
  ['float32', 'bool', 9],
  ['bool', 'int64', 7],
].map(([from, to, number]) => ({
  name: `Cast, ${from} to ${to}`,
  kind: 'types',
  text: graphOf('Cast', [[from, SCORES]], `to = ${number}`),
}));

const FUNCTIONS = [
  'Abs Neg Sqrt Reciprocal Exp Log Sin Cos Sigmoid Tanh Erf Softplus Softsign Elu Selu Mish HardSwish',
  'Relu LeakyRelu ThresholdedRelu Ceil Floor Round Sign IsNaN IsInf',
]
  .join(' ')
  .split(' ')
  .map((op) => ({ name: op, kind: 'functions', text: graphOf(op, [float(SCORES)], '', 20) }));

const BINARY = [
  ...'Add Sub Mul Div Min Max'.split(' ').map((op) => ({
    name: `${op}, a number for each row`,
    kind: 'two operands',
    text: graphOf(op, [float(SCORES), float([1, 12, 128, 1])]),
  })),
  ...'Add Mul Min'.split(' ').map((op) => ({
    name: `${op} of int64`,
    kind: 'two operands',
    text: graphOf(op, [
      ['int64', SCORES],
      ['int64', SCORES],
    ]),
  })),
  {
    name: 'Less',
    kind: 'two operands',
    text: graphOf('Less', [float(SCORES), float([1])]),
  },
  {
    name: 'And',
    kind: 'two operands',
    text: graphOf('And', [
      ['bool', SCORES],
      ['bool', [1, 1, 128, 128]],
    ]),
  },
  {
    name: 'Where, one mask for all heads',
    kind: 'two operands',
    text: graphOf('Where', [['bool', [1, 1, 128, 128]], float(SCORES), float([1])]),
  },
];

const AXES = ['heads', 'rows', 'columns'];
const ALONG = [1, 2, 3].flatMap((axis) =>
  ['Softmax', 'ArgMax'].map((op) => ({
    name: `${op} along ${AXES[axis - 1]}`,
    kind: 'along an axis',
    text: graphOf(op, [float(SCORES)], `axis = ${axis}`),
  })),
);
const REDUCTIONS = 'Sum Mean Max Min L1 L2 SumSquare Prod LogSumExp'.split(' ').map((op) => ({
  name: `Reduce${op} of rows`,
  kind: 'along an axis',
  text: graphOf(`Reduce${op}`, [float(SCORES), ints('axes', 3)]),
}));

const moves = (name, op, operands, attributes, feeds) => ({
  name,
  kind: 'moves',
  text: graphOf(op, operands, attributes),
  feeds,
});
const MOVES = [
  moves('Transpose of a matrix', 'Transpose', [float([768, 512])], 'perm = [1, 0]'),
  moves('Transpose to heads', 'Transpose', [float([1, 128, 12, 64])], 'perm = [0, 2, 1, 3]'),
  moves('Transpose of keys', 'Transpose', [float([1, 128, 12, 64])], 'perm = [0, 2, 3, 1]'),
  moves('Expand of a mask', 'Expand', [float([1, 1, 128, 128]), ints('to', ...SCORES)]),
  moves('Expand of columns', 'Expand', [float([1, 12, 128, 1]), ints('to', ...SCORES)]),
  moves('Tile', 'Tile', [float([1, 1, 128, 128]), ints('times', 1, 12, 1, 1)]),
  moves('Gather of rows', 'Gather', [float([1000, 384]), ['int64', [256]]], 'axis = 0', {
    x1: Array.from({ length: 256 }, (_, i) => (i * 37) % 1000),
  }),
  moves('Gather of columns', 'Gather', [float([256, 768]), ['int64', [384]]], 'axis = 1', {
    x1: Array.from({ length: 384 }, (_, i) => (i * 37) % 768),
  }),
  moves('GatherElements', 'GatherElements', [float([256, 768]), ['int64', [256, 768]]], 'axis = 1'),
  moves(
    'ScatterElements',
    'ScatterElements',
    [float([256, 768]), ['int64', [256, 64]], float([256, 64])],
    'axis = 1',
  ),
  moves('Slice of columns', 'Slice', [float(SCORES), ints('a', 0), ints('b', 64), ints('c', 3)]),
  moves(
    'Concat of columns',
    'Concat',
    [float([1, 12, 128, 64]), float([1, 12, 128, 64])],
    'axis = 3',
  ),
  moves('Trilu', 'Trilu', [float(SCORES)], 'upper = 0'),
  moves(
    'Pad, reflect',
    'Pad',
    [float(IMAGE), ints('pads', 0, 0, 3, 3, 0, 0, 3, 3)],
    'mode = "reflect"',
  ),
  moves('DepthToSpace', 'DepthToSpace', [float([1, 64, 64, 64])], 'blocksize = 2'),
];

const boxes = Array.from(uniform(50 * 4, 3), (x, i) =>
  i % 4 < 2 ? 8 * (x + 1) : 32 + 12 * (x + 1),
);
const OTHERS = [
  moves('BatchNormalization', 'BatchNormalization', [
    float(IMAGE),
    ...['scale', 'shift', 'mean', 'variance'].map((name, i) =>
      constant(
        name,
        'float32',
        [32],
        Array.from({ length: 32 }, (_, at) => (at + i + 1) / 16),
      ),
    ),
  ]),
  moves(
    'RoiAlign',
    'RoiAlign',
    [float(IMAGE), float([50, 4]), ['int64', [50]]],
    'output_height = 7, output_width = 7, sampling_ratio = 2',
    { x1: boxes, x2: Array.from({ length: 50 }, () => 0) },
  ),
  moves('TopK of 8400 rows', 'TopK', [float([8400, 80]), ints('k', 1)], 'axis = 1'),
  moves('CumSum', 'CumSum', [float(SCORES), constant('axis', 'int64', [], [3])]),
  moves('MaxPool', 'MaxPool', [float(IMAGE)], 'kernel_shape = [3, 3]'),
  moves(
    'Resize, linear',
    'Resize',
    [
      float([1, 16, 64, 64]),
      constant('roi', 'float32', [0], []),
      constant('scales', 'float32', [4], [1, 1, 2, 2]),
    ],
    'mode = "linear"',
  ),
].map((one) => ({ ...one, kind: 'others' }));

export const CASES = [
  ...CASTS,
  ...FUNCTIONS,
  ...BINARY,
  ...ALONG,
  ...REDUCTIONS,
  ...MOVES,
  ...OTHERS,
];

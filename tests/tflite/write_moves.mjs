// Graphs of the operators that move or reduce numbers, for write_cases.mjs.

import { float, graph, image, ints } from './write_graph.mjs';

export const moves = [
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
  graph('Pad edge', image, ['c = Conv(%x, %w)', 'y = Pad(%c, %p) {mode = "edge"}'], {
    w: [3, 4, 1, 1],
    p: ints(0, 0, 2, 1, 0, 1, 0, 3),
  }),
  graph(
    'Pad wrap',
    image,
    'y = Pad(%x, %p) {mode = "wrap"}',
    { p: ints(0, 0, 2, 1, 0, 0, 0, 3) },
    { opset: 19 },
  ),
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

const volume = { x: [1, 3, 5, 6, 7] };

/** Operators that pick and place by positions, and layers over three dimensions. */
export const places = [
  graph('GatherND', { x: [4, 5, 3] }, 'y = GatherND(%x, %i)', {
    i: { dims: [3, 2], values: [0, 1, 3, -1, 2, 2] },
  }),
  graph(
    'ScatterND',
    { x: [4, 3], z: [2, 3] },
    'y = ScatterND(%x, %i, %z)',
    { i: { dims: [2, 1], values: [3, -3] } },
    float,
  ),
  graph(
    'ScatterND add',
    { x: [4, 3], z: [3] },
    'y = ScatterND(%x, %i, %z) {reduction = "add"}',
    { i: { dims: [3, 2], values: [3, 0, 1, 2, 1, 2] } },
    float,
  ),
  graph(
    'OneHot',
    { x: [2, 6] },
    ['s = Mul(%x, %c)', 'i:int64 = Cast(%s) {to = 7}', 'y = OneHot(%i, %d, %v) {axis = 1}'],
    {
      c: { type: 'float32', dims: [], values: [1.9] },
      d: { dims: [], values: [4] },
      v: { type: 'float32', dims: [2], values: [-1, 2] },
    },
    float,
  ),
  graph(
    'Trilu upper',
    { x: [2, 4, 5] },
    'y = Trilu(%x, %k)',
    { k: { dims: [], values: [1] } },
    float,
  ),
  graph('Trilu lower', { x: [2, 4, 5] }, 'y = Trilu(%x) {upper = 0}', {}, float),
  ...[
    ['valid', 'kernel_shape = [2, 3, 3]'],
    ['stride', 'kernel_shape = [2, 3, 3], strides = [1, 2, 2], auto_pad = "SAME_UPPER"'],
    ['pads', 'kernel_shape = [2, 3, 3], strides = [2, 1, 1], pads = [1, 0, 2, 0, 1, 1]'],
  ].map(([label, attributes]) =>
    graph(
      `Conv over three dimensions, ${label}`,
      volume,
      [`c = Conv(%x, %w, %b) {${attributes}}`, 'y = Relu(%c)'],
      { w: [4, 3, 2, 3, 3], b: [4] },
      float,
    ),
  ),
  ...[
    ['MaxPool', 'kernel_shape = [2, 3, 2], strides = [2, 2, 1], pads = [1, 1, 0, 0, 1, 1]'],
    ['AveragePool', 'kernel_shape = [2, 2, 3], strides = [1, 2, 2]'],
    ['AveragePool', 'kernel_shape = [2, 3, 3], strides = [1, 2, 2], pads = [1, 1, 1, 0, 1, 1]'],
    ['AveragePool', 'kernel_shape = [2, 2, 3], pads = [1, 1, 1, 0, 1, 1], count_include_pad = 1'],
  ].map(([op, attributes]) =>
    graph(
      `${op} over three dimensions, ${attributes}`,
      volume,
      ['c = Conv(%x, %w)', `y = ${op}(%c) {${attributes}}`],
      { w: [2, 3, 1, 1, 1] },
      float,
    ),
  ),
];

export const reductions = [
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

export const lines = [
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

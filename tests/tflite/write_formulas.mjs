// Graphs of operators that are several of TFLite's, for write_cases.mjs.

import { float, graph, image, ints } from './write_graph.mjs';

const functions = [
  ['Elu', ' {alpha = 0.5}'],
  ['Selu', ''],
  ['Celu', ' {alpha = 0.5}'],
  ['Mish', ''],
  ['Softsign', ''],
  ['ThresholdedRelu', ' {alpha = 0.5}'],
  ['LRN', ' {size = 3, alpha = 0.5}'],
].map(([op, attributes]) =>
  graph(`${op}${attributes}`, image, `y = ${op}(%x)${attributes}`, {}, float),
);

const norms = ['ReduceL1', 'ReduceL2', 'ReduceSumSquare', 'ReduceLogSumExp'].flatMap((op) => [
  graph(`${op} space`, image, `y = ${op}(%x, %a) {keepdims = 0}`, { a: ints(2, 3) }, float),
  graph(`${op} channels`, image, `y = ${op}(%x, %a)`, { a: ints(1) }, float),
]);

export const formulas = [
  ...functions,
  ...norms,
  graph(
    'Erf',
    image,
    ['s = Mul(%x, %c)', 'y = Erf(%s)'],
    { c: { type: 'float32', dims: [], values: [2] } },
    float,
  ),
  graph('Mod fmod', { x: [3, 8], z: [3, 8] }, 'y = Mod(%x, %z) {fmod = 1}', {}, float),
  graph(
    'Mod of integers',
    { x: [3, 8] },
    [
      's = Mul(%x, %c)',
      'i:int32 = Cast(%s) {to = 6}',
      'm:int32 = Mod(%i, %d)',
      'y = Cast(%m) {to = 1}',
    ],
    {
      c: { type: 'float32', dims: [], values: [20] },
      d: { type: 'int32', dims: [], values: [7] },
    },
    float,
  ),
  graph('Tan', image, ['t = Tanh(%x)', 'y = Tan(%t)'], {}, float),
  graph(
    'ReduceLogSum',
    image,
    ['e = Exp(%x)', 'y = ReduceLogSum(%e, %a) {keepdims = 0}'],
    { a: ints(1) },
    float,
  ),
  graph(
    'Clip with computed bounds',
    image,
    ['m = ReduceMean(%x) {keepdims = 0}', 'y = Clip(%x, %m)'],
    {},
    float,
  ),
  graph('TopK', image, 'y, i:int64 = TopK(%x, %k) {axis = 1}', { k: ints(2) }, float),
  graph(
    'AveragePool without its pads',
    image,
    'y = AveragePool(%x) {kernel_shape = [3, 2], strides = [2, 2], pads = [1, 1, 1, 0]}',
  ),
  graph(
    'AveragePool beyond its pads',
    { x: [1, 4, 8, 8] },
    'y = AveragePool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 0, 0, 1], ceil_mode = 1, count_include_pad = 1}',
  ),
];

// The networks of the fingerprint: small, made of pseudo-random integers, the same everywhere.

import { Integers, type Tensor, tensorOf } from './numbers.js';

/** A computation whose result must be the same bits everywhere. */
export interface Case {
  name: string;
  /** `'kernels'` are integer operators; `'quantizer'` cases change with the methods of `quantize()` and `train()`. */
  kind: 'kernels' | 'quantizer';
  /** The model as text, for `parseModel()`. */
  text: () => string;
  /** Feeds of one run. */
  feeds: (seed: number) => Record<string, Tensor>;
  /** Bits of weights and activations, for cases of the quantizer. */
  bits?: readonly [weights: number, activations: number];
  /** Whether the model is trained after it is quantized. */
  train?: boolean;
}

const list = (dims: readonly number[]) => `[${dims.join(', ')}]`;

function constant(name: string, type: string, dims: readonly number[], values: ArrayLike<number>) {
  return `const %${name}: ${type}${list(dims)} = {${Array.from(values).join(', ')}}`;
}

const number = (name: string, type: string, value: number) => constant(name, type, [], [value]);

/** The scales and zero points that all integer networks share: of the input, of weights, of the result. */
const GRIDS = [
  number('sx', 'float32', 0.0234375),
  number('zx', 'uint8', 117),
  number('sw', 'float32', 0.00859375),
  number('zw', 'int8', 0),
  number('sy', 'float32', 0.1171875),
  number('zy', 'uint8', 121),
];

const bytes = (dims: readonly number[]) => (seed: number) => ({
  x: tensorOf('uint8', dims, new Integers(seed), 0, 255),
});

/** A quantized convolution. `w` are the dimensions of its weights. */
function convolution(
  name: string,
  x: readonly number[],
  w: readonly number[],
  attributes: string,
): Case {
  const text = () => {
    const random = new Integers(31);
    const count = w.reduce((a, b) => a * b, 1);
    return [
      'graph "convolution" opset 17',
      `input %x: uint8${list(x)}`,
      ...GRIDS,
      constant('w', 'int8', w, random.list(count, -127, 127)),
      constant('b', 'int32', [w[0]!], random.list(w[0]!, -9000, 9000)),
      `%y = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy, %b)${attributes && ` {${attributes}}`}`,
      'output %y',
    ].join('\n');
  };
  return { name, kind: 'kernels', text, feeds: bytes(x) };
}

/** A network of one line behind the shared grids. */
function operator(name: string, x: readonly number[], line: string, more: string[] = []): Case {
  const head = ['graph "operator" opset 17, com.microsoft 1', `input %x: uint8${list(x)}`];
  const text = () => [...head, ...GRIDS, ...more, line, 'output %y'].join('\n');
  return { name, kind: 'kernels', text, feeds: bytes(x) };
}

function product(): Case {
  const weights = () => constant('w', 'int8', [96, 40], new Integers(32).list(96 * 40, -127, 127));
  return {
    ...operator('matrix product', [5, 96], ''),
    text: () =>
      [
        'graph "product" opset 17',
        'input %x: uint8[5, 96]',
        ...GRIDS,
        weights(),
        '%y = QLinearMatMul(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy)',
        'output %y',
      ].join('\n'),
  };
}

/** A float network of the usual layers, which the quantizer gets. */
function network(): string {
  const random = new Integers(41);
  const weights = (name: string, dims: readonly number[]) => {
    const count = dims.reduce((a, b) => a * b, 1);
    return constant(
      name,
      'float32',
      dims,
      random.list(count, -4000, 4000).map((value) => value / 8192),
    );
  };
  return [
    'graph "network" opset 17',
    'input %x: float32[1, 3, 16, 16]',
    weights('w1', [16, 3, 3, 3]),
    weights('b1', [16]),
    weights('w2', [16, 16, 3, 3]),
    weights('w3', [16, 1, 3, 3]),
    weights('w4', [24, 16, 1, 1]),
    weights('w5', [24, 10]),
    '%c1 = Conv(%x, %w1, %b1) {pads = [1, 1, 1, 1], strides = [2, 2]}',
    '%r1 = Relu(%c1)',
    '%c2 = Conv(%r1, %w2) {pads = [1, 1, 1, 1]}',
    '%s2 = Add(%c2, %r1)',
    '%r2 = Relu(%s2)',
    '%c3 = Conv(%r2, %w3) {pads = [1, 1, 1, 1], group = 16}',
    '%c4 = Conv(%c3, %w4)',
    '%r4 = Relu(%c4)',
    '%mean = GlobalAveragePool(%r4)',
    '%flat = Flatten(%mean)',
    '%y = MatMul(%flat, %w5)',
    'output %y',
  ].join('\n');
}

function quantized(
  name: string,
  weights: number,
  activations: number,
  more: Partial<Case> = {},
): Case {
  return {
    name,
    kind: 'quantizer',
    text: network,
    feeds: (seed) => ({ x: tensorOf('float32', [1, 3, 16, 16], new Integers(seed), -4096, 4096) }),
    bits: [weights, activations],
    ...more,
  };
}

const PADS = 'pads = [1, 1, 1, 1]';

/** All cases, in the order of the fingerprint. */
export const cases: readonly Case[] = [
  convolution('convolution, 3x3', [1, 16, 14, 14], [32, 16, 3, 3], PADS),
  convolution('convolution, 3x3, stride 2', [1, 3, 17, 17], [16, 3, 3, 3], 'strides = [2, 2]'),
  convolution('convolution, 1x1', [1, 40, 9, 9], [48, 40, 1, 1], ''),
  convolution('convolution, 5x5 in groups', [1, 8, 11, 11], [12, 4, 5, 5], 'group = 2'),
  convolution('depthwise convolution', [1, 24, 13, 13], [24, 1, 3, 3], `group = 24, ${PADS}`),
  product(),
  operator(
    'sum of two grids',
    [1, 8, 5, 7],
    '%y = com.microsoft::QLinearAdd(%x, %sx, %zx, %x, %sy, %zy, %sw, %zx)',
  ),
  operator(
    'product of two grids',
    [1, 8, 5, 7],
    '%y = com.microsoft::QLinearMul(%x, %sx, %zx, %x, %sy, %zy, %sy, %zx)',
  ),
  operator(
    'average',
    [1, 8, 6, 7],
    '%y = com.microsoft::QLinearGlobalAveragePool(%x, %sx, %zx, %sw, %zy)',
  ),
  operator(
    'function as a table',
    [1, 300],
    '%y = com.microsoft::QLinearSigmoid(%x, %sx, %zx, %sw, %zs)',
    [number('zs', 'uint8', 0)],
  ),
  quantized('quantize(), 8 bits', 8, 8),
  quantized('quantize(), 16-bit activations', 8, 16),
  quantized('quantize(), 4 bits', 4, 4),
  quantized('quantize(), 2 bits', 2, 2),
  quantized('quantize(), 1 bit', 1, 1),
  quantized('train(), 2 and 4 bits', 2, 4, { train: true }),
];

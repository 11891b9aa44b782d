// Corner cases of operators against ONNX Runtime: omitted optional inputs, unusual attributes, values outside
// of a function's domain. With the optimizer and without.

import test from 'node:test';
import { same } from './ort_operators.mjs';

const both = (opset, inputs, body, outputs, options = {}) =>
  same(opset, inputs, body, outputs, {
    tolerance: 1e-5,
    sessions: [true, false].map((optimize) => ({ optimize, requantize: 'float' })),
    ...options,
  });

for (const [what, types] of [
  ['known', { q: 'float32[1, 3, 4]', v: 'float32[1, 5, 6]' }],
  ['open columns of the query', { q: 'float32[b, s, h]', v: 'float32[b, t, 6]' }],
  ['open columns of the value', { q: 'float32[b, s, 4]', v: 'float32[b, t, h]' }],
]) {
  test(`MultiHeadAttention: an input bias, ${what}`, () =>
    both(
      17,
      {
        q: 'float32[1, 3, 4]',
        k: 'float32[1, 5, 4]',
        v: 'float32[1, 5, 6]',
        b: 'float32[14]',
      },
      ['%y = com.microsoft::MultiHeadAttention(%q, %k, %v, %b) {num_heads = 2}'],
      ['y'],
      { declared: types },
    ));
}

test('GroupQueryAttention: packed operands', () =>
  both(
    17,
    { x: 'float32[1, 3, 32]', pk: 'float32[1, 1, 0, 8]', pv: 'float32[1, 1, 0, 8]' },
    [
      'const %s: int32[1] = {2}',
      'const %t: int32[1] = {3}',
      '%y, %k, %v = com.microsoft::GroupQueryAttention(%x, _, _, %pk, %pv, %s, %t) ' +
        '{num_heads = 2, kv_num_heads = 1}',
    ],
    ['y', 'k', 'v'],
  ));

for (const [what, numbers] of [
  ['ends', [3, 2]],
  ['ends and starts', [3, 2, 1, 0]],
]) {
  for (const declared of [{}, { x: 'float32[b, s, 3]' }, { m: 'int32[m]' }]) {
    test(`com.microsoft::Attention: a mask of ${what}, ${JSON.stringify(declared)}`, () =>
      both(
        17,
        {
          x: 'float32[2, 3, 3]',
          w: 'float32[3, 12]',
          b: 'float32[12]',
          m: [`int32[${numbers.length}]`, numbers],
        },
        ['%y = com.microsoft::Attention(%x, %w, %b, %m) {num_heads = 2}'],
        ['y'],
        { declared },
      ));
  }
}

for (const trans of ['', ', transA = 1, transB = 1']) {
  const inputs = trans
    ? { a: 'float32[3, 2, 4]', b: 'float32[5, 2, 3]' }
    : { a: 'float32[4, 2, 3]', b: 'float32[3, 2, 5]' };
  test(`FusedMatMul: transposed batches${trans}`, () =>
    both(
      17,
      inputs,
      [
        `%y = com.microsoft::FusedMatMul(%a, %b) {transBatchA = 1, transBatchB = 1${trans}, alpha = 0.5}`,
      ],
      ['y'],
    ));
}

for (const mode of ['linear', 'cubic']) {
  for (const coordinates of [
    'half_pixel',
    'pytorch_half_pixel',
    'align_corners',
    'asymmetric',
    'half_pixel_symmetric',
  ]) {
    // With scales, ONNX aligns the corners of the unrounded length, unlike ONNX Runtime.
    const whole = ['0.5, 1.0', '0.25, 2.0'];
    const any = ['0.6, 0.6', '0.3, 0.5', '0.17, 1.0', '0.5, 1.4'];
    for (const scales of coordinates === 'align_corners' ? whole : any) {
      for (const outside of [0, 1]) {
        test(`Resize: antialias, ${mode}, ${coordinates}, ${scales}, ${outside}`, () =>
          both(
            18,
            { x: 'float32[1, 2, 12, 9]' },
            [
              `const %s: float32[4] = {1.0, 1.0, ${scales}}`,
              `%y = Resize(%x, _, %s) {mode = "${mode}", antialias = 1, exclude_outside = ` +
                `${outside}, coordinate_transformation_mode = "${coordinates}"}`,
            ],
            ['y'],
          ));
      }
    }
  }
}

test('reductions without axes that shall do nothing', () => {
  const names = ['SumSquare', 'L1', 'L2', 'LogSum', 'LogSumExp', 'Sum', 'Mean', 'Max'];
  return both(
    18,
    { x: ['float32[4]', [-3, 2, 0.5, 40]] },
    names.map((name) => `%${name} = Reduce${name}(%x) {noop_with_empty_axes = 1}`),
    names,
  );
});

test('functions outside of their domains', () =>
  both(
    22,
    { x: ['float32[9]', [-Infinity, -10497.797, -2, -1, 0.5, 2, 1e30, Infinity, NaN]] },
    ['Acos', 'Acosh', 'Asin', 'Atanh', 'Asinh', 'Atan', 'Cosh', 'Sinh', 'Log', 'Sqrt'].map(
      (name) => `%${name} = ${name}(%x)`,
    ),
    ['Acos', 'Acosh', 'Asin', 'Atanh', 'Asinh', 'Atan', 'Cosh', 'Sinh', 'Log', 'Sqrt'],
  ));

test('ThresholdedRelu and Shrink of NaN', () =>
  both(
    22,
    { x: ['float32[5]', [NaN, Infinity, -Infinity, 2, -0.25]] },
    ['%y = ThresholdedRelu(%x)', '%z = Shrink(%x) {lambd = 0.2, bias = 0.1}'],
    ['y', 'z'],
  ));

test('QLinearSigmoid and QLinearLeakyRelu without zero points', () =>
  both(
    17,
    { x: ['uint8[1, 1, 3, 1]', [1, 20, 255]] },
    [
      'const %s: float32[] = {0.02}',
      'const %t: float32[] = {0.00390625}',
      '%sigmoid = com.microsoft::QLinearSigmoid(%x, %s, _, %t, _)',
      '%leaky = com.microsoft::QLinearLeakyRelu(%x, %s, _, %t, _)',
    ],
    ['sigmoid', 'leaky'],
  ));

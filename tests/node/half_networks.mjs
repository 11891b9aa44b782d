// Networks of float16, and onnxruntime-web's answers to them.

import assert from 'node:assert/strict';
import * as ort from 'onnxruntime-web';
import { Tensor } from '../../dist/index.js';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

export const numbers = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const rounded = (value) => new Tensor('float16', [value]).toFloat32()[0];

/** A float16 constant with random values that are halves. */
export function weights(name, dims, random, size = 1) {
  const count = dims.reduce((a, b) => a * b, 1);
  const values = numbers(count, () => rounded((random() - 0.5) * 2 * size));
  return `const %${name}: float16[${dims.join(', ')}] = {${values.join(', ')}}`;
}

export function feed(type, dims, random) {
  const count = dims.reduce((a, b) => a * b, 1);
  return new Tensor(
    type,
    numbers(count, () => rounded(random() * 2 - 1)),
    dims,
  );
}

/** Runs a file in onnxruntime-web. */
export async function theirs(bytes, feeds, options = {}) {
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['wasm'],
    ...options,
  });
  try {
    const results = await session.run(
      Object.fromEntries(
        Object.entries(feeds).map(([name, { type, data, dims }]) => [
          name,
          new ort.Tensor(type, data, dims),
        ]),
      ),
    );
    return Object.fromEntries(
      Object.entries(results).map(([name, { type, data, dims }]) => [
        name,
        new Tensor(type, data, dims),
      ]),
    );
  } finally {
    await session.release();
  }
}

/** The largest difference, relative to the largest magnitude. */
export function error(got, wanted) {
  assert.equal(got.type, wanted.type);
  assert.deepEqual([...got.dims], [...wanted.dims]);
  const [a, b] = [got.toFloat32(), wanted.toFloat32()];
  const most = b.reduce((x, y) => Math.max(x, Math.abs(y)), 1e-6);
  return a.reduce((x, y, i) => Math.max(x, Math.abs(y - b[i]) / most), 0);
}

/** Networks whose inputs, weights and outputs are float16: [name, opset, inputs, text]. */
export function networks(random) {
  const w = (name, dims, size) => weights(name, dims, random, size);
  const bytes = (count) => numbers(count, () => Math.floor(random() * 256)).join(', ');
  return [
    [
      'a perceptron',
      'opset 13',
      { x: [3, 24] },
      `input %x: float16[3, 24]
       ${w('w', [24, 96], 0.3)}
       ${w('b', [96], 0.3)}
       ${w('v', [40, 96], 0.2)}
       ${w('c', [40], 0.3)}
       %a = MatMul(%x, %w)
       %d = Add(%a, %b)
       %e = Relu(%d)
       %y = Gemm(%e, %v, %c) {transB = 1}
       output %y`,
    ],
    [
      'a convolutional network',
      'opset 13',
      { x: [1, 3, 17, 19] },
      `input %x: float16[1, 3, 17, 19]
       ${w('w', [16, 3, 3, 3], 0.4)}
       ${w('b', [16], 0.4)}
       ${w('d', [16, 1, 3, 3], 0.4)}
       ${w('p', [48, 16, 1, 1], 0.3)}
       ${w('q', [32, 48, 3, 3], 0.1)}
       %1 = Conv(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1]}
       %2 = Relu(%1)
       %3 = Conv(%2, %d) {group = 16, pads = [1, 1, 1, 1]}
       %4 = Softsign(%3)
       %5 = Conv(%4, %p)
       %6 = Sigmoid(%5)
       %7 = Mul(%5, %6)
       %8 = Conv(%7, %q) {pads = [1, 1, 1, 1]}
       %9 = GlobalAveragePool(%8)
       %y = Flatten(%9)
       output %y`,
    ],
    [
      'a block with attention, with Casts of its own',
      'opset 17',
      { x: [1, 5, 32] },
      `input %x: float16[1, 5, 32]
       ${w('s', [32], 1)}
       ${w('t', [32], 0.3)}
       ${w('q', [32, 32], 0.3)}
       ${w('k', [32, 32], 0.3)}
       ${w('v', [32, 32], 0.3)}
       %n = LayerNormalization(%x, %s, %t) {axis = -1}
       %a = MatMul(%n, %q)
       %b = MatMul(%n, %k)
       %c = MatMul(%n, %v)
       %d = Transpose(%b) {perm = [0, 2, 1]}
       %e = MatMul(%a, %d)
       %f = Cast(%e) {to = 1}
       %g = Softmax(%f) {axis = -1}
       %h = Cast(%g) {to = 10}
       %i = MatMul(%h, %c)
       %y = Add(%x, %i)
       output %y`,
    ],
    [
      'rows of a table',
      'opset 13',
      {},
      `input %i: int64[2, 3]
       ${w('t', [50, 64], 1)}
       ${w('w', [64, 8], 0.3)}
       %a = Gather(%t, %i)
       %y = MatMul(%a, %w)
       output %y`,
    ],
    [
      '4-bit weights with float16 scales, and float16 states',
      'opset 17, com.microsoft 1',
      { x: [1, 3, 64], past: [1, 2, 4, 16], last: [1, 2, 4, 16] },
      `input %x: float16[1, 3, 64]
       input %past: float16[1, 2, 4, 16]
       input %last: float16[1, 2, 4, 16]
       input %j: int64[1, 3]
       const %sizes: int64[3] = {32, 32, 32}
       const %seq: int32[1, 1] = {6}
       const %all: int32[1] = {7}
       const %q: uint8[96, 2, 16] = {${bytes(96 * 32)}}
       ${w('s', [96, 2], 0.02)}
       const %z: uint8[96, 1] = {${bytes(96)}}
       ${w('b', [96], 0.3)}
       const %t: uint8[20, 32] = {${bytes(640)}}
       ${w('u', [20, 2], 0.05)}
       const %o: uint8[64, 1, 16] = {${bytes(1024)}}
       ${w('p', [64, 1], 0.05)}
       %e = com.microsoft::GatherBlockQuantized(%t, %j, %u) {bits = 4, block_size = 32, quantize_axis = 1, gather_axis = 0}
       %g = Add(%e, %x)
       %h = com.microsoft::MatMulNBits(%g, %q, %s, %z, _, %b) {K = 64, N = 96, bits = 4, block_size = 32}
       %k, %m, %n = Split(%h, %sizes) {axis = 2}
       %a, %present, %ahead = com.microsoft::GroupQueryAttention(%k, %m, %n, %past, %last, %seq, %all) {num_heads = 2, kv_num_heads = 2}
       %y = com.microsoft::MatMulNBits(%a, %o, %p) {K = 32, N = 64, bits = 4, block_size = 32}
       output %y
       output %present`,
    ],
    [
      'branches that capture weights',
      'opset 13',
      { x: [2, 48] },
      `input %x: float16[2, 48]
       input %c: bool[]
       ${w('w', [48, 64], 0.3)}
       %y = If(%c, %x, %w, %x, %w) {then_branch = {graph "then" opset 13
         capture %a: float16[2, 48]
         capture %b: float16[48, 64]
         %r = MatMul(%a, %b)
         output %r
       }, else_branch = {graph "else" opset 13
         capture %a: float16[2, 48]
         capture %b: float16[48, 64]
         %m = MatMul(%a, %b)
         %r = Neg(%m)
         output %r
       }}
       output %y`,
    ],
  ];
}

export const feedsFor = (text, inputs, random) => ({
  ...Object.fromEntries(
    Object.entries(inputs).map(([name, dims]) => [name, feed('float16', dims, random)]),
  ),
  ...(text.includes('input %i:') && { i: new Tensor('int64', [0, 3, 49, 7, 3, 1], [2, 3]) }),
  ...(text.includes('input %j:') && { j: new Tensor('int64', [0, 19, 7], [1, 3]) }),
  ...(text.includes('input %c:') && { c: new Tensor('bool', [true], []) }),
});

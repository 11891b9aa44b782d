// Convolutions by table lookup give the integers of the scalar kernel in every variant, on several threads
// and in both arithmetics of requantization: with outputs of few codes, of all codes, and sums with a
// residual, and for numbers of channels that fill groups of blocks or leave remainders.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { InferenceSession, Tensor, env, parseModel } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { randomSource } from './few_bits.mjs';
import { roundsOf } from './rounds.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
const [FIRST, END] = roundsOf(40, 240);

/** A convolution of `a` by `w` bits to `o` bits, with a residual of 4 bits added to the output. */
function randomCase(seed) {
  const next = randomSource(seed);
  const a = [1, 1, 2, 3, 4][seed % 5];
  // Sums that fit bytes, with outputs of two codes.
  const inBytes = seed % 4 === 3;
  const w = inBytes ? 1 : 1 + (next(0, 1) % 2);
  const o = inBytes ? 1 : [1, 2, 4, 8][next(0, 3)];
  const size = !inBytes && next(0, 2) === 0 ? 3 : 1;
  const stride = next(1, 2);
  const channels =
    next(0, 3) === 0 ? next(1, 900) : next(1, inBytes ? Math.floor(240 / (2 ** a - 1)) : 140);
  const outputs = next(0, 3) === 0 ? next(1, 300) : 8 * next(1, 34);
  const [height, width] = [next(size, 6), next(size, 17)];
  const levels =
    w === 1
      ? [
          [-1, 1],
          [0, 1],
          [-1, 0],
        ][next(0, 2)]
      : [-2, -1, 0, 1];
  const numbers = (count, value) => Array.from({ length: count }, value).join(', ');
  const depth = channels * size * size;
  const codes = 2 ** o;
  // Sums within two standard deviations take half of the codes; sixteenths are simple multipliers, thirds are
  // not.
  const spread = (2 ** a * levels.length * Math.sqrt(depth)) / codes;
  const scale = Math.max(1, next(0, 1) ? 2 ** Math.round(Math.log2(spread)) : spread);
  const zero = next(0, codes - 1);
  const inputZero = next(0, 2 ** a - 1);
  const text = `graph "lookup" opset 13, com.microsoft 1
input %x: uint8[2, ${channels}, ${height}, ${width}]
input %v: uint8[2, ${outputs}, ${Math.ceil((height - size + 1) / stride)}, ${Math.ceil((width - size + 1) / stride)}]
const %s: float32[] = {1.0}
const %d: float32[] = {0.8125}
const %ys: float32[] = {${scale}}
const %z: uint8[] = {${inputZero}}
const %yz: uint8[] = {${zero}}
const %wz: int8[] = {0}
const %low: uint8[] = {0}
const %high: uint8[] = {${2 ** a - 1}}
const %top: uint8[] = {${codes - 1}}
const %few: uint8[] = {15}
const %w: int8[${outputs}, ${channels}, ${size}, ${size}] = {${numbers(outputs * depth, () => levels[next(0, levels.length - 1)])}}
const %b: int32[${outputs}] = {${numbers(outputs, () => next(-40, 40))}}
%u = Clip(%x, %low, %high)
%c_ = QLinearConv(%u, %s, %z, %w, %s, %wz, %ys, %yz, %b) {strides = [${stride}, ${stride}]}
%c = Clip(%c_, %low, %top)
%e_ = QLinearConv(%u, %s, %z, %w, %s, %wz, %ys, %yz) {strides = [${stride}, ${stride}]}
%e = Clip(%e_, %low, %top)
%r = Clip(%v, %low, %few)
%sum_ = com.microsoft::QLinearAdd(%e, %s, %yz, %r, %d, %z, %s, %z)
%sum = Clip(%sum_, %low, %few)
output %c
output %sum
`;
  const feed = (dims) => {
    const count = dims.reduce((one, other) => one * other);
    return new Tensor(
      'uint8',
      Uint8Array.from({ length: count }, () => next(0, 255) & (2 ** a - 1)),
      dims,
    );
  };
  const dims = /%v: uint8\[([^\]]*)/.exec(text)[1].split(', ').map(Number);
  const feeds = { x: feed([2, channels, height, width]), v: feed(dims) };
  const name = `A${a}W${w} to ${o} bits, ${channels} -> ${outputs}, ${size} x ${size} / ${stride}, seed ${seed}`;
  return { text, feeds, name };
}

afterEach(() => {
  env.wasm.simd = 'auto';
  delete env.wasm.numThreads;
});

for (const simd of variants) {
  for (const numThreads of [1, 2]) {
    test(`lookups give the integers of the scalar kernel, ${simd}, threads ${numThreads}`, async () => {
      env.wasm.simd = simd;
      env.wasm.numThreads = numThreads;
      let codes = 0;
      for (let seed = FIRST + 1; seed <= END; seed++) {
        const { text, feeds, name } = randomCase(seed);
        const model = await parseModel(text);
        for (const requantize of ['fixed', 'float']) {
          const run = async (kernel) => {
            const options = { requantize, kernels: { conv_q8: kernel } };
            const session = await InferenceSession.create(model, options);
            const outputs = await session.run(feeds);
            const { steps } = session.plan();
            session.dispose();
            assert.equal(steps.filter((step) => step.kernel === kernel).length, 2, name);
            return Object.values(outputs).map(({ data }) => [...data]);
          };
          const expected = await run('conv_q8_scalar');
          codes += new Set(expected[0]).size + new Set(expected[1]).size;
          assert.deepEqual(await run('conv_q8_lookup'), expected, `${name}, ${requantize}`);
        }
        model.dispose();
      }
      // The codes vary.
      assert.ok(codes > 20 * (END - FIRST), `${codes} codes`);
    });
  }
}

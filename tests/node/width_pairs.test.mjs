// Every pair of 1 to 8 bits of activations by 1 to 8 bits of weights: random convolutions, among them one of
// channels-last images, one of 3x3 and one depthwise, and a matrix product give the integers of the scalar
// kernel with every kernel, in every variant and on several threads. REQUANT_LONG: all 64 pairs with more
// shapes.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { InferenceSession, Tensor, engineInfo, env, parseModel } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { integersFrom } from './few_bits.mjs';

const long = Boolean(process.env.REQUANT_LONG);
const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
const widths = [1, 2, 3, 4, 5, 6, 7, 8];
const all = widths.flatMap((a) => widths.map((w) => [a, w]));
// The diagonal and the corners, unless all are tested.
const pairs = long
  ? all
  : all.filter(([a, w]) => (a + 3 * w) % 8 === 1 || [2, 9, 16].includes(a + w));
const shapesOfAPair = !long ? 1 : process.env.CI ? 2 : 4;

/** A random case of these widths: its text, feeds and name. */
function randomCase(a, w, seed) {
  const next = integersFrom(1000 * seed + 37 * a + w);
  for (let i = 0; i < 5; i++) next(0, 1);
  const polarity = ['unipolar', 'bipolar', 'mixed'][next(0, 2)];
  const extreme = next(0, 4);
  const groups = next(0, 3) === 0 ? next(2, 3) : 1;
  const [kh, kw, dilation, stride] = [next(1, 3), next(1, 3), next(1, 2), next(1, 2)];
  const pads = [next(0, 2), next(0, 2), next(0, 2), next(0, 2)];
  const channels = groups * next(1, Math.floor(130 / groups));
  const outputs = groups * next(1, Math.floor(48 / groups));
  const height = (kh - 1) * dilation + 1 + next(0, 8);
  const width = (kw - 1) * dilation + 1 + next(0, 12);
  const span = 2 ** a - 1;
  const signed = polarity === 'bipolar';
  const type = signed ? 'int8' : 'uint8';
  const low = signed ? -(2 ** (a - 1)) : a < 8 ? next(0, 255 - span) : 0;
  const zero = low + next(0, span);
  const weight = () => {
    const most = 2 ** w - 1;
    const u = extreme === 1 ? 0 : extreme === 2 ? most : next(0, most);
    if (polarity === 'mixed' || w === 8) return u - 2 ** (w - 1);
    return polarity === 'bipolar' ? 2 * u - most : u;
  };
  const numbers = (count, value) => Array.from({ length: count }, value).join(', ');
  const depth = (channels / groups) * kh * kw;
  const scale = (of) => Math.max(1, (span * 2 ** w * Math.sqrt(of)) / 160).toFixed(3);
  const window = `pads = [${pads}], strides = [${stride}, ${stride}], dilations = [${dilation}, ${dilation}], group = ${groups}`;
  const depthwise = window.replace(/group = .*/, `group = ${channels}`);
  const weights = `int8[${outputs}, ${channels / groups}, ${kh}, ${kw}] = {${numbers(outputs * depth, weight)}}`;
  const inner = next(1, 130);
  // A case for the Winograd kernels.
  const [blocks, few] = [16 * next(1, 4), next(1, 20)];
  const square = [2, blocks, next(3, 10), next(3, 12)];
  const border = [next(0, 2), next(0, 2), next(0, 2), next(0, 2)];
  const text = `graph "pair" opset 13
input %x: ${type}[2, ${channels}, ${height}, ${width}]
input %t: ${type}[1, ${height}, ${width}, ${channels}]
input %m: ${type}[${next(1, 9)}, ${inner}]
input %q: ${type}[${square}]
const %s: float32[] = {1.0}
const %ys: float32[] = {${scale(depth)}}
const %ms: float32[] = {${scale(inner)}}
const %z: ${type}[] = {${zero}}
const %yz: uint8[] = {128}
const %wz: int8[] = {0}
const %low: ${type}[] = {${low}}
const %high: ${type}[] = {${low + span}}
const %w: ${weights}
const %b: int32[${outputs}] = {${numbers(outputs, () => next(-50, 50))}}
const %dw: int8[${channels}, 1, ${kh}, ${kw}] = {${numbers(channels * kh * kw, weight)}}
const %ds: float32[] = {${scale(kh * kw)}}
const %qw: int8[${few}, ${blocks}, 3, 3] = {${numbers(few * blocks * 9, weight)}}
const %qs: float32[] = {${scale(blocks * 9)}}
const %mw: int8[${inner}, 21] = {${numbers(inner * 21, weight)}}
%xc = Clip(%x, %low, %high)
%y = QLinearConv(%xc, %s, %z, %w, %s, %wz, %ys, %yz, %b) {${window}}
%tc = Clip(%t, %low, %high)
%tt = Transpose(%tc) {perm = [0, 3, 1, 2]}
%tv = QLinearConv(%tt, %s, %z, %w, %s, %wz, %ys, %yz, %b) {${window}}
%last = Transpose(%tv) {perm = [0, 2, 3, 1]}
%depthwise = QLinearConv(%xc, %s, %z, %dw, %s, %wz, %ds, %yz) {${depthwise}}
%qc = Clip(%q, %low, %high)
%square = QLinearConv(%qc, %s, %z, %qw, %s, %wz, %qs, %yz) {pads = [${border}]}
%strided = QLinearConv(%qc, %s, %z, %qw, %s, %wz, %qs, %yz) {pads = [${border}], strides = [2, 2]}
%mc = Clip(%m, %low, %high)
%product = QLinearMatMul(%mc, %s, %z, %mw, %s, %wz, %ms, %yz)
output %y
output %last
output %product
output %depthwise
output %square
output %strided
`;
  const code = () => (extreme === 1 ? low : extreme === 2 ? low + span : low + next(-1, span + 1));
  const feed = (dims) => {
    const data = new (signed ? Int8Array : Uint8Array)(dims.reduce((one, other) => one * other));
    const clamp = (value) => Math.min(Math.max(value, signed ? -128 : 0), signed ? 127 : 255);
    return new Tensor(
      type,
      data.map(() => clamp(code())),
      dims,
    );
  };
  const rows = Number(/%m: \w+\[(\d+)/.exec(text)[1]);
  const feeds = {
    x: feed([2, channels, height, width]),
    t: feed([1, height, width, channels]),
    m: feed([rows, inner]),
    q: feed(square),
  };
  return { text, feeds, name: `A${a}W${w} ${polarity}, seed ${seed}, extreme ${extreme}` };
}

async function run(model, feeds, kernels) {
  const session = await InferenceSession.create(model, { kernels });
  const outputs = await session.run(feeds);
  const used = session
    .plan()
    .steps.flatMap(({ kernel: name }) => (/^(dw)?conv_q8/.test(name) ? [name] : []));
  session.dispose();
  return { outputs: Object.values(outputs).map(({ data }) => [...data]), used };
}

afterEach(() => {
  env.wasm.simd = 'auto';
  delete env.wasm.numThreads;
});

for (const simd of variants) {
  for (const numThreads of long ? [1, 3] : [1, 2]) {
    describe(`pairs of widths, ${simd}, threads ${numThreads}`, () => {
      test('every kernel computes the integers of the scalar one', async () => {
        env.wasm.simd = simd;
        env.wasm.numThreads = numThreads;
        const seen = new Set();
        for (const [a, w] of pairs) {
          for (let seed = 1; seed <= shapesOfAPair; seed++) {
            const { text, feeds, name } = randomCase(a, w, seed);
            const model = await parseModel(text);
            const { kernels } = await engineInfo();
            const rows = kernels.filter(
              ({ family, missing }) => family.endsWith('conv_q8') && missing === undefined,
            );
            const scalar = { conv_q8: 'conv_q8_scalar', dwconv_q8: 'dwconv_q8_scalar' };
            const expected = await run(model, feeds, scalar);
            assert.ok(
              expected.used.every((used) => used.endsWith('_scalar')),
              name,
            );
            const forced = rows.map((row) => ({ [row.family]: row.name }));
            for (const kernels of [{}, ...forced]) {
              const { outputs, used } = await run(model, feeds, kernels);
              const [kernel] = Object.values(kernels);
              assert.deepEqual(outputs, expected.outputs, `${name}, ${kernel}`);
              for (const one of used) seen.add(one);
              if (kernel === 'conv_q8_popcount' || kernel === 'conv_q8_carry_save') {
                const products = used.filter((one) => one.startsWith('conv_q8'));
                assert.deepEqual(new Set(products), new Set([kernel]), name);
              }
            }
            model.dispose();
          }
        }
        assert.ok(seen.has('conv_q8_vector'), [...seen].join());
        // With other modules, products of whole bytes may be preferred for all of these shapes.
        if (simd === 'simd128') assert.ok(seen.has('conv_q8_lookup'), [...seen].join());
        const wanted = ['conv_q8_narrow_x', 'conv_q8_winograd_narrow', 'dwconv_q8_narrow'];
        wanted.push('conv_q8_winograd_strided_narrow', 'conv_q8_winograd_strided_pairs');
        const { kernels } = await engineInfo();
        const four = kernels.find(({ name }) => name === 'conv_q8_winograd_4x3_dot8');
        if (long && four.missing === undefined) wanted.push(four.name);
        for (const narrow of wanted) {
          assert.ok(seen.has(narrow), [...seen].join());
        }
      });
    });
  }
}

// Values of two codes as planes of bits between convolutions by table lookup: as inputs, residuals and sums
// of both, behind pools and depthwise convolutions, beside layers that use bytes. The integers are those of
// the scalar kernel in every variant, on several threads, in both arithmetics of requantization and from a
// saved plan.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Tensor, env, parseModel } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { randomSource, runOnce as run } from './few_bits.mjs';
import { roundsOf } from './rounds.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
const [FIRST, END] = roundsOf(8, 48);
const cases = END - FIRST;

const lists = {
  both: [-1, 1],
  none: [0, 1],
  negative: [-1, 0],
  wide: [-3, 3],
  many: [-4, -1, 0, 2, 3],
};
const twoValues = ['both', 'none', 'negative', 'wide'];

/**
 * A graph, line by line. `layer` adds a convolution with outputs of two codes, from `low` on; a depthwise one
 * has its own row of a table. `add` adds a sum of two values.
 */
class Network {
  constructor(next, low, isSigned) {
    const type = isSigned ? 'int8' : 'uint8';
    Object.assign(this, { next, low, type, lines: [], outputs: [], count: 0 });
    this.lines.push(`const %s: float32[] = {1.0}`, `const %d: float32[] = {0.8125}`);
    this.lines.push('const %h: float32[] = {0.4375}');
    this.lines.push(`const %z: ${type}[] = {${low}}`, `const %wz: int8[] = {0}`);
    this.lines.push(`const %low: ${type}[] = {${low}}`, `const %high: ${type}[] = {${low + 1}}`);
  }
  numbers(count, value) {
    return Array.from({ length: count }, value).join(', ');
  }
  clip(name) {
    this.lines.push(`%${name} = Clip(%${name}_, %low, %high)`);
    return name;
  }
  layer(input, { from, to, size = 1, groups = 1, stride = 1, pad = 0, dilation = 1, weights }) {
    const { next, lines } = this;
    const name = `v${this.count++}`;
    const inner = from / groups;
    const values = lists[weights ?? twoValues[next(0, 3)]];
    const depth = inner * size * size;
    // About half of the outputs get the higher code.
    const sum = values.reduce((a, b) => a + b) / values.length / 2;
    const scale = Math.max(1, Math.sqrt(depth) * next(1, 3));
    const bias = () => Math.round(scale / 2 - sum * depth + next(-6, 6));
    lines.push(
      `const %${name}w: int8[${to}, ${inner}, ${size}, ${size}] = {${this.numbers(to * depth, () => values[next(0, values.length - 1)])}}`,
      `const %${name}b: int32[${to}] = {${this.numbers(to, bias)}}`,
      `const %${name}s: float32[] = {${scale}}`,
      `%${name}_ = QLinearConv(%${input}, %s, %z, %${name}w, %s, %wz, %${name}s, %z, %${name}b) {pads = [${pad}, ${pad}, ${pad}, ${pad}], strides = [${stride}, ${stride}], dilations = [${dilation}, ${dilation}], group = ${groups}}`,
    );
    return this.clip(name);
  }
  add(a, b) {
    const name = `v${this.count++}`;
    // The sum becomes the OR or the AND of both operands, or just one of them.
    const [one, other] = ['sd', 'hh', 'sh', 'hs'][this.next(0, 3)];
    this.lines.push(
      `%${name}_ = com.microsoft::QLinearAdd(%${a}, %${one}, %z, %${b}, %${other}, %z, %s, %z)`,
    );
    return this.clip(name);
  }
  text(dims, output) {
    return [
      `graph "planes" opset 13, com.microsoft 1`,
      `input %x: ${this.type}[${dims}]`,
      ...this.lines,
      ...[output].flat().map((name) => `output %${name}`),
      '',
    ].join('\n');
  }
}

/**
 * Blocks as in a residual network, some behind a pool: each has three convolutions, one of them strided, and
 * its shortcut.
 */
function residualNetwork(seed) {
  const next = randomSource(seed);
  const low = [0, 0, 7, -1][next(0, 3)];
  const network = new Network(next, low, low < 0);
  const channels = 32 * next(1, 5);
  const dims = [next(1, 2), channels, next(5, 13), next(5, 19)];
  network.lines.push('%u_ = Identity(%x)', '%u = Clip(%u_, %low, %high)');
  let value = 'u';
  if (next(0, 1)) {
    value = 'first';
    network.lines.push('%first = MaxPool(%u) {kernel_shape = [2, 3], pads = [0, 1, 0, 1]}');
  }
  let from = channels;
  for (let block = 0; block < 3; block++) {
    const inner = 32 * next(1, 4);
    const to = block === 1 || next(0, 1) ? 32 * next(1, 9) : from;
    const stride = block === 1 ? next(1, 2) : 1;
    const groups = inner % 64 === 0 && next(0, 2) === 0 ? 2 : 1;
    const narrow = network.layer(value, { from, to: inner });
    const windows = network.layer(narrow, {
      ...{ from: inner, to: inner, size: 3, pad: 1, groups, stride },
    });
    const depthwise = next(0, 2) === 0;
    const middle = depthwise
      ? network.layer(windows, {
          ...{ from: inner, to: inner, size: 3, pad: 1, groups: inner, weights: 'both' },
        })
      : windows;
    const wide = network.layer(middle, { from: inner, to });
    const shortcut =
      to === from && stride === 1 ? value : network.layer(value, { from, to, stride });
    value = next(0, 1) ? network.add(wide, shortcut) : network.add(shortcut, wide);
    from = to;
  }
  // The last value is no plane: a pool and a matrix product read it.
  network.lines.push(`%pool = MaxPool(%${value}) {kernel_shape = [1, 2]}`);
  return { text: network.text(dims.join(', '), [value, 'pool']), dims, low, type: network.type };
}

/** All bits of windows are set: the sums exceed bytes. */
function fullNetwork() {
  const network = new Network(randomSource(3), 0, false);
  network.lines.push('%u_ = Identity(%x)', '%u = Clip(%u_, %low, %high)');
  const first = network.layer('u', { from: 384, to: 96 });
  const second = network.layer(first, { from: 96, to: 320, weights: 'none' });
  const third = network.layer(second, { from: 320, to: 64 });
  return { text: network.text('1, 384, 9, 11', [third]), dims: [1, 384, 9, 11], low: 0 };
}

/**
 * Values that layers of bits share with a layer of more bits, which reads two codes to a byte, beside
 * residuals.
 */
function sharedNetwork() {
  const network = new Network(randomSource(5), 0, false);
  network.lines.push('%u_ = Identity(%x)', '%u = Clip(%u_, %low, %high)');
  const layer = (input, more = {}) =>
    network.layer(input, { from: 64, to: 64, size: 3, pad: 1, weights: 'both', ...more });
  const first = layer('u');
  const second = network.add(layer(first), first); // has a residual that other layers want in another form
  const third = network.add(layer(second), second); // is a sum that other layers want in another form
  const outputs = [layer(third, { weights: 'many' }), layer(first, { weights: 'many' })];
  return { text: network.text('1, 64, 9, 11', outputs), dims: [1, 64, 9, 11], low: 0 };
}

function feedOf({ dims, low, type = 'uint8' }, next) {
  const count = dims.reduce((a, b) => a * b);
  const data = new (type === 'int8' ? Int8Array : Uint8Array)(count);
  for (let at = 0; at < count; at++) data[at] = low + next(at);
  return { x: new Tensor(type, data, dims) };
}

const planes = ({ steps }) => steps.filter(({ output }) => output.packing === 'planes');

afterEach(() => {
  env.wasm.simd = 'auto';
  delete env.wasm.numThreads;
});

for (const simd of variants) {
  for (const numThreads of [1, 2]) {
    describe(`planes of bits, ${simd}, threads ${numThreads}`, () => {
      test('residual blocks', async () => {
        env.wasm.simd = simd;
        env.wasm.numThreads = numThreads;
        const seen = { planes: 0, sums: 0, pools: 0, depthwise: 0, ones: 0, codes: 0 };
        for (let seed = FIRST + 1; seed <= END; seed++) {
          const form = residualNetwork(seed);
          const next = randomSource(seed);
          const feeds = feedOf(form, () => next(0, 1));
          const model = await parseModel(form.text);
          for (const requantize of ['fixed', 'float']) {
            const scalar = { requantize, kernels: { conv_q8: 'conv_q8_scalar' } };
            const expected = await run(model, feeds, scalar);
            assert.equal(planes(expected).length, 0);
            const kernels = { conv_q8: 'conv_q8_lookup' };
            // By default this row is used only if the machine does not multiply whole bytes.
            if (simd === 'relaxed') kernels.dwconv_q8 = 'dwconv_q8_narrow';
            const lookup = { requantize, kernels };
            const got = await run(model, feeds, lookup);
            assert.deepEqual(got.outputs, expected.outputs, `seed ${seed}, ${requantize}`);
            assert.deepEqual(
              (await run(got.saved, feeds)).outputs,
              expected.outputs,
              `seed ${seed}`,
            );
            const compact = await run(model, feeds, { ...lookup, compact: true });
            assert.deepEqual(compact.outputs, expected.outputs, `seed ${seed}, ${requantize}`);
            const usual = await run(model, feeds, { requantize });
            assert.deepEqual(usual.outputs, expected.outputs, `seed ${seed}, ${requantize}`);
            const some = planes(got);
            seen.planes += some.length;
            seen.sums += some.filter(({ op }) => op.includes('Add')).length;
            seen.pools += some.filter(({ op }) => op.startsWith('MaxPool')).length;
            seen.depthwise += some.filter(({ kernel }) => kernel.startsWith('dwconv')).length;
            seen.ones += expected.outputs[0].filter((code) => code !== form.low).length;
            seen.codes += expected.outputs[0].length;
          }
          model.dispose();
        }
        // At least three of four values are planes, some of them sums; both codes are frequent.
        assert.ok(seen.planes > 2 * 6 * cases, `${seen.planes} planes`);
        assert.ok(seen.sums > cases, `${seen.sums} sums`);
        assert.ok(seen.pools > cases / 2, `${seen.pools} pools`);
        assert.ok(seen.depthwise > 0 || simd !== 'relaxed', `${seen.depthwise} depthwise`);
        assert.ok(seen.ones > seen.codes / 8 && seen.ones < (7 * seen.codes) / 8, `${seen.ones}`);
      });

      test('beside values two to a byte', async () => {
        env.wasm.simd = simd;
        env.wasm.numThreads = numThreads;
        const form = sharedNetwork();
        const next = randomSource(9);
        const feeds = feedOf(form, () => next(0, 1));
        const model = await parseModel(form.text);
        const kernels = { conv_q8: 'conv_q8_scalar' };
        const expected = await run(model, feeds, { kernels, requantize: 'fixed' });
        // Layers of many weights use no lookups.
        for (const row of ['conv_q8_lookup', 'conv_q8_narrow_x', 'conv_q8_popcount']) {
          const options = { kernels: { conv_q8: row }, requantize: 'fixed' };
          for (const compact of [false, true]) {
            const got = await run(model, feeds, { ...options, compact });
            assert.deepEqual(got.outputs, expected.outputs, `${row}, ${compact}`);
          }
        }
        const options = { requantize: 'fixed', compact: true };
        const got = await run(model, feeds, options);
        assert.deepEqual(got.outputs, expected.outputs);
        if (simd === 'relaxed') {
          const packings = got.steps.map(({ output }) => output.packing);
          assert.ok(packings.includes('nibbles'), packings.join());
        }
        model.dispose();
      });

      test('more bits in a window than bytes hold', async () => {
        env.wasm.simd = simd;
        env.wasm.numThreads = numThreads;
        const form = fullNetwork();
        const model = await parseModel(form.text);
        // All rows, the first or the last ones, or none.
        const rows = [
          () => 1,
          (at) => (at % 99 < 12 ? 1 : at & 1),
          (at) => (at % 99 > 80 ? 1 : at & 1),
          () => 0,
        ];
        for (const next of rows) {
          const feeds = feedOf(form, next);
          const kernels = { conv_q8: 'conv_q8_scalar' };
          const expected = await run(model, feeds, { kernels, requantize: 'fixed' });
          const got = await run(model, feeds, {
            ...{ kernels: { conv_q8: 'conv_q8_lookup' }, requantize: 'fixed' },
          });
          assert.equal(planes(got).length, 2);
          assert.deepEqual(got.outputs, expected.outputs);
        }
        model.dispose();
      });
    });
  }
}

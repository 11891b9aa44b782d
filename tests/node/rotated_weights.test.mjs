// quantizeWeights() with rotated inputs: onnxruntime-web has the same answers from the files.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  createWorker,
  parseModel,
  quantizeWeights,
} from '../../dist/index.js';
import { isError, ortOutputs } from './support.mjs';

/** Normally distributed numbers of a seed. */
function normal(seed) {
  let state = seed;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

const K = 64;
const constant = (name, dims, next, size = 0.3, shift = 0) => {
  const count = dims.reduce((a, b) => a * b, 1);
  const numbers = Array.from({ length: count }, () => Math.fround(next() * size + shift));
  return `const %${name}: float32[${dims.join(', ')}] = {${numbers.join(', ')}}`;
};

/** A product that makes a stream, and a gated block with a normalization that reads it. */
function block() {
  const next = normal(5);
  return parseModel(`graph "block" opset 17
input %x: float32[n, 24]
const %two: float32[] = {2}
const %eps: float32[] = {1e-5}
${constant('we', [24, K], next)}
${constant('gamma', [K], next, 0.3, 1)}
${constant('wg', [K, 48], next)}
${constant('wu', [K, 48], next)}
${constant('wd', [48, K], next)}
${constant('wh', [K, 35], next)}
${constant('wo', [35, 10], next)}
%e = MatMul(%x, %we) "embed"
%p = Pow(%e, %two)
%m = ReduceMean(%p) {axes = [-1]}
%v = Add(%m, %eps)
%r = Sqrt(%v)
%n = Div(%e, %r)
%h = Mul(%n, %gamma) "norm"
%g = MatMul(%h, %wg) "gate"
%s = Sigmoid(%g)
%u = MatMul(%h, %wu) "up"
%a = Mul(%s, %u) "gated"
%d = MatMul(%a, %wd) "down"
%t = Add(%e, %d) "stream"
%z = MatMul(%t, %wh) "head"
%f = Relu(%z)
%y = MatMul(%f, %wo) "odd"
output %y
`);
}

function rows(count, seed) {
  const next = normal(seed);
  const data = Float32Array.from(
    { length: count * 24 },
    (_, at) => next() * (at % 8 === 3 ? 10 : 1),
  );
  return { x: new Tensor('float32', data, [count, 24]) };
}
const samples = (count) => Array.from({ length: count }, (_, index) => rows(32, 100 + index));

async function answers(model, feeds) {
  const session = await InferenceSession.create(model);
  const { y } = await session.run(feeds);
  session.dispose();
  return y.data;
}

function noise(got, want) {
  const power = (values) => values.reduce((sum, value) => sum + value * value, 0);
  return power(got.map((value, i) => value - want[i])) / power(want);
}

const detailsOf = (model) =>
  Object.fromEntries(model.weightLayers.map(({ name, detail }) => [name, detail]));

test('rotations change nothing but the rounding, and every product says what was done', async () => {
  const model = await block();
  const feeds = rows(16, 3);
  const want = await answers(model, feeds);
  for (const more of [{}, { calibration: samples(4) }]) {
    const plain = await quantizeWeights(model, { bits: 8, ...more });
    const made = await quantizeWeights(model, { bits: 8, rotate: 'always', ...more });
    assert.ok(noise(await answers(made, feeds), want) < 1e-4);
    const details = detailsOf(made);
    for (const name of ['gate', 'up', 'head']) {
      assert.match(details[name], /^rotated by 64 in the layers before, error /);
    }
    assert.match(details.embed, /^rotated by 8 at run time, .*is an input of the model/);
    assert.match(details.down, /^rotated by 16 at run time, .*Mul 'gated' multiplies channels/);
    assert.match(details.odd, /^not rotated: 35 rows have no power of two as a divisor/);
    // Reshape, MatMul, Reshape twice; the factors of the normalization are in the products.
    const count = (one, op) => one.info.nodes.filter((node) => node.op === op).length;
    assert.equal(count(made, 'Reshape'), 4);
    assert.equal(count(made, 'MatMul'), count(plain, 'MatMul') + 2);
    assert.equal(count(made, 'Mul'), count(plain, 'Mul') - 1);
    assert.deepEqual([made.floatOperators, made.warnings], [[], []]);
    plain.dispose();
    made.dispose();
  }
  model.dispose();
});

test('ONNX Runtime has the same answers from the files', async () => {
  const model = await block();
  const calibration = samples(4);
  const feeds = rows(8, 2);
  for (const options of [
    { bits: 4 },
    { bits: 3, symmetric: false, calibration },
    { bits: 8, rotateSize: 16, calibration, method: 'awq_gptq' },
    { bits: 4, format: 'matmulnbits', int8Activations: false, calibration, method: 'awq' },
  ]) {
    const made = await quantizeWeights(model, { rotate: 'always', blockSize: 16, ...options });
    const own = await answers(made, feeds);
    const [theirs] = await ortOutputs(made.toOnnx(), [feeds]);
    assert.ok(noise(own, theirs) < 1e-9, JSON.stringify({ ...options, calibration: undefined }));
    made.dispose();
  }
  // Activations of 8 bits round differently in both engines.
  const made = await quantizeWeights(model, { rotate: 'always', format: 'matmulnbits' });
  const [theirs] = await ortOutputs(made.toOnnx(), [feeds]);
  assert.ok(noise(await answers(made, feeds), theirs) < 1e-3);
  made.dispose();
  model.dispose();
});

test('a rotation is chosen by the error, and helps against single large weights', async () => {
  const next = normal(1);
  const w = Float32Array.from({ length: K * 32 }, (_, at) => {
    const [k, n] = [Math.floor(at / 32), at % 32];
    return next() * (k % 16 === n % 16 ? 3 : 0.2);
  });
  const model = await parseModel(`graph "spiky" opset 17
input %x: float32[n, ${K}]
const %w: float32[${K}, 32] = {${w.join(', ')}}
${constant('z', [K, 32], next)}
%y = MatMul(%x, %w) "spiky"
%r = Relu(%x)
%q = MatMul(%r, %z) "noise"
output %y
output %q
`);
  const gaussian = (seed) => {
    const draw = normal(seed);
    return { x: new Tensor('float32', Float32Array.from({ length: 64 * K }, draw), [64, K]) };
  };
  const calibration = [gaussian(2), gaussian(3)];
  const feeds = gaussian(4);
  const want = await answers(model, feeds);
  for (const more of [{}, { calibration }]) {
    const options = { bits: 3, blockSize: 16, ...more };
    const plain = await quantizeWeights(model, options);
    const made = await quantizeWeights(model, { ...options, rotate: 'auto' });
    const details = detailsOf(made);
    assert.match(details.spiky, /^rotated by 64 at run time, error /);
    assert.match(details.noise, /^not rotated, error /);
    const [before, after] = [
      noise(await answers(plain, feeds), want),
      noise(await answers(made, feeds), want),
    ];
    assert.ok(after < 0.9 * before, `${before} -> ${after}`);
    plain.dispose();
    made.dispose();
  }
  model.dispose();
});

test('bad options are refused, progress goes up, and a worker makes the same file', async () => {
  const model = await block();
  const refused = (options, value) =>
    assert.rejects(
      quantizeWeights(model, options),
      isError('INVALID_ARGUMENT', value === undefined ? {} : { value }),
    );
  await refused({ rotate: 'never' }, 'options.rotate');
  await refused({ rotateSize: 64 }, 'options.rotateSize');
  await refused({ rotate: 'auto', rotateSize: 48 });
  await refused({ rotate: 'auto', rotateSize: 4096, calibration: samples(1) });
  const done = [];
  const options = { bits: 3, calibration: samples(2), rotate: 'always' };
  const here = await quantizeWeights(model, {
    ...options,
    onProgress: ({ phase, done: count, total }) => {
      if (phase === 'round') done.push(count);
      assert.ok(total === undefined || count <= total);
    },
  });
  assert.deepEqual(
    done,
    [...done].sort((a, b) => a - b),
  );
  const worker = await createWorker();
  try {
    const there = await worker.quantizeWeights(
      await worker.parseModel(model.toText({ maxConstantElements: 0 })),
      options,
    );
    assert.deepEqual(await there.toOnnx(), here.toOnnx());
    assert.deepEqual(there.weightLayers, here.weightLayers);
  } finally {
    await worker.terminate();
  }
  here.dispose();
  model.dispose();
});

// quantizeWeights() with calibration: GPTQ against its textbook form, scaled channels, files in ONNX Runtime.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  createWorker,
  engineInfo,
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

const K = 48;
const HIDDEN = 64;
const OUT = 20;
const constant = (name, dims, next, size = 0.3) => {
  const count = dims.reduce((a, b) => a * b, 1);
  const numbers = Array.from({ length: count }, () => Math.fround(next() * size).toString());
  return `const %${name}: float32[${dims.join(', ')}] = {${numbers.join(', ')}}`;
};

/** A gated block behind a normalization's Mul, as in a Llama; `more` is what also reads the Mul. */
function block(more = '') {
  const next = normal(5);
  return parseModel(`graph "block" opset 17
input %x: float32[n, ${K}]
${constant('gamma', [K], next)}
${constant('wg', [K, HIDDEN], next)}
${constant('wu', [K, HIDDEN], next)}
${constant('wd', [HIDDEN, OUT], next)}
%h = Mul(%x, %gamma) "norm"
%g = MatMul(%h, %wg) "gate"
%s = Sigmoid(%g) "sigmoid"
%a = Mul(%g, %s) "silu"
%u = MatMul(%h, %wu) "up"
%p = Mul(%a, %u) "gated"
%y = MatMul(%p, %wd) "down"
${more}
output %y
`);
}

/** Rows whose channels depend on each other; every eighth one is ten times as large. */
function rows(count, seed) {
  const next = normal(seed);
  const data = new Float32Array(count * K);
  for (let row = 0; row < count; row++) {
    const common = next();
    for (let k = 0; k < K; k++) {
      data[row * K + k] = (next() + 1.5 * common) * (k % 8 === 3 ? 10 : 1);
    }
  }
  return { x: new Tensor('float32', data, [count, K]) };
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

/** The inverse of a symmetric positive definite matrix, by elimination. */
function inverse(matrix) {
  const n = matrix.length;
  const work = matrix.map((row, i) => [...row, ...row.map((_, j) => Number(i === j))]);
  for (let i = 0; i < n; i++) {
    const pivot = work[i][i];
    work[i] = work[i].map((value) => value / pivot);
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      const factor = work[j][i];
      work[j] = work[j].map((value, at) => value - factor * work[i][at]);
    }
  }
  return work.map((row) => row.slice(n));
}

/** GPTQ as its paper has it: a weight's error goes to the rest by the rest's inverse Hessian. */
function gptq(weights, hessian, round) {
  const left = [...weights];
  const codes = [];
  let rest = hessian;
  for (let i = 0; i < weights.length; i++) {
    codes.push(round(i, left[i]));
    const h = inverse(rest);
    const error = (left[i] - codes[i]) / h[0][0];
    for (let j = i; j < weights.length; j++) left[j] -= error * h[0][j - i];
    rest = rest.slice(1).map((row) => row.slice(1));
  }
  return codes;
}

test('GPTQ gives the integers of its textbook form, whole and in blocks', async () => {
  const next = normal(9);
  const N = 3;
  const w = Float32Array.from({ length: K * N }, () => next());
  const model = await parseModel(`graph "product" opset 21
input %x: float32[n, ${K}]
const %w: float32[${K}, ${N}] = {${w.join(', ')}}
%y = MatMul(%x, %w) "product"
output %y
`);
  const calibration = samples(6);
  const identity = new Float32Array(K * K);
  for (let k = 0; k < K; k++) identity[k * K + k] = 1;
  const eye = { x: new Tensor('float32', identity, [K, K]) };
  const count = 6 * 32;
  const h = Array.from({ length: K }, () => new Array(K).fill(0));
  for (const { x } of calibration) {
    for (let row = 0; row < 32; row++) {
      const at = (k) => x.data[row * K + k];
      for (let i = 0; i < K; i++) for (let j = 0; j < K; j++) h[i][j] += (at(i) * at(j)) / count;
    }
  }
  const trace = h.reduce((sum, row, i) => sum + row[i], 0);
  const order = h.map((_, i) => i).sort((a, b) => h[b][b] - h[a][a]);
  const keep = count / (count + 0.2 * K + 1);
  const hessian = order.map((i) =>
    order.map((j) => (i === j ? h[i][i] + (0.01 * trace) / K : keep * h[i][j])),
  );
  for (const [bits, blockSize] of [
    [4, 64],
    [4, 16],
    [3, 16],
  ]) {
    const made = await quantizeWeights(model, { bits, blockSize, calibration });
    const [, text] = /%w_scale: float32\[[^\]]*\] = \{([^}]*)\}/.exec(
      made.toText({ maxConstantElements: 0 }),
    );
    const scales = text.split(',').map(Number);
    const got = await answers(made, eye);
    const half = 2 ** (bits - 1);
    for (let n = 0; n < N; n++) {
      const scaleOf = (k) => scales[Math.floor(k / blockSize) * N + n];
      const wanted = gptq(
        order.map((k) => w[k * N + n]),
        hessian,
        (at, value) => {
          const scale = scaleOf(order[at]);
          return Math.max(-half, Math.min(half - 1, Math.round(value / scale))) * scale;
        },
      );
      order.forEach((k, at) => {
        const difference = Math.abs(got[k * N + n] - wanted[at]) / scaleOf(k);
        assert.ok(difference < 1e-3, `${bits} bits, ${blockSize}: ${k}, ${n}: ${difference}`);
      });
    }
    const [layer] = made.weightLayers;
    assert.deepEqual([layer.name, layer.calibrated], ['product', true]);
    assert.ok(layer.after < 0.5 * layer.before, JSON.stringify(layer));
    made.dispose();
  }
  model.dispose();
});

test('calibration lowers the error on other samples, with every method and width', async () => {
  const model = await block();
  const calibration = samples(8);
  const feeds = rows(64, 7);
  const want = await answers(model, feeds);
  for (const bits of [2, 3, 4]) {
    for (const symmetric of [true, false]) {
      const options = { bits, symmetric, blockSize: 16 };
      const nearest = await quantizeWeights(model, options);
      const before = noise(await answers(nearest, feeds), want);
      nearest.dispose();
      for (const method of ['gptq', 'awq', 'awq_gptq']) {
        const made = await quantizeWeights(model, { ...options, calibration, method });
        const after = noise(await answers(made, feeds), want);
        assert.ok(after < 0.8 * before, `W${bits} ${method} ${symmetric}: ${before} -> ${after}`);
        // On the samples no method does worse than rounding to nearest, which each may choose.
        const sums = made.weightLayers.reduce(
          (all, layer) => [all[0] + layer.before, all[1] + layer.after],
          [0, 0],
        );
        assert.ok(sums[1] <= sums[0], `W${bits} ${method} ${symmetric}: ${sums}`);
        assert.deepEqual(
          made.weightLayers.map(({ name }) => name),
          ['gate', 'up', 'down'],
        );
        made.dispose();
      }
    }
  }
  model.dispose();
});

test('factors of channels are in constants, layers or a Mul, and change nothing else', async () => {
  const calibration = samples(8);
  const folded = await block();
  const made = await quantizeWeights(folded, { bits: 8, calibration, method: 'awq' });
  const places = made.weightLayers.map(({ detail }) => /in a (\w+)/.exec(detail)?.[1]);
  assert.deepEqual(places.slice(0, 2), ['constant', 'constant']);
  assert.ok([undefined, 'layer'].includes(places[2]), made.weightLayers[2].detail);
  assert.equal(made.info.nodes.filter(({ op }) => op === 'Mul').length, 3);
  const read = await block('%other = Relu(%h) "other"\noutput %other');
  const inserted = await quantizeWeights(read, { bits: 8, calibration, method: 'awq' });
  assert.match(inserted.weightLayers[0].detail, /in a Mul/);
  const feeds = rows(16, 3);
  const want = await answers(folded, feeds);
  for (const one of [made, inserted]) assert.ok(noise(await answers(one, feeds), want) < 1e-4);
  for (const one of [folded, read, made, inserted]) one.dispose();
});

test('ONNX Runtime has the same answers from the files', async () => {
  const model = await block();
  const calibration = samples(4);
  const feeds = rows(8, 2);
  for (const [bits, format, symmetric] of [
    [4, 'qdq', true],
    [3, 'qdq', false],
    [2, 'qdq', true],
    [8, 'qdq', false],
    [4, 'matmulnbits', false],
    [2, 'matmulnbits', false],
  ]) {
    const options = { bits, format, symmetric, int8Activations: false, blockSize: 16 };
    const made = await quantizeWeights(model, { ...options, calibration, method: 'awq_gptq' });
    const own = await answers(made, feeds);
    const [theirs] = await ortOutputs(made.toOnnx(), [feeds]);
    assert.ok(noise(own, theirs) < 1e-9, `${bits} bits, ${format}`);
    made.dispose();
  }
  model.dispose();
});

test('3 bits are packed without gaps by MatMulNBits', async () => {
  const model = await block();
  const feeds = rows(8, 2);
  const calibration = samples(4);
  const options = { bits: 3, symmetric: false, calibration, int8Activations: false };
  const qdq = await quantizeWeights(model, options);
  const packed = await quantizeWeights(model, { ...options, format: 'matmulnbits' });
  assert.ok(noise(await answers(packed, feeds), await answers(qdq, feeds)) < 1e-9);
  const text = packed.toText();
  assert.match(text, /%wg_q: uint8\[64, 2, 12\]/);
  for (const one of [model, qdq, packed]) one.dispose();
});

test('progress, abortion and bad samples', async () => {
  const model = await block();
  const steps = [];
  const onProgress = ({ phase, done, total }) => steps.push(`${phase} ${done}/${total}`);
  const made = await quantizeWeights(model, { calibration: samples(2), onProgress });
  assert.deepEqual(steps.slice(0, 4), [
    'calibrate 0/2',
    'calibrate 1/2',
    'calibrate 2/2',
    'round 1/3',
  ]);
  const again = await quantizeWeights(model, { calibration: samples(3), maxSamples: 2 });
  assert.deepEqual(again.toOnnx(), made.toOnnx());
  const refused = (options, code, more) =>
    assert.rejects(quantizeWeights(model, options), isError(code, more));
  const aborted = AbortSignal.abort();
  await refused({ calibration: samples(2), signal: aborted }, 'ABORTED');
  await refused({ calibration: [] }, 'INVALID_ARGUMENT', { value: 'options.calibration' });
  await refused({ method: 'gptq' }, 'INVALID_ARGUMENT', { value: 'options.method' });
  await refused({ bits: 5, calibration: samples(1) }, 'INVALID_ARGUMENT');
  const bad = rows(2, 1);
  bad.x.data[0] = NaN;
  await refused({ calibration: [bad] }, 'INVALID_ARGUMENT', { value: 'h' });
  await refused({ calibration: [{ z: bad.x }] }, 'INVALID_ARGUMENT');
  for (const one of [model, made, again]) one.dispose();
});

test('without samples: progress and abortion', async () => {
  const model = await block();
  const steps = [];
  const onProgress = ({ phase, done, total }) => steps.push(`${phase} ${done}/${total}`);
  const made = await quantizeWeights(model, { onProgress });
  assert.deepEqual(steps, ['round 1/3', 'round 2/3', 'round 3/3', 'round 3/3']);
  made.dispose();
  const { liveBytes } = await engineInfo();
  await assert.rejects(
    quantizeWeights(model, {
      onProgress() {
        throw new Error('of the caller');
      },
    }),
    /of the caller/,
  );
  await assert.rejects(quantizeWeights(model, { signal: AbortSignal.abort() }), isError('ABORTED'));
  assert.equal((await engineInfo()).liveBytes, liveBytes);
  model.dispose();
});

test('a worker calibrates as the page does', async () => {
  const worker = await createWorker();
  try {
    const page = await block();
    const model = await worker.parseModel(page.toText({ maxConstantElements: 0 }));
    const options = { bits: 3, calibration: samples(2), method: 'awq_gptq' };
    const here = await quantizeWeights(page, options);
    const there = await worker.quantizeWeights(model, options);
    assert.deepEqual(await there.toOnnx(), here.toOnnx());
    assert.deepEqual(there.weightLayers, here.weightLayers);
    here.dispose();
    page.dispose();
  } finally {
    await worker.terminate();
  }
});

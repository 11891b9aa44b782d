// Saved plans: the same results without the model, and a typed error for damaged or unsuitable ones.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  Tensor,
  createWorker,
  engineInfo,
  env,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { PROGRAM, constant, programFeeds } from './program_model.mjs';
import { MODEL, calibration, testImages } from './support.mjs';

const samples = testImages(4);
const model = await loadModel(MODEL);
const quantized = await quantize(model, { calibration: calibration(4) });
after(() => {
  quantized.dispose();
  model.dispose();
});

async function outputsOf(session, feeds = samples) {
  const all = [];
  for (const one of feeds) {
    for (const { type, dims, data } of Object.values(await session.run(one))) {
      all.push({ type, dims: [...dims], data });
    }
  }
  return all;
}

/** Loads the plan of a session of `source` in a session: both must give the same. */
async function checkRoundTrip(source, options, feeds = samples) {
  const session = await InferenceSession.create(source, options);
  const expected = await outputsOf(session, feeds);
  const bytes = session.toPlan();
  const loaded = await InferenceSession.create(bytes);
  assert.deepEqual(loaded.inputNames, session.inputNames);
  // Warnings belong to the session that was created from the model.
  const plan = session.plan();
  if (!plan?.instructions) assert.deepEqual(loaded.plan(), plan && { ...plan, warnings: [] });
  assert.deepEqual(await outputsOf(loaded, feeds), expected);
  const kernelsOf = (of) => of.plan().instructions.map(({ op, kernel }) => [op, kernel]);
  if (plan?.instructions) assert.deepEqual(kernelsOf(loaded), kernelsOf(session));
  // A loaded plan can be saved again.
  const again = await InferenceSession.create(loaded.toPlan());
  session.dispose();
  loaded.dispose();
  assert.deepEqual(await outputsOf(again, feeds), expected);
  again.dispose();
  return bytes;
}

const shapes = { image: [1, 1, 28, 28] };

test('an engine that has loaded nothing else loads the plan of every form', async () => {
  const program = `import { readFileSync } from 'node:fs';
import { InferenceSession, Tensor, env } from '${new URL('../../dist/index.js', import.meta.url)}';
env.wasm.simd = 'simd128';
const session = await InferenceSession.create(new Uint8Array(readFileSync(0)));
const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
console.log((await session.run({ image })).logits.data.join());`;
  const image = new Tensor('float32', new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const simd = env.wasm.simd;
  env.wasm.simd = 'simd128';
  const own = await loadModel(MODEL);
  const eight = await quantize(own, { calibration: calibration(4) });
  const four = await quantize(own, {
    calibration: calibration(4),
    config: { weights: { bits: 4 }, activations: { bits: 4 } },
  });
  const forms = [own, eight, four, eight.toOnnx(), eight.toOnnx({ format: 'qoperator' })];
  for (const form of forms) {
    const session = await InferenceSession.create(form);
    const { logits } = await session.run({ image });
    const arguments_ = ['--input-type=module', '--eval', program];
    const printed = execFileSync(process.execPath, arguments_, { input: session.toPlan() });
    assert.equal(String(printed).trim(), logits.data.join());
    session.dispose();
  }
  for (const model of [own, eight, four]) model.dispose();
  env.wasm.simd = simd;
});

async function checkSame(plan, expected) {
  const loaded = await InferenceSession.create(plan);
  assert.deepEqual(await outputsOf(loaded), expected);
  loaded.dispose();
}

const isInvalid = (error) => {
  assert.ok(error instanceof RequantError);
  assert.equal(error.code, 'INVALID_PLAN', String(error));
  assert.match(error.hint, /from the model again/);
  return true;
};

test('float, quantized here, QDQ and QOperator models in every arithmetic', async () => {
  await checkRoundTrip(model, {});
  await checkRoundTrip(model, { fuse: false, optimize: false });
  for (const requantize of ['fixed', 'float', 'nearest', 'gemmlowp']) {
    await checkRoundTrip(quantized, { requantize });
  }
  for (const format of ['qdq', 'qoperator']) await checkRoundTrip(quantized.toOnnx({ format }), {});
});

test('straight from a model, without a session', async () => {
  const session = await InferenceSession.create(quantized);
  const expected = await outputsOf(session);
  session.dispose();
  await checkSame(await quantized.integerModel.toPlan({ shapes }), expected);
  // Another batch size than the samples' is planned when it runs.
  await assert.rejects(quantized.integerModel.toPlan(), { code: 'UNSUPPORTED' });
  const wrong = [
    [{ shapes: { picture: [1] } }, /no input "picture"/],
    [{ shapes: { image: ['N', 1, 28, 28] } }, /shape of input "image"/],
    [{ kernels: { convolution: 'x' }, shapes }, /kernel family/],
    [{ requantize: 'exact', shapes }, /requantize/],
    [{ speed: 1 }, /speed/],
  ];
  for (const [options, message] of wrong) {
    await assert.rejects(model.toPlan(options), { code: 'INVALID_ARGUMENT', message });
  }
  await assert.rejects(model.toPlan({ shapes: { image: [1, 2, 28, 28] } }), {
    code: 'SHAPE_MISMATCH',
  });
  const float = await InferenceSession.create(model);
  await checkSame(await model.toPlan({ shapes }), await outputsOf(float));
  float.dispose();
});

test('every kernel that can be forced', async () => {
  const { kernels } = await engineInfo();
  for (const { family, name, missing } of kernels) {
    if (missing !== undefined) continue;
    for (const source of [model, quantized]) {
      await checkRoundTrip(source, { kernels: { [family]: name } }, samples.slice(0, 1));
    }
  }
});

const OPERATORS = `graph "all" opset 17
input %x: float32[1, 3, 8, 9]
${constant('w', [4, 3, 3, 3], 0.5)}
${constant('d', [4, 1, 3, 3])}
${constant('v', [4, 1, 1])}
${constant('m', [16, 5])}
const %pads: int64[8] = {0, 0, 1, 0, 0, 0, 0, 1}
const %fill: float32[] = {0.25}
const %starts: int64[1] = {4}
const %ends: int64[1] = {0}
const %axes: int64[1] = {3}
const %steps: int64[1] = {-2}
const %flat: int64[2] = {2, 16}
%c1 = Conv(%x, %w) {pads = [1, 1, 1, 1]} "conv"
%c2 = Conv(%c1, %d) {group = 4, pads = [1, 1, 1, 1]} "depthwise"
%e = Sin(%c2) "by reference"
%p1 = MaxPool(%e) {kernel_shape = [2, 2], strides = [2, 2]} "maxpool"
%p2 = AveragePool(%p1) {kernel_shape = [2, 2]} "avgpool"
%p3 = Pad(%p2, %pads, %fill) "pad"
%s = Slice(%p3, %starts, %ends, %axes, %steps) "slice"
%h = HardSigmoid(%p3) "hard"
%t = Transpose(%h) {perm = [0, 2, 1, 3]} "transpose"
%k = Concat(%h, %t) {axis = 1} "concat"
%a = Add(%p3, %v) "add"
%o = Cos(%a) "also by reference"
%g = GlobalAveragePool(%o) "global"
%f = Reshape(%s, %flat) "flat"
%y = MatMul(%f, %m) "product"
%z = Softmax(%y) {axis = -1} "softmax"
output %z
output %k
output %g
output %f
`;

test('float steps of every kind, references among them', async () => {
  const graph = await parseModel(OPERATORS);
  const data = Float32Array.from({ length: 216 }, (_, at) => Math.cos(at * 2.1));
  const feeds = [{ x: new Tensor('float32', data, [1, 3, 8, 9]) }];
  for (const optimize of [true, false]) await checkRoundTrip(graph, { optimize }, feeds);
  const session = await InferenceSession.create(graph);
  const kernels = session.plan().steps.map(({ kernel }) => kernel);
  assert.ok(kernels.filter((kernel) => kernel === 'reference').length >= 2, String(kernels));
  // This graph in 8 bits.
  const eight = await quantize(graph, { calibration: feeds });
  for (const requantize of ['fixed', 'float']) await checkRoundTrip(eight, { requantize }, feeds);
  for (const one of [session, eight, graph]) one.dispose();
});

test('a model of open shape: the plan of the shapes that ran last', async () => {
  const session = await InferenceSession.create(model);
  assert.throws(() => session.toPlan(), { code: 'UNSUPPORTED' });
  const pair = new Tensor(
    'float32',
    Float32Array.from({ length: 2 * 784 }, Math.sin),
    [2, 1, 28, 28],
  );
  const expected = await session.run({ image: pair });
  const loaded = await InferenceSession.create(session.toPlan());
  assert.deepEqual(loaded.inputMetadata[0].shape, [2, 1, 28, 28]);
  assert.deepEqual((await loaded.run({ image: pair })).logits.data, expected.logits.data);
  await assert.rejects(loaded.run(samples[0]), { code: 'SHAPE_MISMATCH' });
  session.dispose();
  loaded.dispose();
});

test('control flow and shapes that depend on data', async () => {
  const parsed = await parseModel(PROGRAM);
  const file = parsed.toOnnx();
  const runs = [true, false].flatMap((taken) => [3, 0, 1].map((n) => programFeeds(2, taken, n)));
  for (const source of [parsed, file]) {
    for (const options of [{}, { optimize: false }, { fuse: false }]) {
      const bytes = await checkRoundTrip(source, options, runs);
      const loaded = await InferenceSession.create(bytes);
      await assert.rejects(loaded.run(programFeeds(1, true, 1)), { code: 'SHAPE_MISMATCH' });
      assert.deepEqual(loaded.inputMetadata[2].shape, [2, 3, 6, 6]);
      assert.deepEqual(loaded.outputMetadata[2].shape, [2, 4, 4, 4]);
      loaded.dispose();
    }
  }
  // Saved from the model before anything ran.
  const session = await InferenceSession.create(parsed);
  const expected = await outputsOf(session, runs);
  await assert.rejects(parsed.toPlan(), { code: 'UNSUPPORTED' });
  const bytes = await parsed.toPlan({ shapes: { x: [2, 3, 6, 6] } });
  const loaded = await InferenceSession.create(bytes, { profile: true });
  assert.deepEqual(await outputsOf(loaded, runs), expected);
  assert.equal(loaded.profile().find(({ name }) => name === 'head').runs, runs.length);
  for (let at = 0; at < bytes.length; at += at < 64 ? 1 : 41) {
    const damaged = bytes.slice();
    damaged[at] ^= 1 << (at % 8);
    const wanted = at < 8 ? { code: 'INVALID_MODEL' } : isInvalid;
    await assert.rejects(InferenceSession.create(damaged), wanted, `byte ${at}`);
  }
  // 8-bit products in the branches and before them.
  const eight = await quantize(parsed, { calibration: runs });
  for (const requantize of ['fixed', 'float']) await checkRoundTrip(eight, { requantize }, runs);
  await checkRoundTrip(eight.toOnnx({ format: 'qdq' }), {}, runs);
  for (const one of [session, loaded, eight, parsed]) one.dispose();
});

test('a model with an input that chooses branches is saved for both', async () => {
  const model = await parseModel(PROGRAM.replace('If(%chosen', 'If(%c'));
  const runs = [true, false].flatMap((taken) => [3, 0].map((n) => programFeeds(2, taken, n)));
  const session = await InferenceSession.create(model);
  const loaded = await (async () => {
    await session.run(runs[0]);
    return InferenceSession.create(session.toPlan());
  })();
  // The branches are taken before planning in one, and are programs in the other.
  for (const feeds of runs) {
    const wanted = await session.run(feeds);
    for (const [name, { data, dims }] of Object.entries(await loaded.run(feeds))) {
      assert.deepEqual(dims, wanted[name].dims);
      data.forEach((value, at) => {
        const other = Number(wanted[name].data[at]);
        assert.ok(Math.abs(Number(value) - other) <= 1e-6 * Math.max(1, Math.abs(other)), name);
      });
    }
  }
});

test('damage is found wherever it is', async () => {
  const session = await InferenceSession.create(quantized);
  await session.run(samples[0]);
  const bytes = session.toPlan();
  session.dispose();
  const positions = [...Array(64).keys()];
  for (let at = 64; at < bytes.length; at += 1 + Math.floor(bytes.length / 97)) positions.push(at);
  positions.push(bytes.length - 1);
  for (const at of positions) {
    const damaged = bytes.slice();
    damaged[at] ^= 1 << (at % 8);
    // Without its signature, the file is taken for a model.
    const expected = at < 8 ? { code: 'INVALID_MODEL' } : isInvalid;
    await assert.rejects(InferenceSession.create(damaged), expected, `byte ${at}`);
  }
  for (const size of [8, 40, 64, 65, 1000, bytes.length - 64, bytes.length - 1]) {
    await assert.rejects(InferenceSession.create(bytes.subarray(0, size)), isInvalid);
  }
  const longer = new Uint8Array(bytes.length + 64);
  longer.set(bytes);
  await assert.rejects(InferenceSession.create(longer), isInvalid);
});

test('another variant of the engine refuses', async (t) => {
  const { variant } = await engineInfo();
  if (variant !== 'relaxed') return t.skip('there is only one variant here');
  const session = await InferenceSession.create(quantized);
  await session.run(samples[0]);
  const bytes = session.toPlan();
  session.dispose();
  env.wasm.simd = 'simd128';
  try {
    await assert.rejects(InferenceSession.create(bytes), (error) => {
      assert.match(error.message, /not for this engine/);
      return isInvalid(error);
    });
  } finally {
    env.wasm.simd = 'auto';
  }
});

test('options that a plan has already are refused; profile is not', async () => {
  const session = await InferenceSession.create(model);
  await session.run(samples[0]);
  const bytes = session.toPlan();
  session.dispose();
  const wrong = { requantize: 'fixed', fuse: true, optimize: false, kernels: {}, taps: [] };
  for (const [key, value] of Object.entries(wrong)) {
    await assert.rejects(InferenceSession.create(bytes, { [key]: value }), {
      code: 'INVALID_ARGUMENT',
      value: `options.${key}`,
    });
  }
  const loaded = await InferenceSession.create(bytes, { profile: true });
  await loaded.run(samples[0]);
  assert.ok(loaded.profile().every(({ runs }) => runs === 1));
  loaded.dispose();
  await assert.rejects(loadModel(bytes), { code: 'INVALID_MODEL', hint: /InferenceSession/ });
});

test('in a worker', async () => {
  const worker = await createWorker();
  try {
    const session = await worker.createSession(readFileSync(MODEL));
    const expected = await session.run(samples[0]);
    const loaded = await worker.createSession(await session.toPlan());
    assert.deepEqual((await loaded.run(samples[0])).logits.data, expected.logits.data);
    const remote = await worker.loadModel(readFileSync(MODEL));
    const planned = await worker.createSession(await remote.toPlan({ shapes }));
    assert.deepEqual((await planned.run(samples[0])).logits.data, expected.logits.data);
  } finally {
    await worker.terminate();
  }
});

test('memory goes back', async () => {
  const session = await InferenceSession.create(quantized);
  await session.run(samples[0]);
  const parsed = await parseModel(PROGRAM);
  const plans = [
    [session.toPlan(), samples[0]],
    [await parsed.toPlan({ shapes: { x: [2, 3, 6, 6] } }), programFeeds(2, true, 2)],
  ];
  session.dispose();
  parsed.dispose();
  const round = async () => {
    for (const [bytes, feeds] of plans) {
      const loaded = await InferenceSession.create(bytes);
      loaded.toPlan();
      await loaded.run(feeds);
      await loaded.release();
      await assert.rejects(InferenceSession.create(bytes.subarray(0, 100)), isInvalid);
    }
  };
  await round();
  await round();
  const { liveBytes } = await engineInfo();
  for (let at = 0; at < 10; at++) await round();
  assert.ok((await engineInfo()).liveBytes <= liveBytes);
});

// Programs written for onnxruntime-web (tests/stand_in) give the same results here when their import names this
// package, and what this package adds for them.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as ort from 'onnxruntime-web';
import standIn, { InferenceSession, RequantError, Tensor, env, loadModel } from 'requant';
import { Graph } from '../transformers/onnx_file.mjs';
import { MODEL, ROOT, calibration, testImages } from './support.mjs';

const PROGRAMS = path.join(ROOT, 'tests/stand_in');
mkdirSync(path.join(ROOT, 'build/stand_in'), { recursive: true });
const folder = mkdtempSync(path.join(ROOT, 'build/stand_in/'));
after(() => rmSync(folder, { recursive: true }));

/** A program whose only change is its import, beside the package, so that Node finds either package. */
function programFor(file, name) {
  const text = readFileSync(path.join(PROGRAMS, file), 'utf8');
  const changed = text.replace("from 'onnxruntime-web'", `from '${name}'`);
  const place = path.join(folder, `${name}_${file}`);
  writeFileSync(place, changed);
  return import(pathToFileURL(place).href);
}

function saved(name, build, opset) {
  const graph = new Graph();
  build(graph);
  const place = path.join(folder, name);
  writeFileSync(place, graph.toOnnx(opset));
  return place;
}

const assets = {
  readModel: () => readFileSync(MODEL),
  matMul: saved('matmul.onnx', (graph) => {
    const a = graph.input('a', 'float32', [3, 4]);
    const b = graph.input('b', 'float32', [4, 3]);
    graph.output(graph.op('MatMul', [a, b], {}, { outputs: ['c'] })[0], 'c', 'float32', [3, 3]);
  }),
  twoOutputs: saved('two.onnx', (graph) => {
    const x = graph.input('x', 'float32', ['n', 2]);
    const [positive] = graph.op('Relu', [x], {}, { outputs: ['positive'] });
    const [negated] = graph.op('Neg', [x], {}, { outputs: ['negated'] });
    graph.output(positive, 'positive', 'float32', ['n', 2]);
    graph.output(negated, 'negated', 'float32', ['n', 2]);
  }),
};

/** Numbers may differ in the order of sums; everything else must be equal. */
function assertAlike(ours, theirs, at) {
  if (typeof theirs === 'number') {
    assert.ok(
      Math.abs(ours - theirs) <= 1e-4 * Math.max(1, Math.abs(theirs)),
      `${at}: ${ours}, ${theirs}`,
    );
  } else if (typeof theirs === 'object' && theirs !== null) {
    assert.deepEqual(Object.keys(ours), Object.keys(theirs), at);
    for (const key of Object.keys(theirs)) assertAlike(ours[key], theirs[key], `${at}.${key}`);
  } else {
    assert.equal(ours, theirs, at);
  }
}

for (const file of readdirSync(PROGRAMS)) {
  test(`${file} on both packages`, async () => {
    const theirs = await programFor(file, 'onnxruntime-web').then(({ main }) => main(assets));
    const ours = await programFor(file, 'requant').then(({ main }) => main(assets));
    assertAlike(ours, theirs, file);
  });
}

test('the default export has the names of onnxruntime-web', () => {
  assert.equal(standIn.InferenceSession, InferenceSession);
  assert.equal(standIn.Tensor, Tensor);
  assert.equal(standIn.env, env);
  assert.deepEqual(Object.keys(env.versions), ['common', 'requant']);
  const { version } = JSON.parse(
    readFileSync(path.join(ROOT, 'node_modules/onnxruntime-common/package.json'), 'utf8'),
  );
  assert.equal(env.versions.common, version);
});

const refused = (code, value) => (error) =>
  error instanceof RequantError && error.code === code && error.value === value;

test('tensors of other classes are feeds and fetches everywhere', async () => {
  const session = await InferenceSession.create(MODEL);
  const [feeds] = testImages(1);
  const { logits: wanted } = await session.run(feeds);
  const { data, dims } = feeds.image;
  const forms = {
    theirs: new ort.Tensor('float32', data, dims),
    plain: { type: 'float32', data, dims },
    array: { type: 'float32', data: Array.from(data), dims },
    pinned: ort.Tensor.fromPinnedBuffer('float32', data, dims),
  };
  for (const [form, image] of Object.entries(forms)) {
    const { logits } = await session.run({ image });
    assert.deepEqual(logits.data, wanted.data, form);
    const target = new ort.Tensor('float32', new Float32Array(10), [1, 10]);
    const bound = session.bind({ image }, { logits: target });
    bound.run();
    assert.equal(bound.outputs.logits, target);
    assert.deepEqual(target.data, wanted.data, form);
    bound.dispose();
  }
  const model = await loadModel(MODEL);
  const { quantize } = await import('requant');
  const ours = await quantize(model, { calibration: calibration(4) });
  const samples = calibration(4).map(({ image }) => ({
    image: new ort.Tensor('float32', image.data, image.dims),
  }));
  const theirs = await quantize(model, { calibration: samples });
  assert.deepEqual(theirs.toOnnx(), ours.toOnnx());
});

test('tensors without data in memory, of wrong sizes and of no type are refused by name', async () => {
  const session = await InferenceSession.create(MODEL);
  const gpu = ort.Tensor.fromGpuBuffer({}, { dataType: 'float32', dims: [1, 1, 28, 28] });
  await assert.rejects(session.run({ image: gpu }), refused('UNSUPPORTED', 'image'));
  const data = new Float32Array(784);
  const short = { type: 'float32', data, dims: [1, 1, 28, 27] };
  await assert.rejects(session.run({ image: short }), refused('SHAPE_MISMATCH', 'image'));
  const odd = { type: 'float32x', data, dims: [1, 1, 28, 28] };
  await assert.rejects(session.run({ image: odd }), refused('INVALID_ARGUMENT', 'image'));
  for (const image of [null, 5, {}, { data, dims: [784] }]) {
    await assert.rejects(session.run({ image }), refused('INVALID_ARGUMENT', 'image'));
  }
  // Programs such as transformers.js set the dims of tensors that they have.
  const changed = new Tensor('float32', data, [784]);
  changed.dims = [1, 1, 28, 28];
  assert.deepEqual((await session.run({ image: changed })).logits.dims, [1, 10]);
  changed.dims = [1, 1, 280, 28];
  await assert.rejects(session.run({ image: changed }), refused('SHAPE_MISMATCH', 'image'));
});

test('outputs are tensors for onnxruntime-web', async () => {
  const session = await InferenceSession.create(assets.twoOutputs);
  const x = new Tensor('float32', [1, -2], [1, 2]);
  const { negated } = await session.run({ x });
  assert.equal(negated.location, 'cpu');
  assert.deepEqual(negated.reshape([2, 1]).dims, [2, 1]);
  const theirs = await ort.InferenceSession.create(readFileSync(assets.twoOutputs));
  const fed = new ort.Tensor(negated.type, await negated.getData(true), negated.dims);
  assert.deepEqual([...(await theirs.run({ x: fed })).positive.data], [0, 2]);
});

test('freeDimensionOverrides makes shapes known before the first run', async () => {
  const options = { freeDimensionOverrides: { N: 2, unknown: 1 }, logSeverityLevel: 3 };
  const session = await InferenceSession.create(MODEL, options);
  assert.deepEqual(session.inputMetadata[0].shape, [2, 1, 28, 28]);
  assert.deepEqual(session.outputMetadata[0].shape, [2, 10]);
  assert.ok(session.plan().steps.length > 0);
  const plan = await InferenceSession.create(session.toPlan());
  assert.deepEqual(plan.inputMetadata[0].shape, [2, 1, 28, 28]);
  for (const N of [-1, 1.5, '2']) {
    await assert.rejects(
      InferenceSession.create(MODEL, { freeDimensionOverrides: { N } }),
      refused('INVALID_ARGUMENT', 'options.freeDimensionOverrides.N'),
    );
  }
  await assert.rejects(
    InferenceSession.create(session.toPlan(), { freeDimensionOverrides: { N: 2 } }),
    refused('INVALID_ARGUMENT', 'options.freeDimensionOverrides'),
  );
});

test('profiling between startProfiling() and endProfiling()', async () => {
  const prefix = path.join(folder, 'profile');
  const options = { enableProfiling: true, profileFilePrefix: prefix };
  const session = await InferenceSession.create(MODEL, options);
  const [feeds] = testImages(1);
  const runs = async () => {
    const { traceEvents } = await session.endProfiling();
    return new Set(traceEvents.filter(({ ph }) => ph === 'X').map(({ args }) => args.runs));
  };
  await session.run(feeds);
  await session.run(feeds);
  assert.deepEqual(await runs(), new Set([2]));
  session.startProfiling();
  await session.run(feeds);
  assert.deepEqual(await runs(), new Set([1]));
  const files = readdirSync(folder).filter((name) => /^profile_.*\.json$/.test(name));
  assert.equal(files.length, 2);
  const { traceEvents } = JSON.parse(readFileSync(path.join(folder, files[0]), 'utf8'));
  assert.ok(traceEvents.length > 5);
});

test('warnings come once, and not where only errors are wanted', async (t) => {
  const warnings = [];
  t.mock.method(console, 'warn', (text) => warnings.push(String(text)));
  const create = (executionProviders, more) =>
    InferenceSession.create(MODEL, { executionProviders, ...more });
  await create(['quiet', 'wasm'], { logSeverityLevel: 3 });
  env.logLevel = 'error';
  await create(['silent', 'wasm']);
  env.logLevel = 'warning';
  assert.deepEqual(warnings, []);
  for (let times = 0; times < 2; times++)
    await create([{ name: 'first' }, 'second', 'cpu', 'third']);
  assert.deepEqual(
    warnings.map((text) => /provider (\w+)/.exec(text)?.[1]),
    ['first', 'second'],
  );
  await create(['wasm'], { preferredOutputLocation: { logits: 'gpu-buffer' } });
  assert.match(warnings.at(-1), /gpu-buffer/);
  const { wasmPaths } = env.wasm;
  env.wasm.wasmPaths = 'https://cdn.invalid/npm/onnxruntime-web@1.30.0/dist/';
  await InferenceSession.create(MODEL);
  env.wasm.wasmPaths = wasmPaths;
});

test('env.debug writes what sessions are made of', async (t) => {
  const lines = [];
  t.mock.method(console, 'debug', (text) => lines.push(text));
  await InferenceSession.create(MODEL);
  assert.deepEqual(lines, []);
  env.debug = true;
  await InferenceSession.create(MODEL);
  env.debug = false;
  assert.match(lines.join('\n'), /made a session in [\d.]+ ms/);
});

test('optimizedModelFilePath saves a model that runs', async () => {
  const place = path.join(folder, 'optimized.onnx');
  const session = await InferenceSession.create(MODEL, { optimizedModelFilePath: place });
  const again = await InferenceSession.create(place);
  const [feeds] = testImages(1);
  assert.deepEqual((await again.run(feeds)).logits.dims, (await session.run(feeds)).logits.dims);
});

test('env.wasm.proxy: sessions of files live in a Worker', async () => {
  const [feeds] = testImages(1);
  const local = await InferenceSession.create(MODEL);
  env.wasm.proxy = true;
  try {
    const options = { enableProfiling: true, executionProviders: ['wasm'], taps: [] };
    const session = await InferenceSession.create(readFileSync(MODEL), options);
    assert.ok(session instanceof InferenceSession);
    assert.deepEqual(session.inputMetadata, local.inputMetadata);
    const target = new ort.Tensor('float32', new Float32Array(10), [1, 10]);
    const { logits } = await session.run(feeds, { logits: target });
    assert.equal(logits, target);
    assert.deepEqual(target.data, (await local.run(feeds)).logits.data);
    assert.equal(feeds.image.data.length, 784); // a copy was sent
    assert.ok((await session.endProfiling()).traceEvents.length > 5);
    for (const method of ['plan', 'profile', 'toPlan']) {
      assert.throws(() => session[method](), refused('UNSUPPORTED', 'env.wasm.proxy'));
    }
    assert.throws(() => session.bind(feeds), refused('UNSUPPORTED', 'env.wasm.proxy'));
    await assert.rejects(session.run({}), (error) => error.code === 'INVALID_ARGUMENT');
    const controller = new AbortController();
    controller.abort();
    await assert.rejects(session.run(feeds, { signal: controller.signal }), { code: 'ABORTED' });
    await session.release();
    await assert.rejects(session.run(feeds), { code: 'DISPOSED' });
    const quantized = await InferenceSession.create(MODEL, {
      quantize: { calibration: calibration(4).values() },
    });
    const here = await InferenceSession.create(await loadModel(MODEL), {
      quantize: { calibration: calibration(4) },
    });
    assert.deepEqual((await quantized.run(feeds)).logits, (await here.run(feeds)).logits);
    assert.ok(here.plan().steps.length > 0); // of a model in memory: on this thread
  } finally {
    env.wasm.proxy = false;
  }
  assert.ok((await InferenceSession.create(MODEL)).plan);
});

test('env.wasm.initTimeout', async () => {
  env.wasm.initTimeout = -1;
  env.wasm.simd = 'simd128'; // an engine that is not loaded yet
  await assert.rejects(
    InferenceSession.create(MODEL),
    refused('INVALID_ARGUMENT', 'env.wasm.initTimeout'),
  );
  env.wasm.initTimeout = 0.001;
  await assert.rejects(
    InferenceSession.create(MODEL),
    refused('LOAD_FAILED', 'env.wasm.initTimeout'),
  );
  env.wasm.initTimeout = 60_000;
  await InferenceSession.create(MODEL);
  env.wasm.initTimeout = 0;
  env.wasm.simd = 'auto';
});

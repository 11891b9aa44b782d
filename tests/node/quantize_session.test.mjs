// The option `quantize` of sessions, and the store that keeps what it makes.

import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  Tensor,
  createWorker,
  loadModel,
  quantize,
  quantizeDynamic,
  quantizeWeights,
} from 'requant';
import { Layers, Weights } from '../transformers/layers.mjs';
import { MODEL, calibration, ortSession, testImages } from './support.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-quantize-'));
after(() => rmSync(folder, { recursive: true }));
let stores = 0;
const newStore = () => path.join(folder, `store${stores++}.onnx`);

/** The graph of two linear layers. */
function perceptronGraph(seed) {
  const net = new Layers(new Weights(seed), 'fp32');
  const x = net.floatInput('x', ['n', 64]);
  const hidden = net.op('Relu', [net.linear(x, 'first', 64, 96)]);
  net.floatOutput(net.linear(hidden, 'second', 96, 8), 'y', ['n', 8]);
  return net.graph;
}

const perceptron = (seed) => perceptronGraph(seed).toOnnx();

const x = new Tensor(
  'float32',
  Float32Array.from({ length: 128 }, (_, i) => Math.sin(i)),
  [2, 64],
);
const network = perceptron(1);

async function answer(source, options, feeds = { x }) {
  const session = await InferenceSession.create(source, { logSeverityLevel: 3, ...options });
  try {
    return Object.values(await session.run(feeds))[0].data;
  } finally {
    await session.release();
  }
}

const refused = (code, value) => (error) =>
  error instanceof RequantError && error.code === code && error.value === value;

test("'dynamic' and 'q4' are what quantizeDynamic() and quantizeWeights() make", async () => {
  const float = await answer(network);
  const ways = {
    dynamic: (model) => quantizeDynamic(model),
    q4: (model) => quantizeWeights(model, { bits: 4, format: 'matmulnbits' }),
  };
  for (const [how, make] of Object.entries(ways)) {
    const model = await loadModel(network);
    const wanted = await answer(await make(model));
    assert.deepEqual(await answer(network, { quantize: how }), wanted);
    assert.deepEqual(await answer(model, { quantize: how }), wanted); // the model stays float
    assert.deepEqual(await answer(model), float);
    assert.notDeepEqual(wanted, float);
  }
});

test('with samples it is what quantize() makes, and in every store the same bits', async () => {
  const [feeds] = testImages(1);
  const samples = calibration(16);
  const config = { weights: { bits: 4 } };
  for (const options of [{}, { config }, { maxSamples: 3 }]) {
    const quantized = await quantize(await loadModel(MODEL), { calibration: samples, ...options });
    const wanted = await answer(quantized, {}, feeds);
    const how = { calibration: samples, ...options };
    assert.deepEqual(await answer(MODEL, { quantize: how }, feeds), wanted);
    const cache = newStore();
    for (let visit = 0; visit < 2; visit++) {
      assert.deepEqual(
        await answer(MODEL, { quantize: how, cache }, feeds),
        wanted,
        `visit ${visit}`,
      );
    }
    const generator = () => samples.values();
    const asGenerator = { quantize: { ...how, calibration: generator() } };
    assert.deepEqual(await answer(MODEL, asGenerator, feeds), wanted);
  }
});

test('the store is used for the same file and options, and only then', async () => {
  const cache = newStore();
  const create = (source, quantized) => answer(source, { quantize: quantized, cache });
  const first = await create(network, 'q4');
  const { mtimeMs } = statSync(cache);
  assert.deepEqual(await create(network, 'q4'), first);
  assert.equal(statSync(cache).mtimeMs, mtimeMs);
  // The stored file is a model like any other.
  assert.deepEqual(await answer(cache), first);
  const theirs = await ortSession(readFileSync(cache));
  assert.deepEqual(theirs.outputNames, ['y']);

  const other = await create(perceptron(2), 'q4');
  assert.notDeepEqual(other, first);
  assert.deepEqual(await create(network, 'q4'), first);
  assert.notDeepEqual(await create(network, 'dynamic'), first);
  assert.deepEqual(await create(network, 'q4'), first);
  const bytes = readFileSync(cache);
  for (const damage of [bytes.subarray(0, 100), Buffer.alloc(0), Buffer.from('text')]) {
    writeFileSync(cache, damage);
    assert.deepEqual(await create(network, 'q4'), first);
  }
  assert.deepEqual(readFileSync(cache), bytes);

  // Samples of an array are compared.
  const images = testImages(2);
  const store = newStore();
  const withSamples = (samples) =>
    answer(MODEL, { quantize: { calibration: samples }, cache: store }, images[1]);
  const few = await withSamples(calibration(1));
  const many = await withSamples(calibration(8));
  assert.notDeepEqual(few, many);
});

test('weights in another file are part of what is compared', async () => {
  const places = [1, 2].map((seed) => {
    const { model, data } = perceptronGraph(seed).toExternal('weights.bin');
    const place = mkdtempSync(path.join(folder, 'external-'));
    writeFileSync(path.join(place, 'weights.bin'), data);
    writeFileSync(path.join(place, 'model.onnx'), model);
    return path.join(place, 'model.onnx');
  });
  assert.deepEqual(...places.map((place) => readFileSync(place)));
  const cache = newStore();
  const answers = [];
  for (const place of [places[0], places[1], places[0]]) {
    answers.push(await answer(place, { quantize: 'dynamic', cache }));
  }
  assert.notDeepEqual(answers[0], answers[1]);
  assert.deepEqual(answers[0], answers[2]);
});

test('bad values are refused before anything is loaded', async () => {
  const create = (options) => InferenceSession.create('absent.onnx', options);
  const bad = [
    [{ quantize: 'q5' }, 'options.quantize'],
    [{ quantize: 4 }, 'options.quantize'],
    [{ quantize: {} }, 'options.quantize.calibration'],
    [{ quantize: { calibration: [], bits: 8 } }, 'options.quantize.bits'],
    [{ quantize: 'q4', cache: 5 }, 'options.cache'],
    [{ cache: 'store' }, 'options.cache'],
  ];
  for (const [options, value] of bad) {
    await assert.rejects(
      create(options),
      refused('INVALID_ARGUMENT', value),
      JSON.stringify(options),
    );
  }
  const quantized = await (
    await quantize(await loadModel(MODEL), { calibration: calibration(2) })
  ).toOnnx();
  await assert.rejects(
    InferenceSession.create(quantized, { quantize: { calibration: calibration(2) } }),
    RequantError,
  );
  const nowhere = path.join(folder, 'no', 'such', 'folder.onnx');
  await assert.rejects(
    InferenceSession.create(network, { quantize: 'q4', cache: nowhere }),
    (error) => error.code === 'SAVE_FAILED',
  );
  assert.ok(!existsSync(nowhere));
});

test('in a worker, samples are sent one at a time', async () => {
  const [feeds] = testImages(1);
  const wanted = await answer(MODEL, { quantize: { calibration: calibration(5) } }, feeds);
  const worker = await createWorker();
  const source = path.join(folder, 'model.onnx');
  copyFileSync(MODEL, source);
  let pulled = 0;
  async function* samples() {
    for (const sample of calibration(5)) {
      pulled += 1;
      yield sample;
    }
  }
  const session = await worker.createSession(source, { quantize: { calibration: samples() } });
  assert.equal(pulled, 5);
  assert.deepEqual((await session.run(feeds)).logits.data, wanted);
  const dynamic = await worker.createSession(network, { quantize: 'dynamic', logSeverityLevel: 3 });
  assert.deepEqual(
    (await dynamic.run({ x })).y.data,
    await answer(network, { quantize: 'dynamic' }),
  );
  await worker.terminate();
});

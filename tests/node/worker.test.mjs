// The engine in a Worker.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import {
  InferenceSession,
  Tensor,
  compare,
  createWorker,
  env,
  generateC,
  loadModel,
  nodeDetails,
  quantize,
  quantizeDynamic,
  quantizeWeights,
} from '../../dist/index.js';
import { MODEL, calibration, isError, outputsOf, testImages } from './support.mjs';

describe('worker', () => {
  test('does everything in another thread', async () => {
    const worker = await createWorker();
    const images = testImages(20);
    const page = await loadModel(MODEL);
    const pageSession = await InferenceSession.create(page);
    const progress = [];
    const model = await worker.loadModel(MODEL, { onProgress: (step) => progress.push(step) });
    assert.equal(progress.at(-1).phase, 'parse');
    assert.match(await model.summary(), /11 Conv/);
    assert.equal((await model.info()).inputs[0].name, 'image');

    const session = await worker.createSession(model);
    assert.deepEqual(session.inputNames, ['image']);
    const { logits } = await session.run(images[0]);
    assert.ok(logits instanceof Tensor);
    // Both engines give the same bits.
    assert.deepEqual(logits.data, (await pageSession.run(images[0])).logits.data);
    assert.equal(images[0].image.data.length, 784);
    assert.ok((await session.plan()).steps.length > 10);

    const steps = [];
    const quantized = await worker.quantize(model, {
      calibration: calibration(16),
      onProgress: (step) => steps.push(step),
    });
    assert.deepEqual(steps[1], { phase: 'calibrate', done: 1, total: 16 });
    assert.ok(quantized.config.operators.length > 10);
    const pageQuantized = await quantize(page, { calibration: calibration(16) });
    assert.deepEqual(quantized.config, pageQuantized.config);
    assert.deepEqual(await quantized.toOnnx(), pageQuantized.toOnnx());
    const integers = await worker.createSession(quantized);
    const pageIntegers = await InferenceSession.create(pageQuantized);
    assert.deepEqual(await outputsOf(integers, images), await outputsOf(pageIntegers, images));
    const dataset = images.map((feeds) => ({ feeds }));
    const { latency, ...report } = await worker.compare(model, quantized, { dataset });
    const pageReport = await compare(page, pageQuantized, { dataset });
    assert.deepEqual({ ...report, latency: null }, { ...pageReport, latency: null });
    assert.ok(latency.floatMs > 0 && latency.candidateMs > 0);

    const nodes = await model.nodeDetails();
    assert.deepEqual(nodes, await nodeDetails(page));
    assert.deepEqual(nodes[0].attributes.strides, [1, 1]);
    assert.equal(nodes[0].inputValues[1].constant, true);
    const shapes = { image: [1, 1, 28, 28] };
    const inC = await worker.generateC(quantized, { shapes });
    assert.equal(inC.source, (await generateC(pageQuantized, { shapes })).source);
    const small = await worker.quantizeWeights(model, { bits: 8 });
    const pageSmall = await quantizeWeights(page, { bits: 8 });
    assert.deepEqual(await small.toOnnx(), pageSmall.toOnnx());
    assert.deepEqual(small.floatOperators, pageSmall.floatOperators);
    assert.deepEqual(small.warnings, pageSmall.warnings);
    const dynamic = await worker.quantizeDynamic(model);
    assert.deepEqual(await dynamic.toOnnx(), (await quantizeDynamic(page)).toOnnx());

    await session.release();
    await assert.rejects(session.run(images[0]), isError('DISPOSED'));
    await assert.rejects(worker.loadModel(Uint8Array.of(1, 2, 3)), isError('INVALID_MODEL'));
    const response = Promise.resolve(new Response(Uint8Array.of(1, 2, 3)));
    await assert.rejects(worker.loadModel(response), isError('INVALID_MODEL'));
    await quantized.dispose();
    await model.dispose();
    await worker.terminate();
    await assert.rejects(worker.engineInfo(), isError('DISPOSED'));
  });

  test('is ended when it cannot be set up', async (t) => {
    const terminate = t.mock.method(Worker.prototype, 'terminate');
    t.after(() => delete env.wasm.toolsBinary);
    env.wasm.toolsBinary = () => {}; // cannot be sent to a Worker
    await assert.rejects(createWorker(), isError('INVALID_ARGUMENT'));
    assert.equal(terminate.mock.callCount(), 1);
  });

  test('is interrupted by a signal, and passes on errors of the samples', async () => {
    const worker = await createWorker();
    const model = await worker.loadModel(MODEL);
    const controller = new AbortController();
    const samples = calibration(8);
    let closed = false;
    async function* endless() {
      try {
        for (;;) yield* samples;
      } finally {
        closed = true;
      }
    }
    const run = worker.quantize(model, {
      calibration: endless(),
      signal: controller.signal,
      onProgress: ({ done }) => done === 3 && controller.abort('why not'),
    });
    await assert.rejects(run, (error) => {
      assert.ok(isError('ABORTED')(error));
      return error.cause === 'why not';
    });
    const trouble = new Error('no more disk');
    async function* failing() {
      yield samples[0];
      throw trouble;
    }
    await assert.rejects(
      worker.quantize(model, { calibration: failing() }),
      (error) => error === trouble,
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(closed);
    assert.match(await model.toText(), /^graph /);
    const pending = assert.rejects(model.toOnnx(), isError('DISPOSED'));
    await worker.terminate();
    await pending;
  });

  test('tunes, with progress and until a signal', async () => {
    const worker = await createWorker();
    const model = await worker.loadModel(MODEL);
    const [feeds] = testImages(1);
    const seen = [];
    const onProgress = ({ done, total }) => seen.push(done / total);
    const { steps, tuning } = await worker.tune(model, { feeds, budget: 100, onProgress });
    assert.ok(steps.length >= 3 && seen.length > 2 && seen.at(-1) === 1);
    const session = await worker.createSession(model, { tuning });
    await session.run(feeds);
    const used = (await session.plan()).steps.map(({ kernel }) => kernel);
    for (const { kernel } of steps) assert.ok(used.includes(kernel), kernel);
    const controller = new AbortController();
    const endless = worker.tune(model, {
      feeds,
      budget: 1e6,
      signal: controller.signal,
      onProgress: () => controller.abort('enough'),
    });
    await assert.rejects(endless, (error) => isError('ABORTED')(error) && error.cause === 'enough');
    await worker.terminate();
  });

  test('a progress callback that throws fails its call, and nothing else', async () => {
    const worker = await createWorker();
    const model = await worker.loadModel(MODEL);
    const trouble = new Error('no such element');
    const onProgress = () => {
      throw trouble;
    };
    const run = worker.quantize(model, { calibration: calibration(64), onProgress });
    await assert.rejects(run, (error) => error === trouble);
    const [feeds] = testImages(1);
    const endless = worker.tune(model, { feeds, budget: 1e6, onProgress });
    await assert.rejects(endless, (error) => error === trouble);
    assert.match(await model.summary(), /11 Conv/); // the tuning has ended
    await worker.terminate();
  });

  test('a signal fails a call at once, also while the worker is busy, and nothing is left of it', async () => {
    const worker = await createWorker();
    const model = await worker.loadModel(MODEL);
    const plan = await model.toPlan({ shapes: { image: [1, 1, 28, 28] } });
    const before = (await worker.engineInfo()).liveBytes;
    const session = await worker.createSession(model);
    const busy = { image: new Tensor('float32', new Float32Array(4000 * 784), [4000, 1, 28, 28]) };
    const running = session.run(busy);
    const controller = new AbortController();
    const { signal } = controller;
    const order = [];
    const creating = worker.createSession(plan, { signal });
    const loading = worker.loadModel(MODEL, { signal });
    const aborted = assert.rejects(
      loading.finally(() => order.push('aborted')),
      (error) => isError('ABORTED')(error) && error.cause === 'enough',
    );
    setTimeout(() => controller.abort('enough'), 20);
    await assert.rejects(creating, isError('ABORTED'));
    await Promise.all([aborted, running.then(() => order.push('ran'))]);
    assert.deepEqual(order, ['aborted', 'ran']);
    await session.release();
    await model.summary();
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await worker.engineInfo()).liveBytes, before);
    await worker.terminate();
  });

  test('its objects have the methods and checks of those of the page', async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'requant-worker-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const worker = await createWorker();
    const model = await worker.loadModel(MODEL);
    const tap = (await model.info()).nodes[0].outputs[0];
    const session = await worker.createSession(model, { taps: [tap], optimize: false });
    const [feeds] = testImages(1);
    const all = await session.run(feeds);
    assert.deepEqual(await session.run(feeds, { signal: AbortSignal.timeout(1e4) }), all);
    assert.deepEqual(Object.keys(await session.run(feeds, { [tap]: null })), [tap]);
    const logits = new Tensor('float32', new Float32Array(10), [1, 10]);
    assert.equal((await session.run(feeds, { logits })).logits, logits);
    assert.deepEqual(logits.data, all.logits.data);
    const small = new Tensor('float32', new Float32Array(9), [1, 9]);
    await assert.rejects(session.run(feeds, { logits: small }), isError('SHAPE_MISMATCH'));
    const refused = (value) => isError('INVALID_ARGUMENT', { value });
    await assert.rejects(session.run(feeds, { logits: 5 }), refused('logits'));
    await assert.rejects(session.run(feeds, ['logits'], { foo: 1 }), refused('options.foo'));
    await assert.rejects(worker.quantize(model), refused('options'));
    await assert.rejects(worker.compare(model, model), refused('options'));
    await assert.rejects(worker.tune(model), refused('options'));
    await assert.rejects(worker.loadModel(MODEL, null), refused('options'));
    await assert.rejects(worker.loadModel(MODEL, { onProgress: 5 }), refused('options.onProgress'));

    const quantized = await worker.quantize(model, { calibration: calibration(4) });
    const saved = path.join(folder, 'saved.onnx');
    await quantized.save(saved, { format: 'qoperator' });
    const bytes = await quantized.toOnnx({ format: 'qoperator' });
    assert.deepEqual(new Uint8Array(readFileSync(saved)), bytes);
    const copy = await model.clone();
    await model.dispose();
    await copy.save(saved);
    assert.deepEqual(new Uint8Array(readFileSync(saved)), await copy.toOnnx());
    const integers = await quantized.integerModel();
    assert.ok((await integers.info()).quantized);
    await integers.dispose();
    const still = await worker.createSession(quantized);
    assert.equal((await still.run(feeds)).logits.data.length, 10);
    const floats = await quantized.floatModel();
    assert.equal((await floats.info()).quantized, false);
    await worker.terminate();
  });
});

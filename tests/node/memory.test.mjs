// The engine's memory returns to its previous size.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import {
  InferenceSession,
  Tensor,
  compare,
  createWorker,
  engineInfo,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { MODEL, calibration, testImages } from './support.mjs';

const modelBytes = readFileSync(MODEL);
const [image] = testImages(1);

async function liveBytes() {
  return (await engineInfo()).liveBytes;
}

/** Repeats an action; after the first rounds, which fill caches, no memory may remain allocated. */
async function returnsItsMemory(action, rounds) {
  await action();
  await action();
  const before = await liveBytes();
  for (let i = 0; i < rounds; i++) await action();
  const after = await liveBytes();
  assert.ok(after <= before, `${after - before} bytes more after ${rounds} rounds`);
}

test('create, run, release', async () => {
  await returnsItsMemory(async () => {
    const session = await InferenceSession.create(modelBytes, { profile: true });
    await session.run(image);
    await session.release();
  }, 50);
});

test('sessions of one model hold its packed weights once', async () => {
  const numbers = Array.from({ length: 64 * 64 * 9 }, (_, i) => (i % 251) - 125).join(', ');
  const model = await parseModel(`graph "" opset 13
input %x: float32[1, 64, 4, 4]
const %w: float32[64, 64, 3, 3] = {${numbers}}
%y = Conv(%x, %w) {pads = [1, 1, 1, 1]}
%z = Conv(%y, %w)
output %z
`);
  const first = await InferenceSession.create(model);
  const feeds = { x: new Tensor('float32', new Float32Array(1024).fill(0.5), [1, 64, 4, 4]) };
  const { z } = await first.run(feeds);
  const { arena, packedWeights } = first.plan().memory;
  assert.ok(packedWeights >= 64 * 64 * 9 * 4 && packedWeights < 2 * 64 * 64 * 9 * 4);
  const before = await liveBytes();
  const second = await InferenceSession.create(model);
  await second.run(feeds);
  // What the second session needs for itself: its arena, and the descriptions of operators and steps.
  const own = (await liveBytes()) - before - arena;
  assert.ok(own < packedWeights / 4, `${own} of ${packedWeights} bytes`);
  await first.release();
  assert.deepEqual((await second.run(feeds)).z.data, z.data);
  await second.release();
  model.dispose();
});

test('load, describe, optimize, write, dispose', async () => {
  await returnsItsMemory(async () => {
    const model = await loadModel(modelBytes);
    const clone = model.clone();
    clone.optimize({ dump: true });
    void clone.info;
    clone.toText();
    clone.toDot();
    clone.toOnnx();
    clone.dispose();
    model.dispose();
  }, 5);
});

test('quantize, run, export, compare, dispose', async () => {
  await returnsItsMemory(async () => {
    const model = await loadModel(modelBytes);
    const quantized = await quantize(model, { calibration: calibration(2) });
    const session = await InferenceSession.create(quantized);
    await session.run(image);
    quantized.toOnnx();
    quantized.toOnnx({ format: 'qoperator' });
    await compare(model, quantized, { dataset: [{ feeds: image }], layerwise: true });
    session.dispose();
    quantized.dispose();
    model.dispose();
  }, 3);
});

test('errors and aborts', async () => {
  const model = await loadModel(modelBytes);
  const session = await InferenceSession.create(model);
  const wrong = { image: new Tensor('float32', new Float32Array(4), [1, 1, 2, 2]) };
  const samples = calibration(2);
  await returnsItsMemory(async () => {
    await assert.rejects(session.run(wrong));
    await assert.rejects(session.run({ image: image.image, other: image.image }));
    await assert.rejects(loadModel(modelBytes.subarray(0, 300_000)));
    await assert.rejects(quantize(model, { calibration: [] }));
    const controller = new AbortController();
    const run = quantize(model, {
      calibration: samples,
      signal: controller.signal,
      onProgress: ({ done }) => done === 1 && controller.abort(),
    });
    await assert.rejects(run);
    await assert.rejects(InferenceSession.create(model, { taps: ['nothing'] }));
  }, 10);
  await session.release();
  model.dispose();
});

test('results are copies that later runs do not touch', async () => {
  const session = await InferenceSession.create(modelBytes);
  const [a, b] = testImages(2);
  const first = (await session.run(a)).logits.data;
  const kept = first.slice();
  await session.run(b);
  assert.deepEqual(first, kept);
  // A batch that makes the memory grow between copying in and copying out.
  const count = 512;
  const large = new Float32Array(count * 784);
  for (let i = 0; i < count; i++) large.set(i % 2 ? b.image.data : a.image.data, i * 784);
  const { logits } = await session.run({
    image: new Tensor('float32', large, [count, 1, 28, 28]),
  });
  for (const row of [0, 2, count - 2]) {
    const values = logits.data.subarray(row * 10, row * 10 + 10);
    values.forEach((value, i) => assert.ok(Math.abs(value - kept[i]) < 1e-4));
  }
  await session.release();
  assert.deepEqual(first, kept);
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

/** Collects garbage until `done` holds, or for half a second. */
async function collectUntil(done) {
  for (let i = 0; i < 50 && !(await done()); i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return done();
}

test('what was forgotten is freed after garbage collection', async () => {
  const before = await liveBytes();
  for (let i = 0; i < 5; i++) await InferenceSession.create(modelBytes);
  assert.ok((await liveBytes()) > before);
  assert.ok(await collectUntil(async () => (await liveBytes()) <= before));
});

test('so are bound runs of a session that stays, and those of one that is forgotten', async () => {
  const begin = await liveBytes();
  const session = await InferenceSession.create(modelBytes);
  const kept = session.bind(image);
  // Grow the session's list, to make room for the bound tensors.
  for (const bound of Array.from({ length: 5 }, () => session.bind(image))) bound.dispose();
  const before = await liveBytes();
  for (let i = 0; i < 5; i++) session.bind(image).run();
  assert.ok((await liveBytes()) > before);
  assert.ok(await collectUntil(async () => (await liveBytes()) <= before));
  kept.run();
  assert.deepEqual(kept.outputs.logits.data, (await session.run(image)).logits.data);
  session.dispose();
  for (let i = 0; i < 2; i++) (await InferenceSession.create(modelBytes)).bind(image).run();
  assert.ok(await collectUntil(async () => (await liveBytes()) <= begin));
});

test('and the objects of a worker, and the worker when they are gone', async (t) => {
  const terminate = t.mock.method(Worker.prototype, 'terminate');
  let worker = await createWorker();
  const live = async () => (await worker.engineInfo()).liveBytes;
  const sessions = [await worker.createSession(modelBytes)];
  await sessions[0].run(image);
  const before = await live();
  for (let i = 0; i < 3; i++) {
    await worker.createSession(await worker.loadModel(modelBytes));
  }
  assert.ok((await live()) > before);
  assert.ok(await collectUntil(async () => (await live()) <= before));
  worker = undefined;
  await collectUntil(() => false);
  assert.equal(terminate.mock.callCount(), 0);
  await sessions.pop().run(image);
  assert.ok(await collectUntil(() => terminate.mock.callCount() === 1));
});

test('a model that only a running call uses is not forgotten', async (t) => {
  const worker = await createWorker();
  const timer = setInterval(collect, 10);
  t.after(() => {
    clearInterval(timer);
    return worker.terminate();
  });
  const options = { feeds: image, budget: 300 };
  const { steps } = await worker.loadModel(modelBytes).then((model) => worker.tune(model, options));
  assert.ok(steps.length > 0);
});

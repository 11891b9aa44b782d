// Tuning changes which kernels run, never what they compute.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { InferenceSession, loadModel, mergeTunings, quantize, tune } from '../../dist/index.js';
import { MODEL, calibration, testImages } from './support.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'requant-tune-'));
const cache = path.join(folder, 'tuning.json');
let model;
let feeds;
let session;
let expected;

before(async () => {
  const float = await loadModel(MODEL);
  model = await quantize(float, { calibration: calibration(8) });
  float.dispose();
  [feeds] = testImages(1);
  session = await InferenceSession.create(model);
  expected = [...(await session.run(feeds)).logits.data];
});
after(() => {
  session.dispose();
  model.dispose();
  rmSync(folder, { recursive: true });
});

async function runWith(tuning) {
  const tuned = await InferenceSession.create(model, { tuning });
  const { logits } = await tuned.run(feeds);
  const { steps } = tuned.plan();
  tuned.dispose();
  return { logits: [...logits.data], steps };
}

test('finds a kernel for every shape with a choice, with progress, and keeps it', async () => {
  const seen = [];
  const result = await tune(model, {
    feeds,
    budget: 300,
    cache,
    onProgress: ({ done, total }) => seen.push(done / total),
  });
  const shapes = new Set(session.plan().steps.flatMap(({ tuning }) => tuning ?? []));
  assert.ok(shapes.size >= 3);
  assert.deepEqual(new Set(result.steps.map(({ tuning }) => tuning)), shapes);
  assert.ok(seen.length > 5 && seen.at(-1) === 1);
  assert.ok(result.faster >= 1);
  const { logits, steps } = await runWith(result.tuning);
  assert.deepEqual(logits, expected);
  for (const { tuning, kernel } of result.steps) {
    assert.equal(steps.find((step) => step.tuning === tuning).kernel, kernel);
  }
  assert.deepEqual(JSON.parse(readFileSync(cache, 'utf8')), result.tuning);
  const again = await tune(model, { feeds, cache });
  assert.deepEqual([again.steps, again.tuning], [[], result.tuning]);
});

test('records that are wrong, stale or of another device change nothing', async () => {
  const { tuning } = await tune(model, { feeds, budget: 50 });
  const [device] = Object.keys(tuning.devices);
  const usual = session.plan().steps.map(({ kernel }) => kernel);
  const kernelsWith = async (change) => {
    const records = Object.fromEntries(
      Object.keys(tuning.devices[device]).map((shape) => [shape, change(shape)]),
    );
    const { logits, steps } = await runWith({ version: 1, devices: { [device]: records } });
    assert.deepEqual(logits, expected);
    return steps.map(({ kernel }) => kernel);
  };
  assert.deepEqual(await kernelsWith(() => ({ kernel: 'conv_q9_turbo', faster: 99 })), usual);
  assert.deepEqual(await kernelsWith(() => ({ kernel: 'conv_f32_lines', faster: 99 })), usual);
  assert.deepEqual(await kernelsWith(() => null), usual);
  assert.deepEqual(await kernelsWith(() => ({ faster: 2 })), usual);
  const other = { version: 1, devices: { elsewhere: tuning.devices[device] } };
  assert.deepEqual((await runWith(other)).logits, expected);
  const slower = await kernelsWith((shape) => ({ kernel: `${shape.split(' ')[0]}_vector` }));
  assert.ok(slower.includes('conv_q8_vector'));
  const merged = mergeTunings(other, tuning);
  assert.deepEqual(Object.keys(merged.devices), ['elsewhere', device]);

  writeFileSync(cache, '{"version": 1, "devices": ');
  const damaged = await tune(model, { feeds, budget: 50, cache });
  assert.ok(damaged.steps.length > 0);
});

test('a record may say for how many threads', async () => {
  const float = await loadModel(MODEL, { numThreads: 2 });
  const images = testImages(1);
  const { tuning } = await tune(float, { feeds, budget: 50 });
  const [device] = Object.keys(tuning.devices);
  const threadsWith = async (threads) => {
    const records = Object.fromEntries(
      Object.entries(tuning.devices[device]).map(([shape, { kernel }]) => [
        shape,
        { kernel, faster: 1, threads },
      ]),
    );
    const options = { tuning: { version: 1, devices: { [device]: records } } };
    const limited = await InferenceSession.create(float, options);
    const { logits } = await limited.run(images[0]);
    const { steps } = limited.plan();
    limited.dispose();
    return {
      logits: [...logits.data],
      threads: steps.flatMap((step) => (step.tuning ? [step.threads] : [])),
    };
  };
  const two = await threadsWith(undefined);
  assert.ok(two.threads.includes(2));
  const one = await threadsWith(1);
  assert.deepEqual(new Set(one.threads), new Set([1]));
  assert.deepEqual(one.logits, two.logits);
  for (const wrong of [0, -1, 1.5, '1', null, 1e9]) {
    assert.deepEqual(await threadsWith(wrong), two, String(wrong));
  }
  float.dispose();
});

test('bad options and cancelling', async () => {
  const refused = (options, code) =>
    assert.rejects(tune(model, options), (error) => error.code === code);
  await refused({}, 'INVALID_ARGUMENT');
  await refused({ feeds, budget: -1 }, 'INVALID_ARGUMENT');
  await refused({ feeds, tuning: { version: 7 } }, 'INVALID_ARGUMENT');
  await refused({ feeds, speed: 1 }, 'INVALID_ARGUMENT');
  const controller = new AbortController();
  const file = path.join(folder, 'never.json');
  const aborted = tune(model, {
    feeds,
    cache: file,
    signal: controller.signal,
    onProgress: () => controller.abort(),
  });
  await assert.rejects(aborted, (error) => error.code === 'ABORTED');
  assert.ok(!existsSync(file));
  await assert.rejects(
    InferenceSession.create(model, { tuning: [] }),
    (error) => error.code === 'INVALID_ARGUMENT',
  );
});

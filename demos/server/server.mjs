// A server that names the clothes in pictures, with a pool of threads (piscina), each of which has a session.
//
//   npm install piscina && node server.mjs           (PORT, THREADS)
//   curl --data-binary @picture.bin localhost:8080/classify     28 x 28 bytes, bright clothes on black

import { once } from 'node:events';
import http from 'node:http';
import os from 'node:os';
import { Piscina } from 'piscina';
import { InferenceSession, loadModel, quantize } from 'requant';
import { BYTES, feedsOf, readPictures } from './clothes.mjs';

const { PORT = 8080, THREADS = Math.min(4, os.availableParallelism()) } = process.env;

/** The quantized network as a saved plan, which every thread loads without planning and packing anew. */
async function makePlan() {
  const model = await loadModel(new URL('../models/fashion_mnist.onnx', import.meta.url));
  const calibration = (await readPictures()).slice(0, 64).map(feedsOf);
  const session = await InferenceSession.create(await quantize(model, { calibration }));
  // The plan is for the shapes that ran last.
  await session.run(calibration[0]);
  return session.toPlan();
}

const pool = new Piscina({
  filename: new URL('./worker.mjs', import.meta.url).href,
  minThreads: Number(THREADS),
  maxThreads: Number(THREADS),
  maxQueue: 1000,
  workerData: { plan: await makePlan() },
});

/** The body of a request, which must have the bytes of one picture. */
async function pictureOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    // The server reads bodies that are too long to the end, so that the client gets an answer, but keeps none of them.
    if (size <= BYTES) chunks.push(chunk);
  }
  if (size !== BYTES) {
    throw Object.assign(new Error(`a picture has ${BYTES} bytes`), { status: 400 });
  }
  return new Uint8Array(Buffer.concat(chunks));
}

async function answer(request, response) {
  const send = (status, value) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(`${JSON.stringify(value)}\n`);
  };
  try {
    if (request.url === '/health') {
      const { threads, queueSize, completed } = pool;
      return send(200, { threads: threads.length, queue: queueSize, completed });
    }
    if (request.url !== '/classify') return send(404, { error: 'POST a picture to /classify' });
    if (request.method !== 'POST') return send(405, { error: 'POST a picture' });
    return send(200, await pool.run(await pictureOf(request)));
  } catch (error) {
    // A queue that is full throws.
    const status = error.status ?? (pool.queueSize >= 1000 ? 503 : 500);
    return send(status, { error: error.message });
  }
}

const server = http.createServer(answer).listen(Number(PORT), '127.0.0.1');
await once(server, 'listening');
console.log(`listening on http://127.0.0.1:${server.address().port}, ${THREADS} threads`);

/** Answers what has come, and ends. */
async function stop() {
  server.close();
  server.closeIdleConnections();
  await pool.close();
}
process.once('SIGTERM', stop);
process.once('SIGINT', stop);

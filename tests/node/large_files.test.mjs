// External data in files beyond 2 GB, read by ranges, and models written in two files.

import assert from 'node:assert/strict';
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openAsBlob,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { joinRanges } from '../../dist/model/byte_ranges.js';
import {
  InferenceSession,
  Tensor,
  createWorker,
  engineInfo,
  loadModel,
  parseModel,
} from '../../dist/index.js';
import { externalModel } from './external_model.mjs';
import { isError } from './support.mjs';

const GB = 2 ** 30;

describe('external data beyond 2 GB', () => {
  let folder;
  const at = (name) => path.join(folder, name);
  const offset = 5 * GB + 4;
  const feeds = { x: new Tensor('float32', [1, 2, 3]) };
  before(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    // The file has a hole, which takes no room.
    const file = openSync(at('w.bin'), 'w');
    writeSync(file, Buffer.from('data'), 0, 4, 0);
    writeSync(file, new Uint8Array(Float32Array.of(10, 20, 30).buffer), 0, 12, offset);
    ftruncateSync(file, 6 * GB);
    closeSync(file);
    writeFileSync(at('m.onnx'), externalModel('w.bin', offset));
    writeFileSync(at('short.onnx'), externalModel('w.bin', 6 * GB - 8));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('is read where it lies, and only what the model needs', async () => {
    const blob = await openAsBlob(at('w.bin'));
    // A Blob of Node ends at 2 GB, those of browsers do not.
    const readable = blob.size === 6 * GB;
    for (const [source, options] of [
      [at('m.onnx'), {}],
      ...(readable ? [[externalModel('w.bin', offset), { externalData: { 'w.bin': blob } }]] : []),
    ]) {
      const steps = [];
      const model = await loadModel(source, { ...options, onProgress: (step) => steps.push(step) });
      const session = await InferenceSession.create(model);
      assert.deepEqual((await session.run(feeds)).y.data, Float32Array.of(11, 22, 33));
      assert.deepEqual(steps.at(-1), { phase: 'weights', done: 12, total: 12 });
      session.dispose();
      model.dispose();
    }
  });

  test('that ends too early is named', async () => {
    await assert.rejects(
      loadModel(at('short.onnx')),
      isError('INVALID_MODEL', { value: 'w', message: /'w.bin' has no 12 bytes at offset/ }),
    );
  });
});

describe('external data from a server', () => {
  let server;
  let address;
  let answer;
  before(async () => {
    server = http.createServer((request, response) => answer(request, response));
    await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
    address = `http://127.0.0.1:${server.address().port}/m.onnx`;
  });
  after(() => server.close());

  const weights = new Uint8Array(Float32Array.of(10, 20, 30).buffer);

  test('arrives in pieces that end anywhere', async () => {
    const file = new Uint8Array(103);
    file.set(weights, 91);
    for (const step of [1, 5, 12, 50, 103]) {
      answer = async ({ url }, response) => {
        if (url === '/m.onnx') return response.end(externalModel('w.bin', 91));
        for (let i = 0; i < file.length; i += step) {
          response.write(file.subarray(i, i + step));
          await new Promise((sent) => setImmediate(sent));
        }
        return response.end();
      };
      const session = await InferenceSession.create(address);
      const { y } = await session.run({ x: new Tensor('float32', [0, 0, 0]) });
      assert.deepEqual(y.data, Float32Array.of(10, 20, 30), `${step}`);
      session.dispose();
    }
  });

  test('that ends too early, breaks off or is a page fails', async () => {
    const cases = [
      [(response) => response.end(weights.subarray(0, 8)), 'INVALID_MODEL', /has no 12 bytes/],
      [(response) => response.end('<!doctype html><p>404'), 'LOAD_FAILED', /web page/],
      [(response) => response.writeHead(403).end(), 'LOAD_FAILED', /403/],
      [
        (response) => {
          response.writeHead(200, { 'content-length': 12 });
          response.write(weights.subarray(0, 4));
          setTimeout(() => response.destroy(), 20);
        },
        'LOAD_FAILED',
        /w\.bin/,
      ],
    ];
    for (const [send, code, message] of cases) {
      answer = ({ url }, response) =>
        url === '/m.onnx' ? response.end(externalModel('w.bin', 0)) : send(response);
      await assert.rejects(loadModel(address), isError(code, { message }));
    }
  });

  test('can be aborted, and leaves nothing in memory', async () => {
    const model = await loadModel(externalModel('w.bin', 0), {
      externalData: { 'w.bin': weights },
    });
    const { liveBytes } = await engineInfo();
    const controller = new AbortController();
    answer = ({ url }, response) => {
      if (url === '/m.onnx') return response.end(externalModel('w.bin', 0));
      response.write(weights.subarray(0, 4));
      return setTimeout(() => controller.abort(), 20);
    };
    await assert.rejects(loadModel(address, { signal: controller.signal }), isError('ABORTED'));
    assert.equal((await engineInfo()).liveBytes, liveBytes);
    model.dispose();
  });
});

test('ranges that overlap are joined, and small ones that are close', () => {
  const join = (...pairs) =>
    joinRanges(pairs.map(([offset, size]) => ({ offset, size }))).map(({ offset, size }) => [
      offset,
      size,
    ]);
  const mb = 1 << 20;
  assert.deepEqual(join(), []);
  assert.deepEqual(join([5, 0]), []);
  assert.deepEqual(join([4096, 10], [0, 4], [8192, mb], [8192 + mb, mb]), [
    [0, 4106],
    [8192, mb],
    [8192 + mb, mb],
  ]);
  assert.deepEqual(join([0, 4], [100_000, 4]), [
    [0, 4],
    [100_000, 4],
  ]);
  assert.deepEqual(join([mb, 2 * mb], [0, 2 * mb], [mb, mb]), [[0, 3 * mb]]);
  assert.deepEqual(join([0, 2 * mb], [8, 4]), [[0, 2 * mb]]);
});

describe('a model in two files', () => {
  const text = [
    'graph "" opset 17',
    'input %x: float32[2, 64]',
    `const %w: float32[64, 40] = {${Array.from({ length: 2560 }, (_, i) => ((i * 37) % 101) / 50 - 1).join(', ')}}`,
    `const %b: float32[40] = {${Array.from({ length: 40 }, (_, i) => i / 8).join(', ')}}`,
    '%h = MatMul(%x, %w)',
    '%y = Add(%h, %b)',
    'output %y',
  ].join('\n');
  const data = Float32Array.from({ length: 128 }, (_, i) => Math.sin(i));
  const x = { x: new Tensor('float32', data, [2, 64]) };

  test('is read back, here and by ONNX Runtime', async () => {
    const model = await parseModel(text);
    const session = await InferenceSession.create(model);
    const want = (await session.run(x)).y.data;
    const { bytes, externalData } = model.toOnnxFiles('w.data');
    // The bias is too small for the second file.
    assert.deepEqual(
      Object.entries(externalData).map(([name, file]) => [name, file.length]),
      [['w.data', 64 * 40 * 4]],
    );
    assert.ok(bytes.length < 2000);
    const again = await loadModel(bytes, { externalData });
    assert.deepEqual(again.toOnnx(), model.toOnnx());
    const theirs = await ort.InferenceSession.create(bytes, {
      executionProviders: ['wasm'],
      externalData: [{ path: 'w.data', data: externalData['w.data'] }],
    });
    const { y } = await theirs.run({ x: new ort.Tensor('float32', data, [2, 64]) });
    y.data.forEach((value, i) => assert.ok(Math.abs(value - want[i]) < 1e-4));
    await theirs.release();
    again.dispose();
    session.dispose();
    model.dispose();
  });

  test('is saved beside each other, also by a Worker', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    const worker = await createWorker();
    try {
      const model = await parseModel(text);
      await model.save(path.join(folder, 'whole.onnx'));
      const remote = await worker.loadModel(path.join(folder, 'whole.onnx'));
      await model.save(path.join(folder, 'm.onnx'), { externalData: 'm.data' });
      await remote.save(path.join(folder, 'r.onnx'), { externalData: 'm2.data' });
      const read = (name) => readFileSync(path.join(folder, name));
      assert.deepEqual(readdirSync(folder).sort(), [
        ...['m.data', 'm.onnx', 'm2.data', 'r.onnx', 'whole.onnx'],
      ]);
      assert.deepEqual(read('m.data'), read('m2.data'));
      for (const name of ['m.onnx', 'r.onnx']) {
        const again = await loadModel(path.join(folder, name));
        assert.deepEqual(Buffer.from(again.toOnnx()), read('whole.onnx'));
        again.dispose();
      }
      for (const externalData of ['', 'a/b', '..', 'c:d', 'm.onnx']) {
        await assert.rejects(
          async () => model.save(path.join(folder, 'm.onnx'), { externalData }),
          isError('INVALID_ARGUMENT', { value: 'options.externalData' }),
        );
      }
      assert.throws(
        () => model.toOnnxFiles('../w'),
        isError('INVALID_ARGUMENT', { value: 'dataName' }),
      );
      model.dispose();
    } finally {
      await worker.terminate();
      rmSync(folder, { recursive: true });
    }
  });
});

// Models whose weights lie in other files.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { InferenceSession, Tensor, loadModel } from '../../dist/index.js';
import { externalModel } from './external_model.mjs';
import { isError } from './support.mjs';

describe('external data', () => {
  const weights = new Uint8Array(Float32Array.of(9, 10, 20, 30).buffer);
  const feeds = { x: new Tensor('float32', [1, 2, 3]) };

  test('is found beside the model, or given', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    try {
      writeFileSync(path.join(folder, 'm.onnx'), externalModel('w.bin'));
      writeFileSync(path.join(folder, 'w.bin'), weights);
      const inMemory = { externalData: { 'w.bin': weights } };
      for (const [source, options] of [
        [path.join(folder, 'm.onnx'), {}],
        [pathToFileURL(path.join(folder, 'm.onnx')), {}],
        [externalModel('w.bin'), inMemory],
      ]) {
        const session = await InferenceSession.create(source, options);
        assert.deepEqual((await session.run(feeds)).y.data, Float32Array.of(11, 22, 33));
        session.dispose();
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('has all forms of onnxruntime-web', async () => {
    const url = `data:application/octet-stream;base64,${Buffer.from(weights).toString('base64')}`;
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    try {
      const file = path.join(folder, 'w.bin');
      writeFileSync(file, weights);
      for (const [name, externalData] of [
        ['w.bin', [{ path: 'w.bin', data: weights }]],
        ['w.bin', [{ path: './w.bin', data: weights.buffer }]],
        ['./w.bin', [{ path: 'w.bin', data: new Blob([weights]) }]],
        ['w.bin', [{ path: 'w.bin', data: new File([weights], 'other.bin') }]],
        ['w.bin', [{ path: 'w.bin', data: url }]],
        ['w.bin', [{ path: 'w.bin', data: new URL(url) }]],
        ['w.bin', [{ path: 'w.bin', data: file }]],
        [
          'w.bin',
          [
            { path: 'other.bin', data: new Uint8Array(1) },
            { path: 'w.bin', data: file },
          ],
        ],
        [file, [file]],
        ['./w.bin', { 'w.bin': weights }],
        ['w.bin', { './w.bin': weights }],
      ]) {
        const session = await InferenceSession.create(externalModel(name), { externalData });
        assert.deepEqual((await session.run(feeds)).y.data, Float32Array.of(11, 22, 33));
        session.dispose();
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    for (const [externalData, value] of [
      ['w.bin', 'options.externalData'],
      [[7], 'options.externalData[0]'],
      [[{ data: weights }], 'options.externalData[0].path'],
    ]) {
      await assert.rejects(
        loadModel(externalModel('w.bin'), { externalData }),
        isError('INVALID_ARGUMENT', { value }),
      );
    }
  });

  test('that is missing or elsewhere is named', async () => {
    await assert.rejects(
      loadModel(externalModel('w.bin')),
      isError('INVALID_ARGUMENT', { value: 'w.bin' }),
    );
    await assert.rejects(
      loadModel(externalModel('w.bin'), { externalData: { 'w.bin': weights.subarray(0, 8) } }),
      isError('INVALID_MODEL'),
    );
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    try {
      writeFileSync(path.join(folder, 'm.onnx'), externalModel('../w.bin'));
      await assert.rejects(
        loadModel(path.join(folder, 'm.onnx')),
        isError('INVALID_MODEL', { value: '../w.bin' }),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('is named when it is something else', async () => {
    const model = externalModel('w.bin');
    const failed = (file) => loadModel(model, { externalData: { 'w.bin': file } });
    const encode = (letters) => new TextEncoder().encode(letters);
    // As long as the weights or longer: numbers never begin like this.
    await assert.rejects(
      failed(encode('<!doctype html><title>App</title>')),
      isError('LOAD_FAILED', { value: 'w.bin', message: /w\.bin is a web page/, hint: /address/ }),
    );
    await assert.rejects(
      failed(encode('version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n')),
      isError('LOAD_FAILED', { value: 'w.bin', message: /Git LFS/, hint: /git lfs pull/ }),
    );
    await assert.rejects(
      failed(new Uint8Array(0)),
      isError('LOAD_FAILED', { message: /an empty file/ }),
    );
    // Too short for the weights, whatever it looks like.
    await assert.rejects(
      failed(encode('not found')),
      isError('LOAD_FAILED', { value: 'w.bin', message: /is text \(not found\)/ }),
    );
    await assert.rejects(
      failed(Uint8Array.of(0x1f, 0x8b, 8, 0)),
      isError('LOAD_FAILED', { message: /gzip/, hint: /DecompressionStream/ }),
    );
    // Enough bytes that happen to begin like gzip are weights.
    const odd = new Uint8Array(16).fill(1);
    odd.set([0x1f, 0x8b, 8]);
    (await failed(odd)).dispose();
  });
});

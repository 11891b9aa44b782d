// External data beyond 2 GB from a file that the user chose, on the page and in a Worker: Chromium's Blobs have no end
// at 2 GB, as those of Node have.

import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { externalModel } from '../node/external_model.mjs';
import { launch, openPage } from './browser.mjs';
import { serve } from './site.mjs';

const GB = 2 ** 30;
const OFFSET = 5 * GB + 4;

let folder;
let site;
let browser;

before(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
  // The file has a hole, which takes no room.
  const file = openSync(path.join(folder, 'w.bin'), 'w');
  writeSync(file, Buffer.from('data'), 0, 4, 0);
  writeSync(file, new Uint8Array(Float32Array.of(10, 20, 30).buffer), 0, 12, OFFSET);
  ftruncateSync(file, 6 * GB);
  closeSync(file);
  site = await serve(() => {});
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await site?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('a chosen file of 6 GB is read by ranges', { timeout: 120_000 }, async () => {
  const { page, problems } = await openPage(browser);
  await page.goto(`${site.url}tests/browser/page/files.html`);
  await page.setInputFiles('input', path.join(folder, 'w.bin'));
  const result = await page.evaluate(
    async ({ url, bytes, short }) => {
      const { InferenceSession, Tensor, createWorker, loadModel } = await import(url);
      const [blob] = document.querySelector('input').files;
      const externalData = { 'w.bin': blob };
      const x = new Tensor('float32', [1, 2, 3]);
      const worker = await createWorker();
      const answers = [];
      for (const { load, create } of [
        { load: loadModel, create: (model) => InferenceSession.create(model) },
        {
          load: (...all) => worker.loadModel(...all),
          create: (model) => worker.createSession(model),
        },
      ]) {
        const session = await create(await load(Uint8Array.from(bytes), { externalData }));
        answers.push([...(await session.run({ x })).y.data]);
      }
      const { code, message } = await loadModel(Uint8Array.from(short), { externalData }).catch(
        (error) => error,
      );
      worker.terminate();
      return { size: blob.size, answers, code, message };
    },
    {
      url: `${site.url}dist/index.js`,
      bytes: [...externalModel('w.bin', OFFSET)],
      short: [...externalModel('w.bin', 6 * GB - 8)],
    },
  );
  assert.equal(result.size, 6 * GB);
  assert.deepEqual(result.answers, [
    [11, 22, 33],
    [11, 22, 33],
  ]);
  assert.equal(result.code, 'INVALID_MODEL');
  assert.match(result.message, /'w.bin' has no 12 bytes at offset/);
  assert.deepEqual(problems, []);
  await page.close();
});

// The studio measures onnxruntime-web and LiteRT.js on the same page, when it is asked to. Only with REQUANT_LONG=1.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { loadModel } from '../../../dist/index.js';
import { SCREENS, problemsOf } from '../accessible.mjs';
import { BUILD, launch, openPage } from '../browser.mjs';
import { droppedFiles, serveStudio } from '../studio_site.mjs';
import { drop, go, idle, openSample, quantize } from '../studio_use.mjs';

const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';
const ENGINES = /\/(ort|litert)[-_]/;

let site;
let browser;

before(async () => {
  if (skip) return;
  site = await serveStudio();
  browser = await launch();
  mkdirSync(BUILD, { recursive: true });
});
after(async () => {
  await browser?.close();
  await site?.close();
});

/** Presses a button of the table of times; gives the row of an engine when its times are there. */
async function measured(page, button, engine, t) {
  await page.click(`button:has-text("${button}")`);
  const threads = button.endsWith('threads') ? / \d threads/ : /one thread/;
  const row = page.locator('tr', { hasText: engine }).filter({ hasText: threads });
  await row.waitFor({ timeout: 120_000 });
  await idle(page);
  const text = (await row.locator('th, td').allTextContents()).join(' | ');
  t.diagnostic(text);
  return text;
}

test('times of both engines, in the default recipe', { skip, timeout: 900_000 }, async (t) => {
  const { page, problems } = await openPage(browser);
  const loaded = [];
  page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
  await page.goto(site.url);
  await openSample(page);
  await go(page, 'Recipe');
  await quantize(page);
  assert.deepEqual(
    loaded.filter((name) => ENGINES.test(name)),
    [],
  );
  for (const [engine, button] of [
    ['ONNX Runtime Web', 'Measure ONNX Runtime Web'],
    ['ONNX Runtime Web', 'ONNX Runtime Web with threads'],
    ['LiteRT.js', 'Measure LiteRT.js'],
    ['LiteRT.js', 'LiteRT.js with threads'],
  ]) {
    assert.match(await measured(page, button, engine, t), /threads? \| [\d.]+ ms \| [\d.]+ ms/);
  }
  const rows = page.locator('#threads-title ~ .scroll tbody tr');
  assert.equal(await rows.count(), 3);
  for (const { name, viewport, colorScheme } of SCREENS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await problemsOf(page), [], name);
    await page
      .locator('[aria-labelledby=threads-title]')
      .screenshot({ path: path.join(BUILD, `studio-engines-${name}.png`) });
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test('a network that LiteRT.js cannot run is named', { skip, timeout: 900_000 }, async (t) => {
  const { page, problems } = await openPage(browser);
  await page.goto(site.url);
  await openSample(page);
  await go(page, 'Recipe');
  await page.click('.recipe:has-text("4-bit blocks")');
  await quantize(page);
  assert.match(
    await measured(page, 'Measure LiteRT.js', 'LiteRT.js', t),
    /\| [\d.]+ ms \| not possible: MatMulNBits .*LiteRT has no such operator\.$/,
  );
  assert.deepEqual(await problemsOf(page), []);
  assert.deepEqual(problems, []);
  await page.close();
});

test('a .tflite file runs as it came', { skip, timeout: 900_000 }, async (t) => {
  const [{ buffer, ...onnx }, ...pictures] = droppedFiles();
  const model = await loadModel(buffer);
  const { bytes } = await model.toTflite();
  model.dispose();
  const { page, problems } = await openPage(browser);
  await page.goto(site.url);
  await drop(page, [{ ...onnx, name: 'clothes.tflite', buffer: Buffer.from(bytes) }, ...pictures]);
  await page.waitForSelector('text=10 pictures');
  await idle(page);
  await go(page, 'Recipe');
  await quantize(page);
  assert.match(
    await measured(page, 'Measure LiteRT.js', 'LiteRT.js', t),
    /one thread \| [\d.]+ ms \| [\d.]+ ms/,
  );
  assert.deepEqual(problems, []);
  await page.close();
});

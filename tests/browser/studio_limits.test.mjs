// The studio in Chromium: without a network, its size, large models.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { BUILD, ROOT, launch, openPage } from './browser.mjs';
import { mainThreadTasks } from './main_thread.mjs';
import { SITE, greyPng, largeModel, longModel, serveStudio } from './studio_site.mjs';
import { choose, go, idle, openSample, quantize } from './studio_use.mjs';

let site;
let browser;

before(async () => {
  site = await serveStudio();
  browser = await launch();
  mkdirSync(BUILD, { recursive: true });
});

after(async () => {
  await browser?.close();
  await site?.close();
});

async function open(options) {
  const opened = await openPage(browser, options);
  await opened.page.goto(site.url);
  await opened.page.waitForSelector('#bring-title');
  return opened;
}

test('works without a network after the first visit', { timeout: 300_000 }, async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(200_000);
  await page.goto(site.url);
  await page.waitForSelector('.local:has-text("works offline")');
  await context.setOffline(true);
  await page.reload();
  await openSample(page);
  await go(page, 'Graph');
  await page.waitForSelector('.graph-canvas');
  await go(page, 'Recipe');
  await quantize(page);
  await context.close();
});

test(
  'a host without headers gets isolation by the service worker',
  { timeout: 120_000 },
  async () => {
    const plain = await serveStudio({ isolated: false });
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(plain.url);
    assert.equal(await page.evaluate(() => crossOriginIsolated), false);
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    await page.reload();
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    await context.close();
    await plain.close();
  },
);

test('the first load is small', async (t) => {
  const context = await browser.newContext({ serviceWorkers: 'block' });
  const page = await context.newPage();
  const loaded = [];
  page.on('response', (response) => loaded.push(new URL(response.url()).pathname));
  await page.goto(site.url, { waitUntil: 'networkidle' });
  const bytes = [...new Set(loaded)].map(
    (name) =>
      brotliCompressSync(readFileSync(path.join(SITE, name === '/' ? 'index.html' : name))).length,
  );
  const sum = bytes.reduce((a, b) => a + b, 0);
  t.diagnostic(`${(sum / 1000).toFixed(1)} kB in ${bytes.length} files`);
  assert.ok(sum < 60_000, `${sum} bytes`);
  await context.close();
});

test('thousands of operators move smoothly', { timeout: 300_000 }, async (t) => {
  const { page, problems } = await open({ viewport: { width: 1440, height: 900 } });
  const buffer = await longModel(3000);
  await choose(page, [{ name: 'long.onnx', mimeType: '', buffer }]);
  await page.waitForSelector('#samples-title');
  await go(page, 'Graph');
  const layout = await mainThreadTasks(browser, () => page.waitForSelector('.graph-canvas'));
  t.diagnostic(`the longest task of the layout takes ${Math.max(...layout).toFixed(0)} ms`);
  const steps = 40;
  const tasks = await mainThreadTasks(browser, () =>
    page.evaluate(async (steps) => {
      const canvas = document.querySelector('.graph-canvas');
      for (let step = 0; step < steps; step++) {
        canvas.dispatchEvent(
          new WheelEvent('wheel', {
            deltaY: step % 2 ? -120 : 240,
            clientX: 600,
            clientY: 400,
            bubbles: true,
            cancelable: true,
          }),
        );
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      }
    }, steps),
  );
  const frame = tasks.reduce((sum, task) => sum + task, 0) / steps;
  t.diagnostic(`a frame takes ${frame.toFixed(1)} ms of the page's thread`);
  assert.ok(frame > 0 && frame < 60, `${frame} ms`);
  assert.deepEqual(problems, []);
  await page.close();
});

test('a model of 100 MB does not stop the page', { timeout: 300_000 }, async (t) => {
  const { page, problems } = await open();
  const file = path.join(BUILD, 'studio-large.onnx');
  writeFileSync(file, largeModel(25_600));
  try {
    const tasks = await mainThreadTasks(browser, async () => {
      await choose(page, file);
      await page.waitForSelector('#samples-title');
      await page.click('button:has-text("Choose a recipe")');
      await page.click('.recipe:has-text("Weights only")');
      await quantize(page);
    });
    const longest = Math.max(...tasks);
    t.diagnostic(`longest task ${longest.toFixed(0)} ms; ${await page.textContent('.verdict p')}`);
    assert.ok(longest > 0 && longest < 500, `${longest} ms`);
    assert.deepEqual(problems, []);
  } finally {
    rmSync(file);
    await page.close();
  }
});

const MOBILENET = path.join(ROOT, '../shared/models/mobilenet_v2_100_224_dequant/model.onnx');

test(
  'MobileNetV2 with 64 pictures takes seconds',
  { timeout: 300_000, skip: !existsSync(MOBILENET) && 'needs ../shared' },
  async (t) => {
    const { page, problems } = await open();
    const picture = (index) => ({
      name: `picture ${index}.png`,
      mimeType: 'image/png',
      buffer: greyPng(
        Buffer.from(
          Array.from({ length: 280 * 240 }, (_, at) => (at * (index + 3) + (at >> 7) * 31) % 256),
        ),
        280,
        240,
      ),
    });
    const files = Array.from({ length: 64 }, (_, index) => picture(index));
    await choose(page, [
      { name: 'mobilenet.onnx', mimeType: '', buffer: readFileSync(MOBILENET) },
      ...files,
    ]);
    await page.waitForSelector('text=64 pictures');
    await idle(page);
    await go(page, 'Recipe');
    const began = performance.now();
    await quantize(page);
    t.diagnostic(
      `${((performance.now() - began) / 1000).toFixed(1)} s: ${await page.textContent('.verdict p')}`,
    );
    assert.deepEqual(problems, []);
    await page.close();
  },
);

// The web demo, built and served as it would be on a host, in Chromium.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { preview } from 'vite';
import { BUILD, ROOT, launch, openPage } from './browser.mjs';

let server;
let browser;
let url;

before(async () => {
  const script = path.join(ROOT, 'web/scripts/demo_web.mjs');
  const built = spawnSync(process.execPath, [script, '--build'], { cwd: ROOT, encoding: 'utf8' });
  assert.equal(built.status, 0, built.stdout + built.stderr);
  server = await preview({
    root: path.join(ROOT, 'demos/web'),
    base: './',
    logLevel: 'error',
    build: { outDir: path.join(BUILD, 'demo_web') },
    preview: {
      host: '127.0.0.1',
      port: 0,
      headers: {
        'Cross-Origin-Opener-Policy': 'same-origin',
        'Cross-Origin-Embedder-Policy': 'require-corp',
      },
    },
  });
  const { port } = server.httpServer.address();
  url = `http://127.0.0.1:${port}/`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
});

async function open(options) {
  const { page, problems } = await openPage(browser, options);
  await page.goto(url);
  await page.waitForSelector('#start:enabled', { timeout: 200_000 }).catch(() => {});
  assert.match(await page.textContent('#status'), /^Ready/, problems.join('\n'));
  return { page, problems };
}

test('quantizes, compares, shows the results', { timeout: 900_000 }, async (t) => {
  const { page, problems } = await open({ viewport: { width: 1100, height: 900 } });
  await page.click('#start');
  await page.waitForFunction(
    () => document.body.dataset.report || document.querySelector('#status.error'),
    undefined,
    { timeout: 800_000 },
  );
  const status = await page.textContent('#status');
  assert.match(status, /^Done: \d+ operators/, problems.join('\n'));
  const report = JSON.parse(await page.evaluate(() => document.body.dataset.report));
  const { float, candidate, agreement } = report.top1;
  t.diagnostic(`float ${float}, 8 bits ${candidate}, agreement ${agreement}; ${status}`);
  assert.equal(report.samples, 1000);
  assert.ok(float >= 0.92);
  assert.ok(candidate >= float - 0.01);
  assert.ok(agreement >= 0.97);
  assert.ok(report.size.candidateBytes < report.size.floatBytes * 0.4);

  assert.equal(await page.locator('.figure').count(), 5);
  assert.equal(await page.locator('.image canvas').count(), 40);
  const differing = Math.min(40, Math.round((1 - agreement) * 1000));
  assert.equal(await page.locator('.image.differs').count(), differing);
  assert.equal(await page.locator('#chart svg g').count(), report.layers.length);
  assert.ok((await page.locator('#metrics tbody tr').count()) >= 5);
  mkdirSync(BUILD, { recursive: true });
  await page.screenshot({ path: path.join(BUILD, 'demo-light.png'), fullPage: true });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.setViewportSize({ width: 400, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 400, `the page is ${wide} wide on a screen of 400`);
  await page.screenshot({ path: path.join(BUILD, 'demo-dark.png'), fullPage: true });

  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save')]);
  assert.equal(download.suggestedFilename(), 'fashion_mnist.int8.onnx');
  assert.deepEqual(problems, []);
  await page.close();
});

test('cancels, and starts again', { timeout: 600_000 }, async () => {
  const { page, problems } = await open();
  for (let round = 0; round < 2; round++) {
    await page.click('#start');
    await page.waitForFunction(() =>
      /^(Calibrating|Choosing)/.test(document.querySelector('#status').textContent),
    );
    await page.click('#cancel');
    await page.waitForFunction(
      () => document.querySelector('#status').textContent === 'Cancelled.',
    );
    assert.ok(await page.isEnabled('#start'));
  }
  assert.deepEqual(problems, []);
  await page.close();
});

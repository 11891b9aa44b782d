// The web demo in Chromium, built and served as on a host.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { preview } from 'vite';
import { SCREENS, problemsOf } from './accessible.mjs';
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

const READY = '#start[aria-disabled=false]';

async function open(options) {
  const { page, problems } = await openPage(browser, options);
  await page.goto(url);
  await page.waitForSelector(READY, { timeout: 200_000 }).catch(() => {});
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
  assert.equal(await page.locator('#chart li').count(), report.layers.length);
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
    assert.equal(await page.getAttribute('#start', 'aria-disabled'), 'false');
  }
  assert.deepEqual(problems, []);
  await page.close();
});

/** The id of the element that has the focus. */
const focused = (page) =>
  page.evaluate(() => document.activeElement.id || document.activeElement.localName);

const statusIs = (page, pattern) =>
  page.waitForFunction(
    (source) => new RegExp(source).test(document.querySelector('#status').textContent),
    pattern.source,
    { timeout: 800_000 },
  );

test(
  'rules of accessible pages in every state, on every screen',
  { timeout: 900_000 },
  async () => {
    const { page, problems } = await openPage(browser);
    const check = async (state, focus, screens = SCREENS) => {
      for (const { name, viewport, colorScheme } of screens) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        assert.equal(await focused(page), focus, `the focus, ${state}`);
        assert.deepEqual(await problemsOf(page), [], `${state}, ${name}`);
        const file = `demo-${name}-${state.replaceAll(' ', '-')}.png`;
        await page.screenshot({ path: path.join(BUILD, file), fullPage: true });
      }
    };
    /** Press with the keyboard, for which the focus must stay on an element. */
    const press = async (id) => {
      await page.focus(id);
      await page.keyboard.press('Enter');
    };
    const [desktop, , phone] = SCREENS;

    let goOn;
    const held = new Promise((resolve) => (goOn = resolve));
    await page.route('**/*.onnx', async (route) => {
      await held;
      await route.continue();
    });
    mkdirSync(BUILD, { recursive: true });
    await page.goto(url);
    await check('loading', 'body');
    await press('#start');
    assert.match(
      await page.textContent('#status'),
      /^Loading/,
      'a button that is off does nothing',
    );
    await check('pressed while loading', 'start');
    goOn();
    await page.waitForSelector(READY);
    await check('ready', 'start');

    await press('#start');
    await statusIs(page, /^Comparing/);
    await check('running', 'start', [desktop]);
    await press('#cancel');
    await statusIs(page, /^Cancelled/);
    await check('cancelled', 'start');

    await press('#start');
    await statusIs(page, /^Comparing/);
    await check('running', 'start', [phone]);
    await statusIs(page, /^Done/);
    await check('done', 'start');
    assert.equal(await page.locator('canvas[role=img][aria-label^="Image "]').count(), 40);
    const saved = page.waitForEvent('download');
    await press('#save');
    await saved;
    await check('saved', 'save');
    // A script presses the button: the focus is on a button that disappears.
    await page.evaluate(() => document.querySelector('#start').click());
    await check('running again', 'start', [phone]);
    assert.deepEqual(problems, []);
    await page.close();
  },
);

test('rules of accessible pages where the model is missing', async () => {
  const { page } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await page.route('**/*.onnx', (route) => route.fulfill({ status: 404 }));
  await page.goto(url);
  await page.waitForSelector('#status.error');
  assert.match(await page.textContent('#status'), /404/);
  assert.deepEqual(await problemsOf(page), []);
  await page.screenshot({ path: path.join(BUILD, 'demo-phone-error.png'), fullPage: true });
  await page.close();
});

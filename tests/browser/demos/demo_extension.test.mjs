// The demo of a browser extension in Chromium: its service worker names the pictures of a page. REQUANT_LONG=1 runs it.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { EXTENSION, buildExtension } from '../../../web/scripts/demo_extension.mjs';
import { launch } from '../browser.mjs';
import { check, status } from './demo_site.mjs';
import { greyPng, pixelsOf } from '../studio_site.mjs';

// The first test images show a boot and a pullover, the third and the fourth trousers.
const PICTURES = ['Boot', 'Pullover', 'Trouser', 'Trouser'];

const skip = process.env.REQUANT_LONG !== '1' && 'REQUANT_LONG=1 runs it';

test('an extension names the pictures of a page', { skip, timeout: 200_000 }, async () => {
  await buildExtension();
  const server = http.createServer(({ url }, response) => {
    const [, index] = /^\/(\d)\.png$/.exec(url) ?? [];
    if (index === undefined) {
      response.writeHead(200, { 'Content-Type': 'text/html' });
      response.end(PICTURES.map((_, at) => `<img alt="" src="/${at}.png">`).join(''));
    } else response.end(greyPng(pixelsOf(Number(index)), 28, 28));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const profile = mkdtempSync(path.join(os.tmpdir(), 'requant-extension-'));
  const context = await launch(
    profile,
    [`--disable-extensions-except=${EXTENSION}`, `--load-extension=${EXTENSION}`],
    ['--disable-extensions'],
  );
  try {
    const [worker] = context.serviceWorkers();
    const background = worker ?? (await context.waitForEvent('serviceworker'));
    const [, , id] = background.url().split('/');
    const shop = await context.newPage();
    await shop.goto(`http://127.0.0.1:${server.address().port}/`);
    const tab = await background.evaluate(async () => {
      const tabs = await globalThis.chrome.tabs.query({});
      return tabs.find(({ url }) => url?.startsWith('http://127'))?.id;
    });
    const popup = await context.newPage();
    const problems = [];
    popup.on('pageerror', (error) => problems.push(error.message));
    const address = `chrome-extension://${id}/extension/popup.html`;
    await popup.goto(`${address}?tab=${tab}`);
    await status(popup, /^Named 4 of 4 pictures/, problems, 120_000);
    const names = await popup.locator('#answers li').allTextContents();
    assert.deepEqual(
      names.map((text) => text.replace(/ \(\d+ %\)$/, '')),
      PICTURES,
    );
    await check(popup, 'extension');
    // Browsers end service workers at will: the next one has the network from its cache.
    await popup.goto(`${address}?tab=999999`);
    await status(popup, /lets no extension look/);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
    server.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});

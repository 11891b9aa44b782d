// The demo of a browser extension in Chromium and Firefox: its service worker, in Firefox an event page, names the
// pictures of a page. REQUANT_LONG=1 runs it.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { EXTENSION, buildExtension } from '../../../web/scripts/demo_extension.mjs';
import { launch } from '../browser.mjs';
import { check, status } from './demo_site.mjs';
import { startFirefox } from './marionette.mjs';
import { greyPng, pixelsOf } from '../studio_site.mjs';

// The first test images show a boot and a pullover, the third and the fourth trousers.
const PICTURES = ['Boot', 'Pullover', 'Trouser', 'Trouser'];

const skip = process.env.REQUANT_LONG !== '1' && 'REQUANT_LONG=1 runs it';

let server;
let shopUrl;

before(async () => {
  if (skip) return;
  await buildExtension();
  server = http.createServer(({ url }, response) => {
    const [, index] = /^\/(\d)\.png$/.exec(url) ?? [];
    if (index === undefined) {
      response.writeHead(200, { 'Content-Type': 'text/html' });
      response.end(PICTURES.map((_, at) => `<img alt="" src="/${at}.png">`).join(''));
    } else response.end(greyPng(pixelsOf(Number(index)), 28, 28));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  shopUrl = `http://127.0.0.1:${server.address().port}/`;
});
after(() => {
  server?.closeAllConnections();
  server?.close();
});

const namesOf = (texts) => texts.map((text) => text.replace(/ \(\d+ %\)$/, ''));

test(
  'Chromium: an extension names the pictures of a page',
  { skip, timeout: 200_000 },
  async () => {
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
      await shop.goto(shopUrl);
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
      assert.deepEqual(namesOf(names), PICTURES);
      await check(popup, 'extension');
      // Browsers end service workers at will: the next one has the network from its cache.
      await popup.goto(`${address}?tab=999999`);
      await status(popup, /lets no extension look/);
      assert.deepEqual(problems, []);
    } finally {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    }
  },
);

test('Firefox: an extension names the pictures of a page', { skip, timeout: 600_000 }, async () => {
  const { id } = JSON.parse(readFileSync(path.join(EXTENSION, 'manifest.json')))
    .browser_specific_settings.gecko;
  // Firefox would choose the host of the extension's pages by chance.
  const uuid = '6d6a3c6c-61a2-4f3e-9d3b-5f1c1f0a7e11';
  const { call, close, open } = await startFirefox({
    'extensions.webextensions.uuids': JSON.stringify({ [id]: uuid }),
  });
  const texts = async (selector) => {
    const script = `return [...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.textContent)`;
    return (await call('WebDriver:ExecuteScript', { script, args: [] })).value;
  };
  try {
    assert.equal((await call('Addon:Install', { path: EXTENSION, temporary: true })).value, id);
    await call('WebDriver:Navigate', { url: shopUrl });
    const statusFor = async (tab) => {
      await open(`moz-extension://${uuid}/extension/popup.html?tab=${tab}`);
      for (let tries = 0; ; tries++) {
        const [text = ''] = await texts('#status');
        if (/^Named|no page|no pictures|lets no|rror/.test(text) || tries > 1500) return text;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    };
    // Firefox counts tabs, and the page of the shop is one of the first.
    let said;
    for (let tab = 1; tab < 6 && !/^Named/.test(said); tab++) said = await statusFor(tab);
    assert.match(said, /^Named 4 of 4 pictures/);
    assert.deepEqual(namesOf(await texts('#answers li')), PICTURES);
    assert.match(await statusFor(999_999), /lets no extension look/);
  } finally {
    await close();
  }
});

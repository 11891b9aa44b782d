// Builds the whole site and looks at it: links, pages at sizes and colors, and the parts that compute, in every
// browser. Long: REQUANT_LONG=1.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { sidebarPages } from '../../docs/.vitepress/sidebar.mjs';
import { SITE, buildSite } from '../../web/scripts/site.mjs';
import { BASE } from '../../web/scripts/site/relocate.mjs';
import { serveFolder } from '../../web/scripts/site/serve.mjs';
import { SCREENS } from './accessible.mjs';
import { BUILD, launch, openPage } from './browser.mjs';
import { browsers, start } from './browsers.mjs';
import { serve } from './site.mjs';
import { settled } from './webkit.mjs';

const LONG = Boolean(process.env.REQUANT_LONG);
const skip = LONG ? false : 'long: REQUANT_LONG=1';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// Any folder of a host will do.
const PREFIX = '/some/folder/';
const PAGES = [
  'index.html',
  'guides/start.html',
  'guides/determinism.html',
  'how/convolution.html',
  'architecture.html',
  'benchmarks.html',
  'reference/operators.html',
  'reference/api/requant/functions/quantize.html',
];

let server;
let browser;

before(async () => {
  if (!LONG) return;
  // An older build may be looked at while the test is written.
  if (!process.env.REQUANT_SITE_BUILT) await buildSite();
  mkdirSync(BUILD, { recursive: true });
  server = await serveFolder(SITE, { prefix: PREFIX });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** The pages of the documents, as paths in the site. */
const htmlFiles = () =>
  readdirSync(SITE, { recursive: true }).filter(
    (name) => name.endsWith('.html') && !/^(studio|demo)\//.test(name),
  );

test('every page of the sidebar, the studio and the demo are there', { skip }, () => {
  const files = new Set(readdirSync(SITE, { recursive: true }));
  const wanted = [
    ...sidebarPages().map((page) => `${page}.html`),
    ...['index.html', '404.html', '_headers', '.htaccess', 'studio/index.html', 'demo/index.html'],
    'studio/service_worker.js',
  ];
  assert.deepEqual(
    wanted.filter((name) => !files.has(name)),
    [],
  );
});

test('every link of every page leads somewhere, with its anchor', { skip }, () => {
  const files = new Set(readdirSync(SITE, { recursive: true }));
  const pages = new Map(
    htmlFiles().map((name) => [name, readFileSync(path.join(SITE, name), 'utf8')]),
  );
  const anchors = new Map(
    [...pages].map(([name, text]) => [
      name,
      new Set([...text.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id)),
    ]),
  );
  const problems = new Set();
  for (const [name, text] of pages) {
    if (text.includes(BASE)) problems.add(`${name} has the placeholder of the folder`);
    for (const [, target] of text.matchAll(/\s(?:href|src)="([^"]*)"/g)) {
      if (/^(https?:|data:|mailto:)/.test(target)) continue;
      const url = new URL(target.replaceAll('&amp;', '&'), `http://site/${name}`);
      let file = decodeURIComponent(url.pathname.slice(1));
      if (file === '' || file.endsWith('/')) file += 'index.html';
      if (!files.has(file)) problems.add(`${name}: ${target}`);
      const anchor = decodeURIComponent(url.hash.slice(1));
      if (anchor && anchors.has(file) && !anchors.get(file).has(anchor))
        problems.add(`${name}: ${target}`);
    }
  }
  assert.deepEqual([...problems], []);
});

/** The findings of axe-core in the page. */
async function findingsOf(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document);
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, any, all }) =>
        [id, html.slice(0, 140), ...[...any, ...all].map(({ message }) => message)].join(': '),
      ),
    );
  });
}

for (const { name, viewport, colorScheme } of SCREENS) {
  test(`pages are accessible and fit: ${name}`, { skip, timeout: 600_000 }, async () => {
    const found = [];
    const { page, problems } = await openPage(browser, { viewport, colorScheme });
    for (const file of PAGES) {
      await page.goto(server.url + file);
      await page.waitForSelector('.VPContent');
      await page.waitForLoadState('networkidle');
      const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      if (wide > 0) found.push(`${file} is ${wide} pixels wider than the screen`);
      found.push(...(await findingsOf(page)).map((finding) => `${file}: ${finding}`));
      await page.screenshot({
        path: path.join(BUILD, `site-${path.basename(file, '.html')}-${name}.png`),
      });
    }
    // Leaving a page ends requests for pages that its links lead to.
    const errors = problems.filter((problem) => !/ERR_ABORTED/.test(problem));
    assert.deepEqual([...found, ...errors], []);
    await page.close();
  });
}

test('a reader goes from page to page, searches, and reads charts', { skip }, async () => {
  const { page, problems } = await openPage(browser, SCREENS[0]);
  await page.goto(server.url);
  await page.click('text=Start in five minutes');
  await page.waitForSelector('h1:has-text("Start in five minutes")');
  assert.equal(page.url(), `${server.url}guides/start.html`);
  await page.click('.VPSidebar a:has-text("The integer convolution")');
  await page.waitForSelector('h1:has-text("The integer convolution")');
  await page.keyboard.press('Control+k');
  await page.fill('input[type=search]', 'requantize');
  await page.waitForSelector('.results .result');
  await page.keyboard.press('Escape');
  await page.click('.VPNavBar a:has-text("Benchmarks")');
  await page.waitForSelector('.bars li');
  await page.selectOption('select >> nth=1', { label: 'MobileNetV2' });
  await page.selectOption('select >> nth=2', { label: '8 bits' });
  assert.match(await page.textContent('.bars li:has-text("8 bits") .value'), /^ *1 ×/);
  await page.click('text=Measure on this device');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.status')].some(({ textContent }) =>
      /times as fast|Error/.test(textContent),
    ),
  );
  assert.equal(await page.locator('[aria-label$="on this device"] li').count(), 5);
  const errors = problems.filter((problem) => !/ERR_ABORTED/.test(problem));
  assert.deepEqual(errors, []);
  await page.close();
});

for (const { name, viewport, colorScheme } of SCREENS) {
  test(`unknown addresses lead on: ${name}`, { skip }, async () => {
    const { page } = await openPage(browser, { viewport, colorScheme });
    const found = [];
    for (const address of ['nothing', 'guides/nothing.html', 'studio/a/nothing/']) {
      const response = await page.goto(server.url + address);
      assert.equal(response.status(), 404);
      await page.waitForSelector(`body[data-folder="${PREFIX}"]`);
      const links = await page.$$eval('main a', (all) => all.map(({ href }) => href));
      assert.deepEqual(
        links,
        ['', 'studio/', 'guides/start.html'].map((file) => server.url + file),
      );
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > viewport.width) found.push(`${wide} pixels wide`);
      found.push(...(await findingsOf(page)));
    }
    await page.screenshot({ path: path.join(BUILD, `site-404-${name}.png`) });
    await page.click('a:has-text("Documents")');
    await page.waitForSelector('h1:has-text("Start in five minutes")');
    assert.deepEqual(found, []);
    await page.close();
  });
}

test('the studio, which works offline, shows nothing at addresses below it', { skip }, async () => {
  const { page } = await openPage(browser);
  await page.goto(`${server.url}studio/`);
  await page.waitForSelector('#bring-title');
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  assert.ok(await page.evaluate(() => navigator.serviceWorker.controller !== null));
  await page.goto(`${server.url}studio/nothing`);
  await page.waitForSelector('h1:has-text("There is no such page")');
  await page.close();
});

/** Resolves to the fingerprint that the page shows: { status, same, differing }. */
async function fingerprintIn(one) {
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  const site = await serve(hear);
  const running = await start(one, `${site.url}tests/browser/page/documentation.html`);
  try {
    const { error, ...result } = await Promise.race([heard, running.ended]);
    if (error !== undefined) throw new Error(error);
    return result;
  } finally {
    await running.close();
    await site.close();
  }
}

for (const one of browsers) {
  test(`the fingerprint in ${one.name}`, { skip, timeout: 600_000 }, async (t) => {
    const attempt = async () => {
      const result = await fingerprintIn(one);
      // Only calibration may run again.
      for (const title of result.differing) assert.match(title, /^(quantize|train)\(\)/);
      return result;
    };
    const holds = ({ status }) => status.startsWith('All results are the same bits');
    const result = await settled(one, t, attempt, holds);
    t.diagnostic(result.status);
    assert.deepEqual(result.differing, []);
    assert.ok(holds(result), result.status);
    assert.ok(result.same >= 15);
  });
}

// The demos that are pages, built and served as on a host, in Chromium.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { launch } from './browser.mjs';
import { check, open, serveDemos, status } from './demo_site.mjs';

let site;
let browser;
before(async () => {
  site = await serveDemos();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await site?.close();
});

test('the list of demos', async () => {
  const { page, problems } = await open(browser, site.url);
  await check(page, 'list');
  for (const link of await page.locator('main a').all()) {
    const answer = await page.request.get(new URL(await link.getAttribute('href'), site.url).href);
    assert.equal(answer.status(), 200, await link.textContent());
  }
  assert.deepEqual(problems, []);
  await page.close();
});

/** Draws lines on the paper with the mouse; points are shares of its width. */
async function draw(page, points) {
  const box = await page.locator('#pad').boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 6 });
  await page.mouse.up();
}

const ONE = [
  [0.5, 0.2],
  [0.5, 0.8],
];
const FOUR = [
  [0.4, 0.2],
  [0.3, 0.55],
  [0.7, 0.5],
];

test('digits: a network of one bit learns from drawings', { timeout: 300_000 }, async () => {
  const { page, problems } = await open(browser, `${site.url}digits/index.html`);
  await page.click('#train', { force: true });
  await status(page, /at least two/);
  await page.click('#labels button:nth-child(2)');
  await status(page, /Draw something first/);
  for (let round = 0; round < 3; round++) {
    await draw(page, ONE);
    await page.click('#labels button:nth-child(2)');
  }
  await page.click('#example');
  await check(page, 'digits-drawn');
  await page.click('#train');
  await status(page, /^Training in float/, problems);
  await page.click('#train');
  await status(page, /^Stopped/);
  await page.click('#train');
  await status(page, /^Trained/, problems);
  for (const [points, digit] of [
    [ONE, 1],
    [FOUR, 4],
  ]) {
    await page.click('#clear');
    await draw(page, points);
    if (digit === 4)
      await draw(page, [
        [0.65, 0.25],
        [0.65, 0.85],
      ]);
    await page.waitForFunction(
      (wanted) => document.querySelector('#one .best')?.textContent.startsWith(wanted),
      String(digit),
    );
    assert.match(await page.textContent('#float .best'), new RegExp(`^${digit}`));
  }
  assert.match(await page.textContent('#sizes'), /in float and 2\.\d kB in one bit/);
  await check(page, 'digits-trained');
  await page.click('#forget');
  await status(page, /are gone/);
  assert.deepEqual(problems, []);
  await page.close();
});

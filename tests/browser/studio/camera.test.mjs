// The studio takes pictures with Chromium's fake camera as samples, and says why when it may not.

import assert from 'node:assert/strict';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { SCREENS, problemsOf } from '../accessible.mjs';
import { BUILD, openPage } from '../browser.mjs';
import { launchWithCamera } from '../demos/fake_camera.mjs';
import { serveStudio } from '../studio_site.mjs';
import { choose, go, idle, quantize } from '../studio_use.mjs';
import { MODEL } from '../../node/support.mjs';

const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';
const TAKEN = 3;

let site;
let browser;

before(async () => {
  if (skip) return;
  site = await serveStudio();
  browser = await launchWithCamera(path.join(BUILD, 'studio-face.y4m'));
});

after(async () => {
  await browser?.close();
  await site?.close();
});

/** Opens the network without samples, and the camera; `permissions` are what the page may use. */
async function withCamera(permissions) {
  const { page, problems } = await openPage(browser, { permissions });
  await page.goto(site.url);
  await choose(page, MODEL);
  await idle(page);
  await page.click('button:has-text("Use the camera")');
  return { page, problems };
}

test('pictures of the camera become samples', { skip, timeout: 300_000 }, async () => {
  const { page, problems } = await withCamera(['camera']);
  await page.waitForFunction(() => document.querySelector('video.camera')?.videoWidth > 0);
  for (const { name, viewport, colorScheme } of SCREENS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await problemsOf(page), [], name);
    await page.screenshot({ path: path.join(BUILD, `studio-camera-${name}.png`) });
  }
  for (let taken = 1; taken <= TAKEN; taken++) {
    await page.click('button[aria-disabled=false]:has-text("Take a picture")');
    await page.waitForSelector(`text=/^${taken} pictures? taken/`);
  }
  await page.click('button:has-text("Use them")');
  await page.waitForSelector('.preview canvas');
  await idle(page);
  assert.match(await page.textContent('#samples-title ~ *'), new RegExp(`\\b${TAKEN}\\b`));
  // The camera is off.
  assert.equal(await page.locator('video').count(), 0);
  await go(page, 'Recipe');
  await quantize(page);
  assert.deepEqual(problems, []);
  await page.close();
});

test('a camera that may not be used', { skip, timeout: 300_000 }, async () => {
  const { page } = await withCamera([]);
  assert.match(
    await page.locator('[role=alert]').first().textContent(),
    /^The camera cannot be used: .+/,
  );
  await page.click('button:has-text("Close the camera")');
  await page.waitForSelector('button:has-text("Use the camera")');
  await page.close();
});

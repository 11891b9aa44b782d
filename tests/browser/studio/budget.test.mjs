// The studio's budget: measures configurations, chooses one by a limit, and puts it into the link. Only with
// REQUANT_LONG=1.

import assert from 'node:assert/strict';
import test from 'node:test';
import { problemsOf } from '../accessible.mjs';
import { launch, openPage } from '../browser.mjs';
import { serveStudio } from '../studio_site.mjs';
import { go, openSample, quantize } from '../studio_use.mjs';

const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';

test('chooses by bytes, milliseconds and accuracy', { skip, timeout: 600_000 }, async (t) => {
  const site = await serveStudio();
  const browser = await launch();
  try {
    const { page, problems } = await openPage(browser);
    await page.goto(site.url);
    await openSample(page);
    await go(page, 'Recipe');
    await page.click('button:has-text("Measure the choices")');
    const card = page.locator('[aria-labelledby=budget-title]');
    const slider = card.locator('input[type=range]');
    await slider.waitFor();
    const limits = {};
    for (const axis of ['bytes', 'ms', 'lost']) {
      await card.locator('select').selectOption(axis);
      await slider.focus();
      await page.keyboard.press('Home');
      const least = await card.locator('[role=status]').textContent();
      await page.keyboard.press('End');
      limits[axis] = [least, await card.locator('[role=status]').textContent()];
      t.diagnostic(`${axis}: ${limits[axis].join(' to ')}`);
    }
    assert.match(limits.bytes[0], /weights of 4 bits/);
    assert.deepEqual(await problemsOf(page), []);
    await card.locator('select').selectOption('bytes');
    await slider.focus();
    await page.keyboard.press('Home');
    await page.click('button:has-text("Take this one")');
    await quantize(page);
    const shown = / ([\d.]+ kB)/.exec(limits.bytes[0])[1];
    assert.ok((await page.textContent('.figures')).includes(shown), shown);
    const link = page.url();
    assert.deepEqual(JSON.parse(new URLSearchParams(new URL(link).hash.slice(1)).get('config')), {
      weights: { bits: 4 },
      activations: { bits: 8 },
    });
    const other = await openPage(browser);
    await other.page.goto(link);
    await openSample(other.page);
    await go(other.page, 'Recipe');
    assert.match(await other.page.textContent('.go'), /Settings of the link/);
    assert.deepEqual([...problems, ...other.problems], []);
  } finally {
    await browser.close();
    await site.close();
  }
});

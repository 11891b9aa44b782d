// The networks of other packages that the studio offers. Only with REQUANT_LONG=1, since the build takes them from npm.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { hasSample, makeSamples } from '../../../web/scripts/studio_samples.mjs';
import { problemsOf } from '../accessible.mjs';
import { launch, openPage } from '../browser.mjs';
import { serveStudio } from '../studio_site.mjs';
import { go, idle, quantize } from '../studio_use.mjs';

const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';

let site;
let browser;

before(async () => {
  if (skip) return;
  await makeSamples();
  site = await serveStudio();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await site?.close();
});

for (const { name, text, task, verdict } of [
  { name: 'faces', text: 'finds faces', task: 'boxes', verdict: /boxes are those of the float/ },
  { name: 'wake', text: 'hears', task: 'classes', verdict: /same answer on/ },
]) {
  test(name, { skip, timeout: 300_000 }, async (t) => {
    if (!hasSample(name)) return t.skip('npm cannot be reached');
    const { page, problems } = await openPage(browser);
    await page.goto(site.url);
    await page.click(`button:has-text("${text}")`);
    await page.waitForSelector('#samples-title');
    await idle(page);
    await go(page, 'Recipe');
    await quantize(page);
    assert.equal(await page.inputValue('.row-between select'), task);
    const words = await page.textContent('.verdict p');
    assert.match(words, verdict);
    t.diagnostic(words);
    if (task === 'boxes') {
      const found = await page.locator('.overlay canvas[aria-label*="found: face"]').count();
      assert.ok(found > 12, `${found} pictures with faces`);
    }
    assert.deepEqual(await problemsOf(page), []);
    assert.deepEqual(problems, []);
    await page.close();
  });
}

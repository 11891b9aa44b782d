// The studio measures onnxruntime-web on the same page, when it is asked to. Only with REQUANT_LONG=1.

import assert from 'node:assert/strict';
import test from 'node:test';
import { problemsOf } from '../accessible.mjs';
import { launch, openPage } from '../browser.mjs';
import { serveStudio } from '../studio_site.mjs';
import { go, idle, openSample, quantize } from '../studio_use.mjs';

const skip = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';

test(
  'times of onnxruntime-web, on one thread and on several',
  { skip, timeout: 600_000 },
  async (t) => {
    const site = await serveStudio();
    const browser = await launch();
    try {
      const { page, problems } = await openPage(browser);
      const loaded = [];
      page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
      await page.goto(site.url);
      await openSample(page);
      await go(page, 'Recipe');
      await quantize(page);
      assert.deepEqual(
        loaded.filter((name) => /\/ort[-_]/.test(name)),
        [],
      );
      const row = page.locator('tr:has-text("ONNX Runtime Web")');
      for (const button of ['Measure ONNX Runtime Web', 'ONNX Runtime Web with threads']) {
        await page.click(`button:has-text("${button}")`);
        await row.waitFor();
        await idle(page);
        const text = await row.textContent();
        t.diagnostic(text);
        assert.match(text, /threads?[\d.]+ ms[\d.]+ ms/);
      }
      assert.match(await row.textContent(), /threads/);
      assert.deepEqual(await problemsOf(page), []);
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
      await site.close();
    }
  },
);

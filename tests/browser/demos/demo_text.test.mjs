// The demo that reads the text of a photo, in Chromium, on a photo that a page draws. REQUANT_LONG=1 runs it.

import assert from 'node:assert/strict';
import test from 'node:test';
import { launch } from '../browser.mjs';
import { check, missing, open, serveDemos, status } from './demo_site.mjs';

const skip = process.env.REQUANT_LONG !== '1' && 'REQUANT_LONG=1 runs it';

const LINES = ['The museum is closed', 'on Mondays.', 'Tickets: 12 EUR'];

/** A picture of the lines as PNG, which the browser draws. */
async function photo(browser) {
  const page = await browser.newPage({ viewport: { width: 640, height: 320 } });
  await page.setContent(
    `<body style="margin:40px;font:40px serif;background:#eee">${LINES.map((line) => `<p style="margin:0 0 30px">${line}</p>`).join('')}`,
  );
  const buffer = await page.screenshot();
  await page.close();
  return { name: 'photo.png', mimeType: 'image/png', buffer };
}

test('text: reads the lines of a photo', { skip, timeout: 400_000 }, async (t) => {
  const site = await serveDemos('text');
  const lacks = missing.find((line) => line.includes('ocr-models'));
  if (lacks) {
    await site.close();
    return t.skip(lacks);
  }
  const browser = await launch();
  try {
    const { page, problems } = await open(browser, `${site.url}text/index.html`);
    await page.setInputFiles('#file', {
      name: 'x.png',
      mimeType: 'image/png',
      buffer: Buffer.from('no picture'),
    });
    await status(page, /This file is no picture/);
    await check(page, 'text-refused');
    const dropped = await photo(browser);
    await page.setInputFiles('#file', dropped);
    await status(page, /^Read \d+ lines in/, problems, 300_000);
    t.diagnostic(await page.textContent('#status'));
    const read = await page.locator('#lines li').allTextContents();
    const plain = (text) => text.replace(/\s/g, '');
    assert.deepEqual(read.map(plain), LINES.map(plain));
    await check(page, 'text-read');
    assert.deepEqual(problems, []);
    await page.route('**/text_recognition.onnx', (route) => route.fulfill({ status: 404 }));
    await page.reload();
    await page.setInputFiles('#file', dropped);
    await status(page, /text_recognition.onnx cannot be loaded \(404\)/);
  } finally {
    await browser.close();
    await site.close();
  }
});

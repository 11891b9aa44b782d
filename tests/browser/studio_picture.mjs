// Writes the picture of the studio in README.md: docs/pictures/studio.webp, light and dark.
//
//   node tests/browser/studio_picture.mjs

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT, launch, openPage } from './browser.mjs';
import { serveStudio } from './studio_site.mjs';
import { go, openSample, quantize } from './studio_use.mjs';

const FOLDER = path.join(ROOT, 'docs/pictures');
const QUALITY = 0.72;

/** A PNG as WebP, which Chromium encodes. */
async function webp(page, png) {
  const address = await page.evaluate(
    async ([text, quality]) => {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
      const canvas = document.createElement('canvas');
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
      canvas.getContext('2d').drawImage(bitmap, 0, 0);
      return canvas.toDataURL('image/webp', quality);
    },
    [png.toString('base64'), QUALITY],
  );
  return Buffer.from(address.split(',')[1], 'base64');
}

mkdirSync(FOLDER, { recursive: true });
const site = await serveStudio();
const browser = await launch();
try {
  for (const [name, colorScheme] of [
    ['studio.webp', 'light'],
    ['studio-dark.webp', 'dark'],
  ]) {
    const { page } = await openPage(browser, {
      viewport: { width: 1280, height: 800 },
      colorScheme,
    });
    await page.goto(site.url);
    await openSample(page);
    await go(page, 'Recipe');
    await quantize(page);
    await page.waitForTimeout(1000);
    writeFileSync(path.join(FOLDER, name), await webp(page, await page.screenshot()));
    await page.close();
  }
} finally {
  await browser.close();
  await site.close();
}

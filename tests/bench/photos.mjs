// The 600 ImageNet photos of ../shared that are no test images: calib_64 and the JPEGs of more_536, which Chromium
// decodes once into build/photos. Their order is mixed, since the files are sorted by class.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { imageSamples, parseJsonLabels, parsePixels } from 'requant/dataset';
import { BUILD, launch } from '../browser/browser.mjs';
import { SHARED } from '../node/shared_models.mjs';

const IMAGENET = path.join(SHARED, 'data/imagenet');
const FOLDER = path.join(BUILD, 'photos');
const SIZE = 224;
const STRIDE = 337; // has no divisor in common with 600

/** The pixels of a JPEG in base64: bytes [height, width, 4]. Runs in the page. */
async function pixelsOf(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/jpeg' }));
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
  const parts = [];
  for (let at = 0; at < data.length; at += 4096) {
    parts.push(String.fromCharCode(...data.subarray(at, at + 4096)));
  }
  return btoa(parts.join(''));
}

async function decode(names) {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const images = [];
    for (const name of names) {
      const file = readFileSync(path.join(IMAGENET, 'more_536', name)).toString('base64');
      const pixels = Buffer.from(await page.evaluate(pixelsOf, file), 'base64');
      if (pixels.length !== SIZE * SIZE * 4) throw new Error(`${name} is not ${SIZE} x ${SIZE}`);
      images.push(pixels.filter((_, at) => at % 4 < 3));
    }
    return Buffer.concat(images);
  } finally {
    await browser.close();
  }
}

/** Samples of these photos for a network of shared_models.mjs. */
export async function photosOf({ preprocess }) {
  const names = readdirSync(path.join(IMAGENET, 'more_536')).sort();
  const file = path.join(FOLDER, 'more_536.bin');
  if (!existsSync(file)) {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(file, await decode(names));
  }
  const bytes = Buffer.concat([
    readFileSync(path.join(IMAGENET, 'calib_64.bin')),
    readFileSync(file),
  ]);
  const calibration = parseJsonLabels(readFileSync(path.join(IMAGENET, 'calib_64.json'), 'utf8'));
  const labels = [...calibration, ...names.map((name) => Number(name.slice(0, 4)))];
  const order = labels.map((_, at) => (at * STRIDE) % labels.length);
  const picture = SIZE * SIZE * 3;
  const mixed = new Uint8Array(bytes.length);
  order.forEach((from, to) => {
    mixed.set(bytes.subarray(from * picture, (from + 1) * picture), to * picture);
  });
  const set = parsePixels(mixed, { width: SIZE, height: SIZE, channels: 3 });
  return imageSamples(
    { ...set, labels: order.map((at) => labels[at]) },
    { input: 'input', ...preprocess },
  );
}

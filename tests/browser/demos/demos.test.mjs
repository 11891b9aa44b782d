// The demos that are pages, built and served as on a host, in Chromium.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { makeModels } from '../../transformers/make.mjs';
import { FOLDER, skipTransformers } from '../../transformers/package.mjs';
import { BUILD } from '../browser.mjs';
import { check, missing, open, serveDemos, status } from './demo_site.mjs';
import { launchWithCamera } from './fake_camera.mjs';

const TRANSFORMERS = path.join(FOLDER, 'node_modules/@huggingface/transformers');

let site;
let browser;
before(async () => {
  site = await serveDemos('demos');
  browser = await launchWithCamera(path.join(BUILD, 'demos-face.y4m'));
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

/** The text of an element, once it matches. */
async function textOf(page, id, pattern) {
  await page.waitForFunction(
    ([name, source]) => new RegExp(source).test(document.getElementById(name).textContent),
    [id, pattern.source],
  );
  return page.textContent(`#${id}`);
}

test('camera: both networks find the face', { timeout: 300_000 }, async (t) => {
  const lacks = missing.find((line) => line.includes('face_detection'));
  if (lacks) return t.skip(lacks);
  const context = await browser.newContext({ permissions: ['camera'] });
  const { page, problems } = await open(context, `${site.url}camera/index.html`);
  await page.click('#start');
  await status(page, /^Both networks/, problems);
  for (const name of ['float', 'int8']) {
    t.diagnostic(`${name}: ${await textOf(page, `${name}-text`, /^1 face \(\d+ %\)$/)}`);
    t.diagnostic(await textOf(page, `${name}-rate`, /^\d+ a second, [\d.]+ ms each$/));
  }
  await check(page, 'camera-faces');
  await page.selectOption('#task', 'clothes');
  for (const name of ['float', 'int8'])
    await textOf(page, `${name}-text`, /^[A-Z][\w-]+ \(\d+ %\)$/);
  assert.match(await page.textContent('#int8-size'), /kB$/);
  await page.click('#start');
  await status(page, /^Stopped/);
  assert.deepEqual(problems, []);
  await context.close();
});

test('camera: says why there are no pictures', async () => {
  const context = await browser.newContext({ permissions: [] });
  const { page } = await open(context, `${site.url}camera/index.html`);
  await page.click('#start');
  await status(page, /may not use the camera. Allow it/);
  await check(page, 'camera-refused');
  await page.evaluate(() => {
    navigator.mediaDevices.getUserMedia = async () => {
      throw new DOMException('none', 'NotFoundError');
    };
  });
  await page.click('#start');
  await status(page, /There is no camera/);
  await page.evaluate(() => {
    Object.defineProperty(navigator, 'mediaDevices', { value: undefined });
  });
  await page.click('#start');
  await status(page, /must come over https/);
  await context.close();
});

/** Answers requests of huggingface.co by small models of random weights, in the form that optimum exports. */
async function serveHub(page, models) {
  const folder = path.join(BUILD, 'demo_hub');
  makeModels(folder, ['q8']);
  await page.route('https://huggingface.co/**', (route) => {
    const [name, file] = new URL(route.request().url()).pathname.slice(1).split('/resolve/main/');
    const local = models[name] && path.join(folder, models[name], file);
    if (!local || !existsSync(local)) return route.fulfill({ status: 404, headers: ANYWHERE });
    return route.fulfill({ path: local, headers: ANYWHERE });
  });
}

const ANYWHERE = {
  'Access-Control-Allow-Origin': '*',
  'Cross-Origin-Resource-Policy': 'cross-origin',
};

test('search: ranks texts by a model in a Worker', { timeout: 300_000 }, async () => {
  const { page, problems } = await open(browser, `${site.url}search/index.html`);
  await page.route('https://huggingface.co/**', (route) => route.abort());
  await page.click('button');
  await status(page, /cannot be fetched from huggingface.co \(no network\)/);
  await check(page, 'search-offline');
  await page.unroute('https://huggingface.co/**');
  problems.length = 0;
  await serveHub(page, { 'Xenova/all-MiniLM-L6-v2': 'requant-test/minilm' });
  // Random weights know no meanings, but the same words in another case are the nearest text.
  await page.fill('#question', 'the MUSÉUM is closed on mondays.');
  await page.click('button');
  await status(page, /^Found in \d+ ms/, problems);
  assert.match(await page.textContent('#found li'), /^The museum is closed.* likeness 1\.00$/);
  assert.equal(await page.locator('#found li').count(), 5);
  await check(page, 'search-found');
  assert.deepEqual(problems, []);
  await page.close();
});

const skip = skipTransformers();
test('transformers: a pipeline runs on Requant', { skip, timeout: 300_000 }, async () => {
  const { page, problems } = await open(browser, `${site.url}transformers/index.html`);
  const cdn = 'https://cdn.jsdelivr.net/npm/@huggingface/transformers@*/dist/**';
  await page.route(cdn, (route) => route.abort());
  await page.click('button');
  await status(page, /cannot be fetched from its CDN/);
  await check(page, 'transformers-offline');
  await page.unroute(cdn);
  problems.length = 0;
  await page.reload();
  await page.route(cdn, (route) => {
    const file = route
      .request()
      .url()
      .replace(/.*\/dist\//, '');
    return route.fulfill({ path: path.join(TRANSFORMERS, 'dist', file), headers: ANYWHERE });
  });
  await serveHub(page, {
    'Xenova/distilbert-base-uncased-finetuned-sst-2-english': 'requant-test/distilbert-sst2',
  });
  await page.click('button');
  await status(page, /^Answered in \d+ ms/, problems);
  assert.equal(await page.locator('#answer li').count(), 2);
  await check(page, 'transformers-answered');
  assert.deepEqual(
    // transformers.js asks for files that a model need not have, and gives up reading others.
    problems.filter((problem) => !/404|net::ERR_ABORTED/.test(problem)),
    [],
  );
  await page.close();
});

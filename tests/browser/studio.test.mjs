// The studio in Chromium, built and served as on a host.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { zipSync } from 'fflate';
import * as ort from 'onnxruntime-web';
import { writeNpy } from '../../dist/dataset/index.js';
import { InferenceSession, Tensor } from '../../dist/index.js';
import { SCREENS, problemsOf } from './accessible.mjs';
import { BUILD, launch, openPage } from './browser.mjs';
import { activations, padding } from '../tflite/schema.mjs';
import { Net, Random } from '../tflite/net.mjs';
import { droppedFiles, greyPng, pixelsOf, serveStudio } from './studio_site.mjs';
import { drop, go, idle, openSample, problemText, quantize, shown } from './studio_use.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

let site;
let browser;

before(async () => {
  site = await serveStudio();
  browser = await launch();
  mkdirSync(BUILD, { recursive: true });
});

after(async () => {
  await browser?.close();
  await site?.close();
});

async function open(options) {
  const opened = await openPage(browser, options);
  await opened.page.goto(site.url);
  await opened.page.waitForSelector('#bring-title');
  return opened;
}

/** The first class and its share in percent, of float and quantized, by the names of the pictures. */
const shownAnswers = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('.answer')].map((answer) => ({
      name: answer.querySelector('canvas').getAttribute('aria-label'),
      both: [...answer.querySelectorAll('.scores')].map((scores) =>
        [...scores.querySelector('li').children].map(({ textContent }) => textContent),
      ),
    })),
  );

/** The most likely class and its share in percent. */
function shareOf(logits) {
  const powers = Array.from(logits, Math.exp);
  const most = powers.indexOf(Math.max(...powers));
  return { most, share: (100 * powers[most]) / powers.reduce((a, b) => a + b) };
}

/** The answer of onnxruntime-web for a dropped picture: the class and its share in percent. */
async function answerOf(session, index) {
  const pixels = Float32Array.from(pixelsOf(index), (pixel) => pixel / 255);
  const { logits } = await session.run({
    image: new ort.Tensor('float32', pixels, [1, 1, 28, 28]),
  });
  return shareOf(logits.data);
}

test('a new user gets a proven model', { timeout: 900_000 }, async (t) => {
  const { page, problems } = await open({ viewport: { width: 1440, height: 900 } });
  const began = performance.now();
  await drop(page, droppedFiles());
  await page.waitForSelector('text=10 pictures');
  await idle(page);
  // The network was trained on pixels between 0 and 1.
  assert.match(await page.textContent('details.more summary'), /0 to 1/);
  await go(page, 'Recipe');
  await page.click('.recipe:has-text("Balanced 8 bits")');
  await quantize(page);
  t.diagnostic(`${((performance.now() - began) / 1000).toFixed(1)} s to the comparison`);
  const first = await shownAnswers(page);
  assert.equal(first.length, 10);
  assert.match(await page.textContent('.verdict'), /smaller/);

  await go(page, 'Graph');
  await page.fill('.graph-search input', 'block3/expand');
  await page.click('.found button >> nth=0');
  await page.click('.width:has-text("4")');
  await page.click('.node-panel button.primary');
  await page.waitForSelector('.verdict', { timeout: 300_000 });
  const second = await shownAnswers(page);
  assert.notDeepEqual(second, first);
  assert.match(await page.textContent('.needs'), /Only the layers that you changed/);

  await go(page, 'Take');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button:has-text("Save QOperator")'),
  ]);
  assert.equal(download.suggestedFilename(), 'clothes.qoperator.onnx');
  const session = await ort.InferenceSession.create(readFileSync(await download.path()));
  for (const { name, both } of second) {
    const index = Number(/\d+/.exec(name)[0]);
    const { most, share } = await answerOf(session, index);
    const [, [shownClass, shownShare]] = both;
    assert.equal(shownClass, `class ${most}`, name);
    assert.ok(Math.abs(parseFloat(shownShare) - share) < 1, `${name}: ${shownShare}, ${share}`);
  }
  const link = await page.textContent('[aria-labelledby=link-title] code');
  assert.match(link, /#recipe=balanced&bits=4%3A%2Fblock3%2Fexpand/);
  for (const [button, file] of [
    ['Save QDQ', /qdq\.onnx$/],
    ['Save QONNX', /qonnx\.onnx$/],
    ['Save C', /\.c\.zip$/],
    ['Save plan', /\.plan$/],
    ['Save config', /\.config\.json$/],
    ['Save record', /\.record\.json$/],
    ['Save report', /\.report\.html$/],
  ]) {
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      page.click(`button:has-text("${button}")`),
    ]);
    assert.match(saved.suggestedFilename(), file);
  }
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button:has-text("Save .tflite")'),
  ]);
  assert.equal(file.suggestedFilename(), 'clothes.tflite');
  const read = await InferenceSession.create(readFileSync(await file.path()));
  for (const { name, both } of second) {
    const pixels = Float32Array.from(pixelsOf(Number(/\d+/.exec(name)[0])), (pixel) => pixel / 255);
    const { logits } = await read.run({ image: new Tensor('float32', pixels, [1, 28, 28, 1]) });
    const { most, share } = shareOf(logits.data);
    assert.equal(both[1][0], `class ${most}`, name);
    assert.ok(Math.abs(parseFloat(both[1][1]) - share) < 2, `${name}: ${both[1][1]}, ${share}`);
  }
  read.dispose();
  assert.deepEqual(problems, []);

  // The link gives the next model the same bits.
  const other = await openPage(browser);
  await other.page.goto(link);
  await drop(other.page, droppedFiles(1));
  await other.page.waitForSelector('#samples-title');
  await go(other.page, 'Recipe');
  assert.match(await other.page.textContent('.own-widths'), /block3\/expand.*4 bits/);
  await other.page.close();
  await page.close();
});

test('every recipe runs', { timeout: 900_000 }, async (t) => {
  const { page, problems } = await open();
  await openSample(page);
  for (const name of [
    'Most accurate',
    'Integers only',
    'ONNX Runtime',
    'Small 4',
    'training',
    'blocks',
    'Weights only',
  ]) {
    await go(page, 'Recipe');
    await page.click(`.recipe:has-text("${name}")`);
    const began = performance.now();
    await quantize(page);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    t.diagnostic(`${name}: ${seconds} s: ${await page.textContent('.verdict p')}`);
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test('reads pictures in folders, archives and arrays', { timeout: 300_000 }, async () => {
  const { page, problems } = await open();
  const [model] = droppedFiles(0);
  const picture = (index) => greyPng(pixelsOf(index), 28, 28);
  const archive = zipSync({
    'clothes/shoes/a.png': picture(0),
    'clothes/shoes/b.png': picture(9),
    'clothes/others/c.png': picture(1),
    '__MACOSX/clothes/others/._c.png': Buffer.from('no picture'),
  });
  await drop(page, [model, { name: 'all.zip', mimeType: '', buffer: Buffer.from(archive) }]);
  await page.waitForSelector('text=3 pictures in 2 folders');
  assert.match(await page.textContent('#main'), /2 classes: others, shoes/);
  const pixels = Float32Array.from({ length: 5 * 784 }, (_, at) => pixelsOf(0)[at % 784] / 255);
  const array = writeNpy(new Tensor('float32', pixels, [5, 1, 28, 28]));
  await drop(page, [{ name: 'some.npy', mimeType: '', buffer: Buffer.from(array) }]);
  await page.waitForSelector('text=5 samples of some.npy');
  await idle(page);
  await go(page, 'Recipe');
  await quantize(page);
  assert.equal(await page.locator('.answer').count(), 5);
  const other = writeNpy(new Tensor('float32', new Float32Array(48), [1, 3, 4, 4]));
  await drop(page, [{ name: 'other.npy', mimeType: '', buffer: Buffer.from(other) }]);
  await page.waitForSelector('.problem:has-text("another shape")');
  assert.deepEqual(problems, []);
  await page.close();
});

test('errors are in plain words', async () => {
  const { page } = await open({ viewport: { width: 390, height: 844 } });
  const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await drop(page, [file('model.safetensors', 'no model')]);
  await page.waitForSelector('.problem');
  assert.match(await problemText(page), /another format.*ONNX/);
  await drop(page, [file('broken.onnx', 'no model')]);
  await page.waitForSelector('.problem:has-text("not a valid ONNX")');
  await drop(page, droppedFiles(1).slice(1));
  await page.waitForSelector('.problem:has-text("model is missing")');
  assert.deepEqual(await problemsOf(page), []);
  await drop(page, [droppedFiles(0)[0], file('broken.png', 'no picture')]);
  await page.waitForSelector('.problem:has-text("picture cannot be read")');
  await page.click('button[aria-label="Close this message"]');
  await go(page, 'Recipe');
  await page.waitForSelector('button:has-text("Bring samples")');
  await page.close();
});

test('a TFLite model is quantized like an ONNX model', { timeout: 120_000 }, async () => {
  const net = new Net(new Random(4), false);
  const x = net.input('float32', [1, 28, 28, 1], 0, 1);
  const weights = net.weights('float32', [8, 3, 3, 1], 0);
  const conv = net.node(
    'CONV_2D',
    [x, weights, net.bias(x, weights, 8)],
    'float32',
    [1, 14, 14, 8],
    { padding: padding.SAME, strideW: 2, strideH: 2, activation: activations.RELU },
  );
  const axes = net.ints([1, 2]);
  const mean = net.node('MEAN', [conv, axes], 'float32', [1, 8], { keepDims: false });
  net.done(mean);
  const { page, problems } = await open();
  const buffer = Buffer.from(net.bytes());
  await drop(page, [{ name: 'clothes.tflite', mimeType: '', buffer }, ...droppedFiles(5).slice(1)]);
  await idle(page);
  await go(page, 'Recipe');
  await quantize(page);
  assert.equal(await page.locator('.answer').count(), 5);
  assert.deepEqual(problems, []);
  await page.close();
});

test('cancels, and starts again', { timeout: 300_000 }, async () => {
  const { page, problems } = await open();
  await openSample(page);
  await go(page, 'Recipe');
  await page.click('.recipe:has-text("training")');
  await page.click('button.primary:has-text("Quantize")');
  await page.waitForSelector('.job:has-text("Training")');
  await page.click('.job button');
  await idle(page);
  assert.equal(await page.locator('.verdict, .problem').count(), 0);
  await page.click('.recipe:has-text("Balanced")');
  await quantize(page);
  assert.deepEqual(problems, []);
  await page.close();
});

test('works by the keyboard alone', { timeout: 300_000 }, async () => {
  const { page, problems } = await open();
  const focused = () =>
    page.evaluate(() => {
      const { activeElement: element } = document;
      if (element.matches('body, main')) return '';
      const label = element.labels?.[0]?.textContent ?? '';
      return `${element.getAttribute('aria-label') ?? ''} ${element.textContent} ${label}`;
    });
  const tabTo = async (text) => {
    for (let presses = 0; presses < 120; presses++) {
      if ((await focused()).includes(text)) return;
      await page.keyboard.press('Tab');
    }
    assert.fail(`no Tab leads to ${text}`);
  };
  const press = async (text, key = 'Enter') => {
    await tabTo(text);
    await page.keyboard.press(key);
  };
  await press('Try one that tells');
  await shown(page, '.preview canvas');
  await idle(page);
  await press('See the graph');
  await page.waitForSelector('.graph-canvas');
  await tabTo('Graph of fashion_mnist.onnx,');
  for (const key of ['Home', 'ArrowDown', 'ArrowDown', 'ArrowUp', '+', '-', '0']) {
    await page.keyboard.press(key);
  }
  await page.waitForSelector('#node-title:has-text("Conv")');
  // Keys that come faster than frames lead to the same place.
  await page.evaluate(async () => {
    const canvas = document.querySelector('.graph-canvas');
    for (const key of ['End', 'Home', 'ArrowDown', 'ArrowDown', 'ArrowUp']) {
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      for (let turns = 0; turns < 20; turns++) await Promise.resolve();
    }
  });
  await page.waitForSelector('#node-title:has-text("Conv")');
  await page.keyboard.press('Enter');
  await tabTo('As the recipe');
  await page.keyboard.press('ArrowRight');
  await press('Recipe');
  await page.waitForSelector('#choose-title');
  await tabTo('Balanced 8 bits');
  await press('Quantize');
  await page.waitForSelector('.verdict', { timeout: 200_000 });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'believe-title');
  await press('Take it');
  await page.waitForSelector('#take-title');
  await tabTo('Save QDQ');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.keyboard.press('Enter'),
  ]);
  assert.match(download.suggestedFilename(), /qdq\.onnx$/);
  assert.deepEqual(problems, []);
  await page.close();
});

test('rules of accessible pages in every room, on every screen', { timeout: 900_000 }, async () => {
  const { page, problems } = await open();
  const check = async (state) => {
    for (const { name, viewport, colorScheme } of SCREENS) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.waitForTimeout(150);
      assert.deepEqual(await problemsOf(page), [], `${state}, ${name}`);
      await page.screenshot({ path: path.join(BUILD, `studio-${state}-${name}.png`) });
    }
  };
  await check('welcome');
  await openSample(page);
  await page.click('details.more summary');
  await check('bring');
  await go(page, 'Graph');
  await page.waitForSelector('.graph-canvas');
  await check('graph');
  await page.fill('.graph-search input', 'conv');
  await check('search');
  await page.click('.found button >> nth=0');
  await check('operator');
  await page.click('.width:has-text("4")');
  await go(page, 'Recipe');
  await page.waitForSelector('.own-widths');
  await check('recipe');
  await quantize(page);
  await page.waitForSelector('.answer canvas');
  await check('compare');
  await go(page, 'Graph');
  await page.waitForSelector('.graph-canvas');
  await page.selectOption('select[aria-label="Colour operators by"]', 'error');
  await check('errors');
  await go(page, 'Take');
  await page.waitForSelector('#code-title');
  await check('take');
  assert.deepEqual(problems, []);
  await page.close();
});

// A new user in every browser, with a real network that the studio never saw: balanced recipe, comparison, other bits
// for one layer, download; onnxruntime-web runs the file. Only with REQUANT_LONG=1, and with ../shared. What happened is
// written to build/studio-user.json.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor } from '../../../dist/index.js';
import { scalings } from './scalings.mjs';
import { BUILD, ROOT } from '../browser.mjs';
import { browsers } from '../browsers.mjs';
import { useIn } from './in_browser.mjs';
import { buildStudio } from '../studio_site.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const SHARED = path.join(ROOT, '../shared');
const MODEL = path.join(SHARED, 'models/mobilenet_v2_100_224_dequant/model.onnx');
const PHOTOS = path.join(SHARED, 'data/imagenet/calib_64.bin');
const SIDE = 224;
const SIZE = SIDE * SIDE * 3;

/** Points by which the share of a class may differ. */
const MOST_POINTS = 5;

/** Seconds to the comparison with 64 pictures. */
const MOST_SECONDS = { Chromium: 20, Firefox: 20, WebKit: 40 };

const skip = !process.env.REQUANT_LONG
  ? 'only with REQUANT_LONG=1'
  : !existsSync(MODEL) && 'needs ../shared';

const record = {};

before(async () => {
  if (!skip) await buildStudio();
});

after(() => {
  if (!skip) {
    writeFileSync(path.join(BUILD, 'studio-user.json'), `${JSON.stringify(record, null, 2)}\n`);
  }
});

/** A photo as the network's input, by the scaling that the studio found. */
function inputOf(pixels, { scale, mean, std }) {
  const plane = SIDE * SIDE;
  const values = new Float32Array(SIZE);
  const of = (list, channel) => list[list.length === 1 ? 0 : channel];
  for (let at = 0; at < SIZE; at++) {
    const channel = at % 3;
    values[channel * plane + Math.floor(at / 3)] =
      (pixels[at] * scale - of(mean, channel)) / of(std, channel);
  }
  return values;
}

const DIMS = [1, 3, SIDE, SIDE];

/** The most likely class, and its share in percent. */
function answerOf(data) {
  const most = data.indexOf(Math.max(...data));
  const powers = Array.from(data, (score) => Math.exp(score - data[most]));
  return { most, share: 100 / powers.reduce((a, b) => a + b) };
}

/** What onnxruntime-web says to a picture, beside the same file in this engine. */
async function answersOf(file) {
  const bytes = Buffer.from(file, 'base64');
  const theirs = await ort.InferenceSession.create(bytes);
  const ours = await InferenceSession.create(bytes);
  const [input, output] = [ours.inputNames[0], ours.outputNames[0]];
  return {
    of: async (values) => {
      const { [output]: answer } = await theirs.run({
        [input]: new ort.Tensor('float32', values, DIMS),
      });
      const { [output]: own } = await ours.run({ [input]: new Tensor('float32', values, DIMS) });
      return { data: answer.data, own: own.data };
    },
    async release() {
      await theirs.release();
      ours.dispose();
    },
  };
}

/**
 * Compares the answers that the page showed with those of onnxruntime-web on the file that it gave: lines for what
 * differs, and the largest difference of shares in points.
 */
async function compared({ file, scaling, second }) {
  const answers = await answersOf(file);
  const photos = readFileSync(PHOTOS);
  const wrong = [];
  let worst = 0;
  for (const [name, [, shown]] of Object.entries(second)) {
    const index = Number(/\d+/.exec(name)[0]);
    const pixels = photos.subarray(index * SIZE, (index + 1) * SIZE);
    const { data, own } = await answers.of(inputOf(pixels, scalings[scaling]));
    // The codes are the same; the last layer's floats are sums in another order.
    if (data.some((score, at) => !(Math.abs(score - own[at]) < 1e-4)))
      wrong.push(`${name}: this engine has other scores than onnxruntime-web`);
    const { most, share } = answerOf(data);
    if (!shown.startsWith(`class ${most}`)) wrong.push(`${name}: ${shown}, not class ${most}`);
    worst = Math.max(worst, Math.abs(parseFloat(shown.slice(`class ${most}`.length)) - share));
  }
  await answers.release();
  // The studio shows the network in integers alone, which round some sums otherwise than floats do.
  if (!(worst < MOST_POINTS)) wrong.push(`shares differ by ${worst} points`);
  return { wrong, worst };
}

const holds = async (result) => !result.error && (await compared(result)).wrong.length === 0;

for (const browser of browsers) {
  // WebKit may need four runs, and a busy machine several times as long for each.
  test(browser.name, { skip, timeout: 5_400_000 }, async (t) => {
    const [load] = os.loadavg();
    const busy = load > os.availableParallelism() && load.toFixed(1);
    const result = await useIn(browser, 'studio_user.html', t, holds);
    assert.equal(result.error, undefined);
    const { first, second, note, verdict, many, seconds, steps, agent } = result;
    for (const step of steps) t.diagnostic(`${step.step}: ${step.seconds} s`);
    t.diagnostic(verdict);
    t.diagnostic(`64 pictures, ${seconds.toFixed(1)} s: ${many}`);
    assert.equal(Object.keys(first).length, 10);
    assert.notDeepEqual(second, first);
    assert.match(note, /Only the layers that you changed/);
    const { wrong, worst } = await compared(result);
    t.diagnostic(`onnxruntime-web: the same classes, shares differ by at most ${worst.toFixed(2)}`);
    assert.deepEqual(wrong, []);
    record[browser.name] = { agent, load, steps, verdict, seconds, many, worst };
    if (busy) t.diagnostic(`the machine was busy (load ${busy}): the time says nothing`);
    else assert.ok(seconds < MOST_SECONDS[browser.name], `${seconds} s`);
  });
}

// How the studio reads boxes, masks and neighbours from outputs, by answers that are known.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { createServer } from 'vite';
import { Tensor } from '../../../dist/index.js';
import { studioConfig } from '../../../web/scripts/studio.mjs';

let server;
let detect;
let task;

before(async () => {
  server = await createServer({
    ...studioConfig(),
    logLevel: 'error',
    appType: 'custom',
    server: { middlewareMode: true, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true },
  });
  detect = await server.ssrLoadModule('/engine/detect.ts');
  task = await server.ssrLoadModule('/engine/task.ts');
});

after(() => server?.close());

const floats = (values, dims) => new Tensor('float32', Float32Array.from(values), dims);
const near = (actual, expected) =>
  actual.forEach((value, at) => assert.ok(Math.abs(value - expected[at]) < 1e-5, `${actual}`));

const SIDE = { width: 128, height: 128 };

test('boxes beside scores, with a background', () => {
  const count = 6;
  const places = new Array(count).fill([0.9, 0.9, 0.95, 0.95]);
  places[2] = [0.1, 0.2, 0.5, 0.6];
  places[3] = [0.12, 0.2, 0.5, 0.6];
  const scores = new Array(count).fill([0.9, 0.1]);
  scores[2] = [0.2, 0.8];
  scores[3] = [0.1, 0.9];
  const outputs = {
    scores: floats(scores.flat(), [1, count, 2]),
    boxes: floats(places.flat(), [1, count, 4]),
  };
  assert.ok(detect.hasBoxes(outputs, SIDE));
  const [first, ...others] = detect.boxesOf(outputs, SIDE);
  assert.deepEqual(others, []);
  near(first.box, [0.12, 0.2, 0.5, 0.6]);
  assert.equal(first.label, 1);
});

test('faces by their anchors', () => {
  const places = new Float32Array(896 * 16);
  const logits = new Float32Array(896).fill(-9);
  // The first of the six anchors in the last cell of 8 x 8, whose middle is 15/16.
  logits[890] = 9;
  places.set([-64, -32, 16, 32], 890 * 16);
  const outputs = {
    regressors: floats(places, [1, 896, 16]),
    classificators: floats(logits, [1, 896, 1]),
  };
  const [face] = detect.boxesOf(outputs, SIDE);
  const [x, y] = [15 / 16 - 0.5, 15 / 16 - 0.25];
  near(face.box, [x - 1 / 16, y - 1 / 8, x + 1 / 16, y + 1 / 8]);
});

test('columns and rows of YOLO', () => {
  const count = 400;
  const columns = new Float32Array(6 * count);
  [64, 32, 64, 16, 0.1, 0.9].forEach((value, field) => (columns[field * count + 7] = value));
  const [one] = detect.boxesOf({ output0: floats(columns, [1, 6, count]) }, SIDE);
  near(one.box, [0.25, 24 / 128, 0.75, 40 / 128]);
  assert.equal(one.label, 1);
  const rows = new Float32Array(7 * count);
  rows.set([64, 32, 64, 16, 0.8, 0.9, 0.2], 9 * 7);
  const [other] = detect.boxesOf({ output0: floats(rows, [1, count, 7]) }, SIDE);
  near(other.box, [0.25, 24 / 128, 0.75, 40 / 128]);
  near([other.score], [0.72]);
  assert.equal(other.label, 0);
});

test('how alike boxes are', () => {
  const at = (left, label = 0) => ({ box: [left, 0, left + 1, 1], label, score: 1 });
  assert.equal(detect.sameBoxes([], []), 1);
  assert.equal(detect.sameBoxes([at(0)], [at(0.2)]), 1);
  assert.equal(detect.sameBoxes([at(0)], [at(0.2, 1)]), 0);
  assert.equal(detect.sameBoxes([at(0), at(5)], [at(0)]), 0.5);
});

test('masks of one and of several channels', () => {
  const pixels = Float32Array.from({ length: 1024 }, (_, at) => Number(at < 256));
  const one = task.maskOf({ mask: floats(pixels, [1, 32, 32, 1]) });
  assert.equal(
    one.classes.reduce((a, b) => a + b),
    256,
  );
  const scores = new Float32Array(3 * 1024).fill(-1);
  scores.fill(2, 2 * 1024 + 128, 2 * 1024 + 384);
  const three = task.maskOf({ mask: floats(scores, [1, 3, 32, 32]) });
  assert.deepEqual([three.classes[0], three.classes[200]], [0, 2]);
  const other = { ...one, classes: one.classes.map((_, at) => Number(at >= 128 && at < 384)) };
  assert.equal(task.sameMask(one, other), 128 / 384);
});

test('the task follows from the outputs', () => {
  const info = { inputs: [{ dims: [1, 3, 64, 64] }] };
  const guess = (dims, name = 'y', boxes = false) => {
    const size = dims.reduce((a, b) => a * b);
    return task.guessTask({ [name]: floats(new Float32Array(size), dims) }, info, boxes);
  };
  assert.equal(guess([1, 10]), 'classes');
  assert.equal(guess([1, 128], 'embedding'), 'neighbours');
  assert.equal(guess([1, 2, 32, 32]), 'masks');
  assert.equal(guess([1, 400, 6], 'y', true), 'boxes');
  assert.equal(guess([1, 7, 9]), 'numbers');
  assert.deepEqual(
    task.nearest(
      [
        [1, 0],
        [0.9, 0.1],
        [0, 1],
      ].map((one) => Float32Array.from(one)),
      1,
    ),
    [[1], [0], [1]],
  );
});

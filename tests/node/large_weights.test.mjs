// Large weights are in the engine's memory once: as the file has them, or packed.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  engineInfo,
  loadModel,
  quantizeWeights,
} from '../../dist/index.js';
import { productsModel } from './large_model.mjs';
import { isError } from './support.mjs';

const WIDTH = 768;
const LAYERS = 6;
const BYTES = WIDTH * WIDTH * 4 * LAYERS;
const file = productsModel(WIDTH, LAYERS);

const liveBytes = async () => (await engineInfo()).liveBytes;

function feed(batch, tokens) {
  const data = new Float32Array(batch * tokens * WIDTH).map((_, i) => Math.sin(i * 0.7));
  return { x0: new Tensor('float32', data, [batch, tokens, WIDTH]) };
}

async function answer(session, batch, tokens) {
  return Object.values(await session.run(feed(batch, tokens)))[0].data;
}

const SHAPES = [
  [1, 4],
  [1, 1],
  [2, 3],
  [1, 7],
  [1, 9],
  [3, 20],
  [1, 4],
];

/** The answers of sessions of fixed shapes, which keep no model. */
async function answersOf(model) {
  const answers = [];
  for (const [B, S] of SHAPES) {
    const session = await InferenceSession.create(model, { freeDimensionOverrides: { B, S } });
    answers.push(await answer(session, B, S));
    session.dispose();
  }
  return answers;
}

/** Runs all shapes, and returns the most that was held at any time over what it should be. */
async function runAll(session, before, answers) {
  let worst = 0;
  // All plans run in the largest arena that one of them needs, and feeds have memory that is used again.
  let [arenas, values] = [0, 0];
  for (const [i, [batch, tokens]] of SHAPES.entries()) {
    assert.deepEqual(await answer(session, batch, tokens), answers[i], `${batch} x ${tokens}`);
    const { arena, packedWeights } = session.plan().memory;
    arenas = Math.max(arenas, arena);
    values = Math.max(values, 2 * batch * tokens * WIDTH * 4);
    const held = (await liveBytes()) - before - values;
    worst = Math.max(worst, held / (1.1 * packedWeights + arenas));
  }
  return worst;
}

describe('a session of open shapes', () => {
  let answers;
  before(async () => {
    const model = await loadModel(file);
    answers = await answersOf(model);
    model.dispose();
  });

  test('holds packed weights alone', async () => {
    const begin = await liveBytes();
    const session = await InferenceSession.create(file);
    const worst = await runAll(session, begin, answers);
    assert.ok(worst <= 1, `${worst} times what it may take`);
    session.dispose();
    assert.ok((await liveBytes()) <= begin);
  });

  test('of a model that is disposed of, too', async () => {
    const begin = await liveBytes();
    const model = await loadModel(file);
    const sessions = [];
    for (let i = 0; i < 2; i++) sessions.push(await InferenceSession.create(model));
    await answer(sessions[0], 1, 4);
    const { packedWeights } = sessions[0].plan().memory;
    assert.ok((await liveBytes()) - begin <= BYTES + 1.1 * packedWeights);
    model.dispose();
    // The other session has not packed yet, and needs the file's weights.
    await answer(sessions[1], 1, 4);
    for (const session of sessions) {
      const worst = await runAll(session, begin, answers);
      assert.ok(worst <= 1.05, `${worst} times what it may take`);
    }
    for (const session of sessions) session.dispose();
    assert.ok((await liveBytes()) <= begin);
  });

  test('makes weights again for a shape whose kernel reads them', async () => {
    const session = await InferenceSession.create(file);
    await answer(session, 1, 4);
    assert.equal((await answer(session, 0, 4)).length, 0);
    for (const [i, [batch, tokens]] of SHAPES.entries()) {
      assert.deepEqual(await answer(session, batch, tokens), answers[i]);
    }
    session.dispose();
  });

  test('holds weights in blocks once, too', async () => {
    const model = await loadModel(file);
    for (const bits of [4, 8]) {
      const quantized = await quantizeWeights(model, { bits });
      const wanted = await answersOf(quantized);
      const onnx = quantized.toOnnx();
      quantized.dispose();
      const begin = await liveBytes();
      const session = await InferenceSession.create(onnx);
      const worst = await runAll(session, begin, wanted);
      assert.ok(worst <= 1, `${bits} bits: ${worst} times what it may take`);
      session.dispose();
    }
    model.dispose();
  });
});

describe('the weights of a file', () => {
  let folder;
  const at = (name) => path.join(folder, name);
  before(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    writeFileSync(at('m.onnx'), file);
  });
  after(() => rmSync(folder, { recursive: true }));

  test('are read one by one, from memory, a path and a Blob', async () => {
    const forms = [];
    for (const source of [file, at('m.onnx'), new Blob([file])]) {
      const begin = await liveBytes();
      const steps = [];
      const model = await loadModel(source, { onProgress: (step) => steps.push(step) });
      const held = (await liveBytes()) - begin;
      assert.ok(held < 1.01 * BYTES, `${held} bytes`);
      const weights = steps.filter(({ phase }) => phase === 'weights').at(-1);
      // Bytes that are in memory need not be read.
      const read = source === file ? undefined : { phase: 'weights', done: BYTES, total: BYTES };
      assert.deepEqual(weights, read);
      forms.push(model.toOnnx());
      model.dispose();
    }
    for (const form of forms) assert.deepEqual(form, forms[0]);
  });

  test('go one by one while a session of fixed shapes packs them', async () => {
    const begin = await liveBytes();
    const session = await InferenceSession.create(at('m.onnx'), {
      freeDimensionOverrides: { B: 1, S: 4 },
    });
    const { arena, packedWeights } = session.plan().memory;
    assert.ok((await liveBytes()) - begin <= 1.1 * packedWeights + arena);
    session.dispose();
  });

  test('that are cut off or damaged are refused as small ones are', async () => {
    for (const size of [file.length - 5, file.length / 2, 5 << 20]) {
      const bytes = file.subarray(0, size);
      writeFileSync(at('cut.onnx'), bytes);
      for (const source of [bytes, at('cut.onnx'), new Blob([bytes])]) {
        await assert.rejects(loadModel(source), isError('INVALID_MODEL'));
      }
    }
    // Other lengths of fields, and kinds that no message has.
    const damaged = Buffer.from(file);
    for (let place = 3; place < 200; place += 7) {
      const kept = damaged[place];
      damaged[place] = 255 - kept;
      await loadModel(damaged).then(
        (model) => model.dispose(),
        (error) => assert.ok(isErrorOfFile(error), error.stack),
      );
      damaged[place] = kept;
    }
    const noise = new Uint8Array(5 << 20).fill(0x3a);
    await assert.rejects(loadModel(noise), isError('INVALID_MODEL'));
  });
});

function isErrorOfFile({ code }) {
  return (
    code === 'INVALID_MODEL' ||
    code === 'UNSUPPORTED' ||
    code === 'SHAPE_MISMATCH' ||
    code === 'TYPE_MISMATCH'
  );
}

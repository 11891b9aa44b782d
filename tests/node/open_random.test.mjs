// Sessions of open shapes compute the bits of sessions of one shape: random layers (tests/tflite/write_random.mjs) with
// an open batch, in float and quantized in every form that the planner lowers differently.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  parseModel,
  quantize,
  quantizeDynamic,
} from '../../dist/index.js';
import { randomGraph } from '../tflite/write_random.mjs';
import { randomSource } from './ort_operators.mjs';
import { roundsOf } from './rounds.mjs';

const [FIRST, END] = roundsOf(22, 900);
const BATCHES = [2, 3, 1, 5, 4, 2, 7, 3];

/** Quantizes a model; `feeds(batch)` makes samples. */
const calibrated = (config) => (model, feeds) =>
  quantize(model, { config, calibration: [feeds(2), feeds(2), feeds(2)] });

const FORMS = {
  float: (model) => model,
  'static 8 bits': calibrated({}),
  'affine weights': calibrated({ weights: { symmetric: false } }),
  'activations of 16 bits': calibrated({ activations: { bits: 16 } }),
  '4 bits': calibrated({ weights: { bits: 4 }, activations: { bits: 4 } }),
  dynamic: (model) => quantizeDynamic(model, { perToken: false }),
  'dynamic by row': (model) => quantizeDynamic(model),
  '7-bit weights': (model) => quantizeDynamic(model, { weightBits: 7 }),
};

function feedsFor([, ...rest], seed) {
  const random = randomSource(seed * 7919 + 1);
  return (batch) => {
    const data = Float32Array.from(
      { length: rest.reduce((a, b) => a * b, batch) },
      () => 2 * random() - 1,
    );
    return { x: new Tensor('float32', data, [batch, ...rest]) };
  };
}

/** The outputs' numbers, or the code of the error: a Reshape may name a batch that others do not have. */
async function answer(session, feeds) {
  try {
    const results = await session.run(feeds);
    return Object.values(results).map(({ dims, data }) => ({ dims: [...dims], data }));
  } catch (error) {
    return error.code;
  }
}

async function expectSame(bytes, feeds, name) {
  const open = await InferenceSession.create(bytes);
  for (const batch of BATCHES) {
    const given = feeds(batch);
    const got = await answer(open, given);
    let wanted;
    try {
      const one = await InferenceSession.create(bytes, { freeDimensionOverrides: { N: batch } });
      wanted = await answer(one, given);
      await one.release();
    } catch (error) {
      wanted = error.code;
    }
    assert.notEqual(got, 'INTERNAL', name);
    assert.deepEqual(got, wanted, `${name}, batch ${batch}`);
  }
  await open.release();
}

describe('open shapes of random layers', () => {
  for (const [form, make] of Object.entries(FORMS)) {
    test(form, async () => {
      let ran = 0;
      for (let seed = FIRST; seed < END; ++seed) {
        const one = randomGraph(seed);
        const dims = one.inputs.x;
        const feeds = feedsFor(dims, seed);
        const text = one.text.replace(
          `[${dims.join(', ')}]`,
          `[${['N', ...dims.slice(1)].join(', ')}]`,
        );
        const model = await parseModel(text);
        try {
          const made = await make(model, feeds);
          await expectSame(made.toOnnx(), feeds, `${one.name}, ${form}`);
          ++ran;
        } catch (error) {
          // The samples are of another batch than a Reshape of the graph names.
          if (error.code !== 'SHAPE_MISMATCH') throw error;
        } finally {
          model.dispose();
        }
      }
      assert.ok(ran > (END - FIRST) / 2, `${ran} graphs ran`);
    });
  }
});

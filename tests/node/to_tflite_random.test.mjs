// toTflite() of random layers on odd sizes (tests/tflite/write_random.mjs), in float and quantized: this engine reads
// the files back. REQUANT_LONG=1: LiteRT.js runs them as well, which needs Chromium, and a network from which it is
// installed.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { litertFolder, openLiteRt } from '../tflite/litert.mjs';
import { check, prepare } from '../tflite/write_check.mjs';
import { randomGraph } from '../tflite/write_random.mjs';
import { inLiteRt, readBack } from '../tflite/written.mjs';
import { roundsOf } from './rounds.mjs';

const skipShort = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';
const [FIRST, END] = roundsOf(44, 900);

/** Runs each file; a difference of one layer may reach the layers behind it. */
async function run(outputsOf) {
  const wrong = [];
  for (let seed = FIRST; seed < END; ++seed) {
    const one = randomGraph(seed);
    for (const codes of [false, true]) {
      try {
        const made = await prepare(one, codes);
        check(one.name, made, await outputsOf(made), one.layers);
      } catch (error) {
        wrong.push(`${one.name}, ${codes ? 'quantized' : 'float'}: ${error.message}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
}

describe('random layers answer as their model', () => {
  test('read back', () => run(({ file, feeds }) => readBack(file, feeds)));

  test('in LiteRT.js', { skip: skipShort }, async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const litert = await openLiteRt(folder);
    try {
      await run(({ file, feeds }) => inLiteRt(litert, file, feeds));
    } finally {
      await litert.close();
    }
  });
});

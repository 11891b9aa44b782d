// Holds a file of toTflite() against the model that it was written from.

import assert from 'node:assert/strict';
import { InferenceSession, parseModel, quantize } from '../../dist/index.js';
import { asTensors, randomFeeds } from './written.mjs';

/** The largest difference of two lists of numbers; NaN if one is not a number. */
export function largest(a, b) {
  assert.equal(a.length, b.length);
  let worst = 0;
  a.forEach((value, i) => {
    const error = Math.abs(Number(value) - Number(b[i]));
    if (!(error <= worst)) worst = error;
  });
  return worst;
}

/** The largest number, or 1. */
export const sizeOf = (data) =>
  data.reduce((most, value) => Math.max(most, Math.abs(Number(value))), 1);

/** A case's model, as it is or quantized for LiteRT, with its answers to random feeds. */
export async function prepare({ text, inputs }, quantized) {
  const model = await parseModel(text);
  const feeds = randomFeeds(inputs, 5);
  let subject = model;
  let step;
  if (quantized) {
    const calibration = [1, 2, 3].map((seed) => asTensors(randomFeeds(inputs, seed)));
    subject = await quantize(model, { calibration, config: { target: 'tflite' } });
    step = subject.toTflite({ ends: 'codes' }).report.outputs[0].scale;
  }
  const session = await InferenceSession.create(subject);
  const answers = await session.run(asTensors(feeds));
  await session.release();
  return { feeds, answers, file: await subject.toTflite(), step };
}

/** Floats may differ by 1e-5 of the largest, codes by `steps`. */
export function check(name, { answers, step }, outputs, steps = 1) {
  for (const [output, data] of Object.entries(outputs)) {
    const wanted = answers[output].data;
    const found = largest(data, wanted) / (step ?? sizeOf(wanted));
    assert.ok(
      found <= (step === undefined ? 1e-5 : steps + 0.01),
      `${name}, ${output}: ${found} ${step === undefined ? 'of the largest' : 'steps'}`,
    );
  }
}

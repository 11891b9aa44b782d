// Arguments that would be ignored, or end in an error of the JavaScript engine, are refused by name.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Calibration, compare, loadModel, quantize } from '../../dist/index.js';
import { MODEL, calibration, isError, testImages } from './support.mjs';

const model = await loadModel(MODEL);
const images = calibration(4);
const quantized = await quantize(model, { calibration: images, analyze: true });

const refused = (value, details = {}) => isError('INVALID_ARGUMENT', { value, ...details });

test('signals that are none', async () => {
  const signal = {};
  const wrong = refused('options.signal', { message: /AbortSignal/ });
  await assert.rejects(loadModel(MODEL, { signal }), wrong);
  await assert.rejects(quantize(model, { calibration: images, signal }), wrong);
  const dataset = [{ feeds: testImages(1)[0] }];
  await assert.rejects(compare(model, quantized, { dataset, signal }), wrong);
  const steps = await Calibration.create(model);
  steps.add(0, images[0]);
  await assert.rejects(steps.finish({ signal }), wrong);
  await assert.rejects(steps.finish({ onprogress: () => {} }), refused('options.onprogress'));
  (await steps.finish()).dispose(); // which was not used up
});

test('int4 and int2 of formats that have none', () => {
  const narrow = (format, key) => () => quantized.toOnnx({ format, [key]: true });
  assert.throws(narrow('qoperator', 'int4'), refused('options.int4'));
  assert.throws(narrow('qonnx', 'int2'), refused('options.int2'));
});

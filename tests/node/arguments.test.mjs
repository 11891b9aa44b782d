// Arguments that would be ignored, or would end in an error of the JavaScript engine, are rejected by name.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import {
  Calibration,
  InferenceSession,
  compare,
  configOf,
  diagnose,
  loadModel,
  mergeTunings,
  mixedPrecision,
  quantize,
  scalesOf,
} from '../../dist/index.js';
import * as dataset from '../../dist/dataset/index.js';
import { openDataset } from '../../dist/dataset/node.js';
import { MODEL, ROOT, calibration, isError, testImages } from './support.mjs';

const model = await loadModel(MODEL);
const images = calibration(4);
const quantized = await quantize(model, { calibration: images, analyze: true });

const refused = (value, details = {}) => isError('INVALID_ARGUMENT', { value, ...details });

test('signals that are none', async () => {
  const signal = {};
  const wrong = refused('options.signal', { message: /AbortSignal/ });
  await assert.rejects(loadModel(MODEL, { signal }), wrong);
  await assert.rejects(quantize(model, { calibration: images, signal }), wrong);
  const samples = [{ feeds: testImages(1)[0] }];
  await assert.rejects(compare(model, quantized, { dataset: samples, signal }), wrong);
  const steps = await Calibration.create(model);
  steps.add(0, images[0]);
  await assert.rejects(steps.finish({ signal }), wrong);
  await assert.rejects(steps.finish({ onprogress: () => {} }), refused('options.onprogress'));
  (await steps.finish()).dispose(); // the rejected calls did not use up the calibration
});

test('int4 and int2 of formats that have none', () => {
  const narrow = (format, key) => () => quantized.toOnnx({ format, [key]: true });
  assert.throws(narrow('qoperator', 'int4'), refused('options.int4'));
  assert.throws(narrow('qonnx', 'int2'), refused('options.int2'));
});

test('keys of a config that say nothing where they stand', async () => {
  const cases = [
    [{ weights: { axis: 3 } }, 'config.weights.axis'],
    [{ weights: { axis: 1 } }, 'config.weights.axis'],
    [{ weights: { momentum: 0.5 } }, 'config.weights.momentum'],
    [{ operatorTypes: { Conv: { weights: { stopUpdateAfter: 1 } } } }, /Conv.*stopUpdateAfter/],
    [{ activations: { format: 'e4m3', bits: 4 } }, 'config.activations.bits'],
    [{ activations: { format: 'e5m2', symmetric: false } }, 'config.activations.symmetric'],
    [{ scales: { image: { scale: 0.01, zero_point: 1.5 } } }, /image.*zero_point/],
    [{ scales: { image: { scale: 0.01, zero_point: 3, offset: 4 } } }, /image.*offset/],
  ];
  for (const [config, value] of cases) {
    await assert.rejects(quantize(model, { calibration: images, config }), refused(value));
  }
});

test('what is no analysis, no record, no tuning, no shape', () => {
  const { analysis } = quantized.config;
  for (const wrong of [undefined, null, {}, 5]) {
    assert.throws(() => diagnose(wrong), refused('analysis'));
    assert.throws(() => mixedPrecision(wrong, { maxBytes: 5e4 }), refused('analysis'));
    assert.throws(() => configOf(wrong), refused('record'));
    assert.throws(() => scalesOf(wrong), refused('record'));
    assert.throws(() => mergeTunings({ version: 1, devices: {} }, wrong), refused('newer'));
  }
  assert.throws(() => configOf({ operators: [{ name: 'x' }] }), refused('record'));
  assert.throws(() => mixedPrecision(analysis, null), refused('options'));
  assert.throws(() => mixedPrecision(analysis, { maxByte: 5e4 }), refused('options.maxByte'));
  for (const widths of [[], [3], 8]) {
    assert.throws(() => mixedPrecision(analysis, { widths }), refused('options.widths'));
  }
  for (const dims of [null, undefined, 5]) {
    assert.throws(() => images[0].image.reshape(dims), refused('dims'));
  }
});

test('functions of requant/dataset name what they cannot read', async () => {
  const { inputs } = model.info;
  const bytes = ['isGzip', 'isIdx', 'parseCifar10', 'parseIdx', 'parseNpy', 'parseTensorProto'];
  for (const wrong of [undefined, null, new ArrayBuffer(8), 'x']) {
    for (const name of bytes) {
      assert.throws(() => dataset[name](wrong), refused('bytes'), name);
    }
    await assert.rejects(dataset.readIdxImages(wrong), refused('bytes'));
    await assert.rejects(dataset.parseNpz(wrong), refused('bytes'));
    await assert.rejects(dataset.decompress(wrong, 'gzip', 'x'), refused('bytes'));
    assert.throws(() => dataset.parsePixels(wrong, {}), refused('bytes'));
    assert.throws(() => dataset.parseRaw(wrong, 'float32', [1]), refused('bytes'));
    for (const name of ['writeNpy', 'rawBytes', 'castTensor', 'sampleCount', 'sampleAt']) {
      assert.throws(() => dataset[name](wrong), refused('tensor'), name);
    }
    for (const name of ['toTensor', 'toByteTensor', 'resize', 'centerCrop', 'fitImage']) {
      assert.throws(() => dataset[name](wrong), refused(/^image/), name);
    }
    for (const name of ['feedsOf', 'take', 'withLabels']) {
      assert.throws(() => dataset[name](wrong), refused(/^dataset/), name);
    }
    assert.throws(() => dataset.imageSamples(wrong, { input: 'x' }), refused(/^set/));
    assert.throws(() => dataset.arraySamples(wrong, inputs), refused('arrays'));
    assert.throws(() => dataset.makeDataset(wrong, wrong), refused('length'));
    assert.throws(() => dataset.parsePixels(new Uint8Array(9), wrong), refused(/size|shape/));
    assert.throws(() => dataset.fromRgba(wrong, 1, 1), refused('image'));
  }
  const set = dataset.parsePixels(new Uint8Array(4), { width: 2, height: 2, channels: 1 });
  assert.throws(() => dataset.imageSamples(set), refused('options'));
  assert.throws(() => dataset.imageSamples(set, {}), refused('options.input'));
  assert.throws(() => dataset.imageSamples(set, { input: 'x', men: 1 }), refused('options.men'));
  assert.throws(
    () => dataset.toTensor(dataset.imageAt(set, 0), { layout: 'x' }),
    refused('layout'),
  );
});

test('options of openDataset', async () => {
  const file = path.join(ROOT, 'demos/data/test-images-idx3-ubyte');
  const { inputs } = model.info;
  for (const [options, value] of [
    [{ foo: 1 }, 'options.foo'],
    [{ layout: 'x' }, 'layout'],
    [{ format: 'idx3' }, 'options.format'],
    [{ type: 'float' }, 'options.type'],
    [{ shape: 5 }, 'dims'],
    [null, 'options'],
  ]) {
    await assert.rejects(openDataset(file, inputs, options), refused(value));
  }
  await assert.rejects(openDataset(undefined, inputs), refused('place'));
  await assert.rejects(openDataset(file), refused('inputs'));
});

test('what a progress callback throws is what loading fails with', async () => {
  const trouble = new Error('no such element');
  const onProgress = () => {
    throw trouble;
  };
  const response = () => new Response(readFileSync(MODEL));
  for (const source of [MODEL, response(), readFileSync(MODEL)]) {
    await assert.rejects(loadModel(source, { onProgress }), (error) => error === trouble);
  }
  const create = InferenceSession.create(response(), { onProgress });
  await assert.rejects(create, (error) => error === trouble);
});

test('execution providers: wasm must be among them', async () => {
  for (const executionProviders of [['wasm'], ['webgpu', 'wasm'], [{ name: 'cpu' }], []]) {
    const session = await InferenceSession.create(model, { executionProviders });
    session.dispose();
  }
  for (const executionProviders of [['webgpu'], [{ name: 'webnn' }]]) {
    await assert.rejects(
      InferenceSession.create(model, { executionProviders }),
      isError('UNSUPPORTED', { value: 'options.executionProviders' }),
    );
  }
  await assert.rejects(
    InferenceSession.create(model, { executionProviders: 'webgpu' }),
    refused('options.executionProviders'),
  );
  await assert.rejects(
    InferenceSession.create(model, { executionProviders: ['wasm', null] }),
    refused('options.executionProviders[1]'),
  );
});

// quantize() and its options, on the shipped model.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  Model,
  QuantizedModel,
  compare,
  loadModel,
  quantize,
} from '../../dist/index.js';
import { MODEL, calibration, isError, testImages } from './support.mjs';

describe('quantize', () => {
  let model;
  before(async () => (model = await loadModel(MODEL)));
  after(() => model.dispose());

  test('reports progress, keeps samples for a second pass and leaves the model alone', async () => {
    const text = model.toText();
    const steps = [];
    let pulled = 0;
    async function* stream() {
      for (const feeds of calibration(12)) {
        pulled += 1;
        yield feeds;
      }
    }
    const quantized = await quantize(model, {
      calibration: stream(),
      maxSamples: 8,
      config: { activations: { observer: 'mse' }, recover: [] },
      onProgress: (step) => steps.push(step),
    });
    assert.equal(pulled, 8);
    assert.equal(model.toText(), text);
    const calibrated = steps.filter(({ phase }) => phase === 'calibrate');
    assert.equal(calibrated.at(-1).done, 16);
    assert.equal(calibrated.at(-1).total, 16);
    assert.ok(calibrated.every((step, index) => step.done === index));
    assert.deepEqual(steps.at(-1), { phase: 'finish', done: 1, total: 1 });
    quantized.dispose();
    assert.throws(() => quantized.config, isError('DISPOSED'));
  });

  test('obeys the config', async () => {
    const types = ['Add', 'GlobalAveragePool', 'Gemm'];
    const clone = model.clone();
    clone.optimize();
    const conv = clone.info.nodes.find(({ op }) => op === 'Conv').name;
    clone.dispose();
    const quantized = await quantize(model, {
      calibration: calibration(4),
      config: {
        operatorTypes: Object.fromEntries(types.map((type) => [type, null])),
        operators: { [conv]: { weights: { bits: 4 } } },
        recover: [],
      },
    });
    const { operators } = quantized.config;
    assert.ok(operators.filter(({ type }) => types.includes(type)).every((op) => !op.quantized));
    const bits = (op) => op.inputs[1].bits;
    const convs = operators.filter(({ type }) => type === 'Conv');
    assert.equal(convs.length, 11);
    assert.ok(convs.every((op) => op.quantized && bits(op) === (op.name === conv ? 4 : 8)));
    quantized.dispose();

    await assert.rejects(
      quantize(model, { calibration: calibration(1), config: { operators: { zzz: null } } }),
      isError('INVALID_ARGUMENT', { value: 'config.operators["zzz"]' }),
    );
  });

  test('makes what its parts say it is', async () => {
    const quantized = await quantize(model, {
      calibration: calibration(4),
      config: { recover: [] },
    });
    assert.ok(quantized instanceof QuantizedModel);
    assert.ok(quantized.integerModel instanceof Model);
    assert.equal(quantized.integerModel, quantized.integerModel);
    assert.ok(quantized.integerModel.info.quantized);
    const float = quantized.floatModel();
    assert.ok(!float.info.quantized);
    float.dispose();
    // A session outlives the model it was created from.
    const session = await InferenceSession.create(quantized);
    quantized.dispose();
    assert.equal((await session.run(testImages(1)[0])).logits.size, 10);
    session.dispose();
  });

  test('stops in the middle when the signal fires, and the engine stays usable', async () => {
    const reason = new Error('enough');
    const controller = new AbortController();
    const samples = calibration(64);
    let returned = false;
    function* endless() {
      try {
        for (;;) yield* samples;
      } finally {
        returned = true;
      }
    }
    let done = 0;
    const run = quantize(model, {
      calibration: endless(),
      signal: controller.signal,
      onProgress: (step) => {
        done = step.done;
        if (done === 5) setTimeout(() => controller.abort(reason), 0);
      },
    });
    await assert.rejects(run, (error) => {
      assert.ok(isError('ABORTED')(error));
      return error.cause === reason;
    });
    assert.ok(done >= 5 && returned);
    // While waiting for a sample that never comes.
    const waiting = new AbortController();
    const stuck = quantize(model, {
      calibration: { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) },
      signal: waiting.signal,
    });
    setTimeout(() => waiting.abort(), 20);
    await assert.rejects(stuck, isError('ABORTED'));
    for (const start of [
      () => quantize(model, { calibration: samples, signal: AbortSignal.abort() }),
      () => loadModel(MODEL, { signal: AbortSignal.abort() }),
      () => compare(model, model, { dataset: [], signal: AbortSignal.abort() }),
      () => InferenceSession.create(MODEL, { signal: AbortSignal.abort() }),
    ]) {
      await assert.rejects(start(), isError('ABORTED'));
    }
    const session = await InferenceSession.create(model);
    await assert.rejects(
      session.run(samples[0], { signal: AbortSignal.abort() }),
      isError('ABORTED'),
    );
    assert.equal((await session.run(samples[0])).logits.size, 10);
    session.dispose();
  });

  test('lets the event loop turn', async () => {
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 5);
    const start = performance.now();
    const quantized = await quantize(model, {
      calibration: Array.from({ length: 8 }, () => calibration(32)).flat(),
      config: { recover: [] },
    });
    clearInterval(timer);
    const spent = performance.now() - start;
    assert.ok(spent < 100 || ticks >= 2, `${ticks} turns in ${spent} ms`);
    quantized.dispose();
  });
});

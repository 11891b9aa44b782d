// quantize() with budgets of bytes and milliseconds; metrics of tasks in analyses and in training.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  compare,
  loadModel,
  mixedPrecision,
  quantize,
  train,
} from '../../dist/index.js';
import { analysisHtml, formatAnalysis } from '../../dist/report/index.js';
import { MODEL, argMax, calibration, isError, ortOutputs, outputsOf } from './support.mjs';
import { withLabels } from './labelled_images.mjs';

describe('budgets', () => {
  const validation = withLabels(60);
  const options = { calibration: calibration(16), validation };
  const search = { formats: ['W8A8', 'W4A8'], recoveries: ['default'], operatorSamples: 8 };
  let model;
  before(async () => {
    model = await loadModel(MODEL);
  });
  after(() => model.dispose());

  test('of bytes are filled', async () => {
    const budget = { bytes: 90000 };
    const quantized = await quantize(model, { ...options, budget, metric: 'snr', search });
    const { attempts, best, floor } = quantized.search;
    const chosen = attempts[best];
    assert.equal(floor, undefined);
    assert.ok(chosen.bytes <= 90000 && chosen.raised, 'some layers have more bits');
    const fitting = attempts.filter(({ bytes }) => bytes <= 90000);
    assert.equal(chosen.value, Math.max(...fitting.map(({ value }) => value)));
    const plain = attempts.find(({ format, raised }) => format === 'W4A8' && !raised);
    assert.ok(chosen.value > plain.value + 1, `${plain.value} -> ${chosen.value} dB`);
    for (const one of attempts) assert.equal(one.fitsBudget, one.bytes <= 90000);
    quantized.dispose();
  });

  test('of bytes and accuracy hold together', async () => {
    const floor = { metric: 'agreement', atLeast: 0.98 };
    const quantized = await quantize(model, {
      ...options,
      floor,
      budget: { bytes: 100000 },
      search,
    });
    const chosen = quantized.search.attempts[quantized.search.best];
    assert.ok(chosen.bytes <= 100000 && chosen.value >= 0.98);
    quantized.dispose();
    await assert.rejects(
      quantize(model, { ...options, floor, budget: { bytes: 20000 }, search }),
      (error) => error.code === 'FLOOR_NOT_MET' && error.search.attempts.length >= 2,
    );
  });

  test('of milliseconds count', async () => {
    const budget = { ms: 1e-6 };
    await assert.rejects(
      quantize(model, { ...options, metric: 'top1', budget, search }),
      (error) =>
        error.code === 'FLOOR_NOT_MET' && error.search.attempts.every((one) => !one.fitsBudget),
    );
    const quick = { ...search, by: 'ms' };
    const quantized = await quantize(model, {
      ...options,
      floor: { metric: 'top1', drop: 10 },
      budget: { ms: 1000 },
      search: quick,
    });
    const { attempts, best, by } = quantized.search;
    assert.equal(by, 'ms');
    const met = attempts.filter((one) => one.meetsFloor && one.fitsBudget);
    assert.equal(attempts[best].ms, Math.min(...met.map(({ ms }) => ms)));
    quantized.dispose();
  });

  test('the bits of activations are searched', async () => {
    const quantized = await quantize(model, {
      ...options,
      floor: { metric: 'snr', atLeast: 15 },
      search: { ...search, formats: ['W8A8', 'W4A8', 'W4A4', 'W8A16'] },
    });
    const formats = new Set(quantized.search.attempts.map(({ format }) => format));
    assert.deepEqual([...formats].sort(), ['W4A4', 'W4A8', 'W8A16', 'W8A8']);
    const chosen = quantized.search.attempts[quantized.search.best];
    assert.ok(chosen.value >= 15);
    quantized.dispose();
  });
});

describe('a metric', () => {
  let model;
  before(async () => {
    model = await loadModel(MODEL);
  });
  after(() => model.dispose());
  const validation = withLabels(60);

  test('of an analysis measures operators, and divides bits', async () => {
    const quantized = await quantize(model, {
      calibration: calibration(16),
      analyze: true,
      metric: 'top1',
      validation,
    });
    const { analysis } = quantized.config;
    const inputs = validation.map(({ feeds }) => feeds);
    const right = (outputs) =>
      outputs.filter((output, index) => argMax(output) === validation[index].label).length / 60;
    const session = await InferenceSession.create(quantized);
    assert.deepEqual(analysis.metric, {
      name: 'top1',
      better: 'higher',
      unit: 'share',
      samples: 60,
      float: right(await ortOutputs(model.toOnnx(), inputs)),
      quantized: right(await outputsOf(session, inputs)),
    });
    session.dispose();
    const layers = analysis.operators.filter(({ noise }) => noise);
    assert.ok(layers.length > 5);
    for (const { metric } of layers) assert.deepEqual(Object.keys(metric.weights), ['2', '4', '8']);
    const { frontier, chosen } = mixedPrecision(analysis, { metric: true, maxDrop: 0.02 });
    assert.ok(chosen.drop <= 0.02);
    assert.ok(
      frontier.filter(({ drop }) => drop <= 0.02).every(({ bytes }) => bytes >= chosen.bytes),
    );
    const tight = mixedPrecision(analysis, { metric: true, maxBytes: chosen.bytes });
    assert.ok(tight.chosen.drop <= chosen.drop + 1e-12 && tight.chosen.bytes <= chosen.bytes);
    assert.match(formatAnalysis(analysis), /top1 on 60 samples: float \d\d\.\d\d %/);
    assert.match(analysisHtml(analysis), /<th scope="col">top1/);
    delete analysis.metric;
    assert.throws(
      () => mixedPrecision(analysis, { metric: true }),
      isError('INVALID_ARGUMENT', { value: 'options.metric' }),
    );
    assert.throws(
      () => mixedPrecision(analysis, { maxDrop: 1 }),
      isError('INVALID_ARGUMENT', { value: 'options.maxDrop' }),
    );
    quantized.dispose();
  });

  test('of train() chooses the epoch, across a checkpoint', async () => {
    const config = {
      weights: { bits: 2 },
      activations: { bits: 3, observer: 'mse' },
      recover: ['round_weights', 'bias_correction'],
    };
    const quantized = await quantize(model, { calibration: calibration(16), config });
    const dataset = withLabels(124).slice(60);
    const base = { dataset, validation, metric: 'mse', epochs: 3, batchSize: 16 };
    const seen = [];
    const states = [];
    const trained = await train(quantized, {
      ...base,
      onProgress: ({ validation: quality }) => void (quality && seen.push(quality.metric)),
      onCheckpoint: (state) => void states.push(state),
    });
    assert.equal(seen.length, 3);
    assert.deepEqual(
      { ...seen[0], value: 0 },
      { name: 'mse', value: 0, better: 'lower', unit: 'number' },
    );
    const report = await compare(model, trained, { dataset: validation, metric: 'mse' });
    const least = Math.min(...seen.map(({ value }) => value));
    assert.ok(Math.abs(report.metric.candidate - least) <= 1e-6 * least);
    assert.match(trained.config.recovery.at(-1).detail, /, mse \d/);
    const resumed = await train(quantized, { ...base, resume: states[0] });
    assert.deepEqual(resumed.toOnnx(), trained.toOnnx());
    await assert.rejects(
      train(quantized, { dataset, metric: 'top1' }),
      isError('INVALID_ARGUMENT', { value: 'options.metric' }),
    );
    for (const one of [quantized, trained, resumed]) one.dispose();
  });
});

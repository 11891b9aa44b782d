// quantize() with a floor: it stops a ruined detector and a ruined encoder, and finds what works; options that are
// refused.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  compare,
  configOfAttempt,
  loadModel,
  quantize,
} from '../../dist/index.js';
import { formatReport } from '../../dist/report/index.js';
import { decodeBoxes, detector, encoder, images, sequences } from './ruined_networks.mjs';
import { MODEL, calibration, isError, ortOutputs, outputsOf, testImages } from './support.mjs';
import { withLabels } from './labelled_images.mjs';

describe('a ruined detector', () => {
  const metric = { name: 'coco_map', decode: decodeBoxes };
  const floor = { metric, drop: 10 };
  const samples = images(16, 99);
  let model;
  let validation;

  before(async () => {
    model = await detector();
    const session = await InferenceSession.create(model);
    validation = [];
    // The float model's own boxes are the right ones.
    for (const feeds of images(16, 5)) {
      validation.push({ feeds, target: decodeBoxes(await session.run(feeds)) });
    }
    session.dispose();
  });
  after(() => model.dispose());

  test('is what the default makes', async () => {
    const quantized = await quantize(model, { calibration: samples });
    const report = await compare(model, quantized, { dataset: validation, metric });
    assert.equal(report.metric.float, 1);
    assert.ok(report.metric.candidate < 0.05, String(report.metric.candidate));
    assert.match(formatReport(report), /coco_map +100\.00 % +\d\.\d\d % +-(9\d|100)\.\d\d points/);
    quantized.dispose();
  });

  test('is refused, with all that was tried', async () => {
    const search = { formats: ['W8A8'], recoveries: ['default'], float: false };
    await assert.rejects(
      quantize(model, { calibration: samples, floor, validation, search }),
      (error) => {
        assert.ok(error instanceof RequantError);
        assert.equal(error.code, 'FLOOR_NOT_MET');
        assert.equal(error.value, 'options.floor');
        assert.match(error.message, /none of 1 configuration .* the floor is 0\.9; best is W8A8/);
        const { attempts, best, met, float } = error.search;
        assert.equal(attempts.length, 1);
        assert.equal(best, 0);
        assert.equal(met, false);
        assert.equal(float.value, 1);
        assert.ok(attempts[0].value < 0.05 && attempts[0].bytes > 1000 && attempts[0].seconds > 0);
        return true;
      },
    );
  });

  test('becomes a good one by a recovery method', async () => {
    const seen = [];
    const quantized = await quantize(model, {
      calibration: samples,
      floor,
      validation,
      search: { formats: ['W8A8', 'W8A16'], recoveries: ['default', 'equalize'] },
      onProgress: ({ phase, attempt }) => void (phase === 'attempt' && seen.push(attempt)),
    });
    const {
      attempts,
      best,
      float,
      frontier,
      met,
      metric: measured,
      samples: count,
    } = quantized.search;
    assert.equal(met, true);
    assert.deepEqual(seen, attempts);
    assert.deepEqual(measured, { name: 'coco_map', better: 'higher', unit: 'share' });
    assert.equal(count, validation.length);
    assert.equal(float.bytes, model.toOnnx().length);
    const { format, recovery, value, bytes } = attempts[best];
    assert.deepEqual([format, recovery], ['W8A8', 'equalize']);
    assert.ok(value >= 0.9);
    assert.equal(attempts[0].format, 'W8A16');
    assert.equal(bytes, quantized.toOnnx({ int2: true }).length);
    for (const by of ['bytes', 'ms']) {
      const points = frontier[by];
      points.forEach((point, index) => {
        assert.equal(point.cost, attempts[point.attempt][by]);
        assert.equal(point.value, attempts[point.attempt].value);
        if (index === 0) return;
        assert.ok(point.cost >= points[index - 1].cost && point.value > points[index - 1].value);
      });
      for (const one of attempts) {
        assert.ok(points.some((point) => point.cost <= one[by] && point.value >= one.value));
      }
    }
    // ONNX Runtime finds the same boxes with the file, by a plain comparison.
    const theirs = await ortOutputs(
      quantized.toOnnx(),
      validation.map(({ feeds }) => feeds),
    );
    let found = 0;
    let all = 0;
    theirs.forEach((data, index) => {
      const boxes = decodeBoxes({ boxes: { data } });
      for (const { box, label } of validation[index].target) {
        all += 1;
        const near = (one) => one.box.every((side, at) => Math.abs(side - box[at]) < 0.2);
        if (boxes.some((one) => one.label === label && near(one))) found += 1;
      }
    });
    assert.ok(found / all > 0.9, `${found} of ${all}`);
    quantized.dispose();
  });
});

/** Recall@1 by plain loops. */
function recallAt1(embeddings, labels) {
  const cosine = (a, b) => {
    const dot = (x, y) => x.reduce((sum, value, index) => sum + value * y[index], 0);
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)) || 0;
  };
  const right = embeddings.filter((query, index) => {
    let best = -1;
    embeddings.forEach((other, at) => {
      if (at === index) return;
      if (best < 0 || cosine(query, other) > cosine(query, embeddings[best])) best = at;
    });
    return labels[best] === labels[index];
  });
  return right.length / embeddings.length;
}

describe('a ruined encoder', () => {
  const floor = { metric: 'recall', drop: 2 };
  const samples = sequences(24, 24, 99).map(({ feeds }) => feeds);
  const validation = sequences(72, 24, 5);
  const labels = validation.map(({ label }) => label);
  const inputs = validation.map(({ feeds }) => feeds);
  let model;
  before(async () => {
    model = await encoder();
  });
  after(() => model.dispose());

  const recallOf = async (file) => recallAt1(await ortOutputs(file, inputs), labels);

  test('is what the default makes', async () => {
    const quantized = await quantize(model, { calibration: samples });
    assert.ok((await recallOf(model.toOnnx())) > 0.95);
    const report = await compare(model, quantized, { dataset: validation, metric: 'recall' });
    const session = await InferenceSession.create(quantized);
    const embeddings = await outputsOf(session, inputs);
    session.dispose();
    assert.equal(report.metric.candidate, recallAt1(embeddings, labels));
    assert.ok(report.metric.candidate < 0.2, String(report.metric.candidate));
    quantized.dispose();
  });

  test('becomes a good one with few operators of 16 bits', async () => {
    const quantized = await quantize(model, {
      calibration: samples,
      floor,
      validation,
      search: { formats: ['W8A8', 'W8A16'], recoveries: ['default'] },
    });
    const { attempts, best } = quantized.search;
    const { format, raised, value, wideOperators, operators } = attempts[best];
    assert.equal(format, 'W8A8');
    assert.equal(raised.to, 'W8A16');
    // The outliers are between these operators.
    assert.deepEqual([...raised.operators].sort(), ['second/down', 'second/gelu', 'second/up']);
    assert.ok(value >= 0.98);
    assert.ok(wideOperators >= 3 && wideOperators < operators / 2, `${wideOperators}`);
    assert.ok((await recallOf(quantized.toOnnx())) >= 0.95);
    const config = configOfAttempt(attempts[best]);
    const again = await quantize(model, { calibration: samples, config });
    assert.deepEqual(again.toOnnx(), quantized.toOnnx());
    again.dispose();
    quantized.dispose();
  });

  test('becomes a good one with few operators in float', async () => {
    const quantized = await quantize(model, {
      calibration: samples,
      floor,
      validation,
      search: { formats: ['W8A8'], recoveries: ['default'] },
    });
    const { attempts, best, float } = quantized.search;
    const { raised, value, bytes } = attempts[best];
    assert.equal(raised.to, 'float');
    assert.deepEqual(raised.operators, ['second/down']);
    assert.ok(value >= 0.98 && bytes < 0.5 * float.bytes);
    const reasons = quantized.config.operators.filter(({ name }) => name === 'second/down');
    assert.equal(reasons[0].quantized, false);
    assert.ok((await recallOf(quantized.toOnnx())) >= 0.95);
    quantized.dispose();
  });
});

test('the config of an attempt keeps what the search got', () => {
  const config = { target: 'tflite', weights: { symmetric: true }, operators: { head: null } };
  const raised = { to: 'float', operators: ['a.b'] };
  assert.deepEqual(configOfAttempt({ format: 'W4A8', recovery: 'default', raised }, config), {
    target: 'tflite',
    activations: { bits: 8 },
    weights: { symmetric: true, bits: 4 },
    operators: { head: null, '(?:a\\.b)': null },
  });
  const equalized = configOfAttempt({ format: 'W8A8', recovery: 'equalize' });
  assert.ok(equalized.recover.includes('equalize'));
  for (const recovery of ['magic', 'toString']) {
    assert.throws(
      () => configOfAttempt({ format: 'W8A8', recovery }),
      isError('INVALID_ARGUMENT', { message: /no search has the recovery/ }),
    );
  }
});

test('options that do not go together are refused', async () => {
  const model = await loadModel(MODEL);
  const base = { calibration: calibration(2) };
  const validation = withLabels(4);
  const floor = { metric: 'top1', drop: 1 };
  const refused = (options, details) =>
    assert.rejects(quantize(model, { ...base, ...options }), isError('INVALID_ARGUMENT', details));
  await refused({ flor: floor }, { value: 'options.flor', hint: /"floor"/ });
  await refused({ floor }, { value: 'options.validation' });
  await refused({ validation }, { value: 'options.validation', message: /no effect/ });
  await refused({ validation, metric: 'top1' }, { value: 'options.metric', message: /no effect/ });
  await refused({ validation, search: {} }, { value: 'options.search' });
  await refused({ resume: new Uint8Array() }, { value: 'options.resume' });
  await refused({ validation, floor: { metric: 'top1' } }, { value: 'options.floor' });
  await refused({ validation, floor: { drop: 1 } }, { value: 'options.floor' });
  await refused({ validation, floor: { ...floor, atLeast: 1 } }, { message: /2 bounds/ });
  await refused({ validation, floor: { ...floor, drop: -1 } }, { value: 'options.floor.drop' });
  await refused({ validation, floor: { metric: 'top1', atMost: 1 } }, { hint: /Give atLeast/ });
  await refused({ validation, floor: { metric: 'mse', atLeast: 1 } }, { hint: /Give atMost/ });
  await refused({ validation, floor: { metric: 'snr', drop: 1 } }, { value: 'options.floor.drop' });
  await refused(
    { validation, floor: { metric: 'tpo1', drop: 1 } },
    { value: 'options.floor.metric' },
  );
  await refused({ validation, floor, metric: 'top5' }, { value: 'options.metric' });
  await refused({ validation, budget: { bytes: 9 } }, { value: 'options.metric' });
  await refused({ validation, budget: {}, metric: 'top1' }, { value: 'options.budget' });
  await refused({ validation, floor, search: { formats: ['W9A8'] } }, { hint: /1 to 8 bits/ });
  await refused(
    { validation, floor, search: { formats: [] } },
    { value: 'options.search.formats' },
  );
  await refused({ validation, floor, search: { by: 'size' } }, { value: 'options.search.by' });
  await refused({ validation, floor, search: { recoveries: [] } }, { message: /empty/ });
  await refused({ validation: [], floor }, { message: /no samples to measure on/ });
  await refused({ validation: [{ feeds: {}, lable: 1 }], floor }, { hint: /"label"/ });
  await refused(
    { validation: [{ feeds: testImages(1)[0], label: 10 }], floor },
    { message: /^sample 0: the metric top1/ },
  );
  // Not even the float model is good enough.
  await assert.rejects(
    quantize(model, {
      ...base,
      validation,
      floor: { metric: 'mse', against: 'target', atMost: 0 },
    }),
    isError('INVALID_ARGUMENT', { value: 'options.floor.against' }),
  );
  await assert.rejects(
    quantize(model, { ...base, validation, floor: { metric: 'top1', atLeast: 2 } }),
    (error) => error.code === 'FLOOR_NOT_MET' && /not even the float model/.test(error.message),
  );
  model.dispose();
});

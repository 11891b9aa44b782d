// quantize() with a floor: it stops a ruined detector and a ruined encoder, and finds what works; budgets; searches
// that are stopped and resumed; workers.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  compare,
  configOfAttempt,
  createWorker,
  loadModel,
  mixedPrecision,
  quantize,
  train,
} from '../../dist/index.js';
import { analysisHtml, formatAnalysis, formatReport } from '../../dist/report/index.js';
import { decodeBoxes, detector, encoder, images, sequences } from './ruined_networks.mjs';
import {
  MODEL,
  argMax,
  calibration,
  isError,
  ortOutputs,
  outputsOf,
  testImages,
  testLabels,
} from './support.mjs';

/** What of attempts does not depend on the machine. */
const lasting = ({ attempts, best, met, float, floor }) => ({
  attempts: attempts.map(({ ms: _ms, seconds: _seconds, ...rest }) => rest),
  best,
  met,
  float: { value: float.value, bytes: float.bytes },
  floor,
});

const withLabels = (count) => {
  const labels = testLabels(count);
  return testImages(count).map((feeds, index) => ({ feeds, label: labels[index] }));
};

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

describe('a search', () => {
  const validation = withLabels(40);
  const floor = { metric: 'snr', atLeast: 26 };
  const search = {
    formats: ['W8A8', 'W4A8'],
    recoveries: ['default', 'equalize'],
    operatorSamples: 8,
  };
  const options = { calibration: calibration(16), floor, validation, search };
  let model;
  let whole;
  const states = [];

  before(async () => {
    model = await loadModel(MODEL);
    whole = await quantize(model, {
      ...options,
      onCheckpoint: (state, attempts) => void states.push({ state, attempts }),
    });
  });
  after(() => {
    whole.dispose();
    model.dispose();
  });

  test('finds fewer bits than 8 that are good enough', async () => {
    const { attempts, best, float } = whole.search;
    const { value, bytes, raised } = attempts[best];
    assert.equal(float.value, Infinity);
    assert.ok(raised, 'some layers have more bits');
    assert.ok(value >= 26 && bytes < 0.95 * attempts.find(({ format }) => format === 'W8A8').bytes);
    for (const one of attempts) assert.equal(one.meetsFloor, one.value >= 26);
    // No attempt that is good enough is smaller.
    const least = Math.min(...attempts.filter((one) => one.meetsFloor).map((one) => one.bytes));
    assert.ok(bytes <= 1.01 * least);
    const [float_, integer] = [
      await InferenceSession.create(model),
      await InferenceSession.create(whole),
    ];
    const inputs = validation.map(({ feeds }) => feeds);
    const [right, ours] = [await outputsOf(float_, inputs), await outputsOf(integer, inputs)];
    const power = (of) =>
      right.reduce(
        (sum, row, index) => row.reduce((all, one, at) => all + of(one, ours[index][at]) ** 2, sum),
        0,
      );
    const ratio = power((one) => one) / power((one, other) => one - other);
    assert.ok(Math.abs(10 * Math.log10(ratio) - value) < 1e-9);
    float_.dispose();
    integer.dispose();
  });

  test('that is stopped and resumed ends with the same result', async () => {
    assert.ok(states.length > whole.search.attempts.length);
    for (const stopAfter of [1, 3, Math.floor(states.length / 2), states.length - 2]) {
      const controller = new AbortController();
      let state;
      let steps = 0;
      await assert.rejects(
        quantize(model, {
          ...options,
          signal: controller.signal,
          onCheckpoint(bytes) {
            state = bytes;
            if (++steps === stopAfter) controller.abort();
          },
        }),
        isError('ABORTED'),
      );
      assert.equal(steps, stopAfter);
      let further = 0;
      const resumed = await quantize(model, {
        ...options,
        resume: state,
        onCheckpoint: () => void (further += 1),
      });
      assert.equal(further, states.length - stopAfter, 'no step is done twice');
      assert.deepEqual(lasting(resumed.search), lasting(whole.search));
      assert.deepEqual(resumed.toOnnx(), whole.toOnnx());
      resumed.dispose();
    }
    // The state of a search that is over gives its result at once.
    const again = await quantize(model, { ...options, resume: states.at(-1).state });
    assert.deepEqual(again.search.attempts, whole.search.attempts);
    assert.deepEqual(again.toOnnx(), whole.toOnnx());
    again.dispose();
  });

  test('refuses states that are damaged or of another search', async () => {
    const { state } = states[2];
    const refused = (resume, message, more = {}) =>
      assert.rejects(
        quantize(model, { ...options, ...more, resume }),
        isError('INVALID_ARGUMENT', { value: 'options.resume', message }),
      );
    await refused(state.slice(0, 5), /is no state/);
    await refused(Uint8Array.of(...state.slice(0, -1)), /is damaged/);
    const changed = state.slice();
    changed[40] ^= 1;
    await refused(changed, /is damaged/);
    await refused(state, /is of another search/, { floor: { ...floor, atLeast: 25 } });
    await refused(state, /is of another search/, { config: { weights: { observer: 'mse' } } });
    await refused(state, /is of another search/, { calibration: calibration(15) });
    await refused(state, /is of another search/, { validation: withLabels(41).slice(1) });
    const other = await detector();
    await assert.rejects(
      quantize(other, { ...options, resume: state }),
      isError('INVALID_ARGUMENT', { message: /another search/ }),
    );
    other.dispose();
  });

  test('takes samples that can be walked over only once', async () => {
    async function* once(samples) {
      for (const sample of samples) yield sample;
    }
    const quantized = await quantize(model, {
      ...options,
      calibration: once(options.calibration),
      validation: once(validation),
    });
    assert.deepEqual(lasting(quantized.search), lasting(whole.search));
    quantized.dispose();
  });

  test('ends after as many attempts as it may make', async () => {
    const most = { ...search, maxAttempts: 2 };
    let state;
    const quantized = await quantize(model, {
      ...options,
      search: most,
      onCheckpoint: (bytes) => void (state = bytes),
    });
    assert.equal(quantized.search.attempts.length, 2);
    const further = await quantize(model, { ...options, resume: state });
    assert.deepEqual(lasting(further.search), lasting(whole.search));
    further.dispose();
    assert.equal(quantized.search.attempts[quantized.search.best].format, 'W8A8');
    quantized.dispose();
  });

  test('works in a worker, with functions of the page', async () => {
    const worker = await createWorker();
    try {
      const remote = await worker.loadModel(MODEL);
      const saved = [];
      const quantized = await worker.quantize(remote, {
        ...options,
        onCheckpoint: (state) => void saved.push(state),
      });
      assert.deepEqual(lasting(quantized.search), lasting(whole.search));
      assert.deepEqual(await quantized.toOnnx(), whole.toOnnx());
      assert.equal(saved.length, states.length);
      // A metric of the page's own: functions are called here, with the very samples.
      const samples = withLabels(20);
      const seen = [];
      const own = {
        name: 'right',
        measure({ logits }, sample, float) {
          assert.ok(samples.includes(sample));
          assert.equal(float.logits.dims[1], 10);
          seen.push(sample);
          return argMax(logits.data) === sample.label ? 1 : 0;
        },
        better: 'higher',
        unit: 'share',
        aggregate: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
      };
      const few = { formats: ['W8A8', 'W4A8'], recoveries: ['default'], float: false };
      const ours = { calibration: calibration(16), validation: samples, search: few };
      const there = await worker.quantize(remote, { ...ours, floor: { metric: own, drop: 5 } });
      const here = await quantize(model, { ...ours, floor: { metric: own, drop: 5 } });
      const named = await quantize(model, { ...ours, floor: { metric: 'top1', drop: 5 } });
      assert.deepEqual(lasting(there.search), lasting(here.search));
      assert.deepEqual(
        there.search.attempts.map(({ value }) => value),
        named.search.attempts.map(({ value }) => value),
      );
      assert.equal(there.search.metric.name, 'right');
      assert.ok(seen.length >= 2 * 3 * samples.length);
      const report = await worker.compare(remote, there, { dataset: samples, metric: own });
      assert.equal(report.metric.candidate, there.search.attempts[there.search.best].value);
      // Errors have all attempts, too; those of functions are the page's own.
      const impossible = { metric: 'snr', atLeast: 200 };
      await assert.rejects(worker.quantize(remote, { ...ours, floor: impossible }), (error) => {
        assert.equal(error.code, 'FLOOR_NOT_MET');
        assert.equal(error.search.attempts.length, 2);
        return true;
      });
      const broken = new Error('broken');
      const throws = { ...own, measure: () => { throw broken; } }; // prettier-ignore
      await assert.rejects(
        worker.quantize(remote, { ...ours, floor: { metric: throws, drop: 5 } }),
        (error) => error === broken,
      );
    } finally {
      await worker.terminate();
    }
  });
});

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
    const config = { weights: { bits: 2 }, activations: { bits: 3, observer: 'mse' } };
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

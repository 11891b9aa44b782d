// A search of quantize(): what it finds, and that it is stopped and resumed, also in a worker.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { InferenceSession, createWorker, loadModel, quantize } from '../../dist/index.js';
import { detector } from './ruined_networks.mjs';
import { MODEL, argMax, calibration, isError, outputsOf } from './support.mjs';
import { withLabels } from './labelled_images.mjs';

/** What of attempts does not depend on the machine. */
const lasting = ({ attempts, best, met, float, floor }) => ({
  attempts: attempts.map(({ ms: _ms, seconds: _seconds, ...rest }) => rest),
  best,
  met,
  float: { value: float.value, bytes: float.bytes },
  floor,
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

// train() with validation, checkpoints and float models.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  InferenceSession,
  Model,
  WorkerModel,
  createWorker,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
  train,
} from 'requant';
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

const few = { weights: { bits: 2, observer: 'auto' }, activations: { bits: 3, observer: 'mse' } };

const labels = testLabels(200);
const samples = testImages(200).map((feeds, index) => ({ feeds, label: labels[index] }));
const dataset = samples.slice(0, 64);
const validation = samples.slice(100, 160);

const shareOf = async (model, of) => {
  const session = await InferenceSession.create(model);
  const outputs = await outputsOf(
    session,
    of.map(({ feeds }) => feeds),
  );
  await session.release();
  return outputs.filter((output, index) => argMax(output) === of[index].label).length / of.length;
};

describe('train() by epochs', () => {
  let quantized;
  before(async () => {
    const model = await loadModel(MODEL);
    quantized = await quantize(model, { calibration: calibration(32), config: few });
    model.dispose();
  });

  test('measures every epoch on the validation samples and keeps the best', async () => {
    const base = { dataset, epochs: 5, batchSize: 8, learningRate: 0.02, validation };
    const seen = [];
    const states = [];
    const best = await train(quantized, {
      ...base,
      onProgress: ({ epoch, validation: quality }) => {
        if (quality) seen.push([epoch, quality.answers]);
      },
      onCheckpoint: (state) => void states.push(state),
    });
    assert.deepEqual(
      seen.map(([epoch]) => epoch),
      [0, 1, 2, 3, 4],
    );
    const most = Math.max(...seen.map(([, answers]) => answers));
    const start = await shareOf(quantized, validation);
    assert.ok(most > start, `${start} -> ${most}: there must be something to choose`);
    assert.equal(await shareOf(best, validation), most);
    const chosen = seen.findIndex(([, answers]) => answers === most);
    const { method, detail } = best.config.recovery.at(-1);
    assert.equal(method, 'train');
    if (chosen < 5)
      assert.match(
        detail,
        new RegExp(
          `; kept epoch ${chosen + 1} of 5, ${(100 * most).toFixed(1)} % on the validation samples$`,
        ),
      );
    // A training that resumes a state ends like one that was never interrupted.
    const whole = await train(quantized, { ...base, keep: 'last' });
    const again = await train(quantized, { ...base, keep: 'last', resume: states[2] });
    assert.deepEqual(again.toOnnx(), whole.toOnnx());
    for (const model of [best, whole, again]) model.dispose();
  });

  test('a training that was interrupted ends with the same bits', async () => {
    for (const more of [{}, { optimizer: 'sgd', scales: 'observe' }, { validation }]) {
      const base = { dataset, epochs: 4, batchSize: 8, ...more };
      const states = [];
      const whole = await train(quantized, {
        ...base,
        onCheckpoint: async (state, epoch) => {
          assert.equal(epoch, states.length);
          states.push(state);
        },
      });
      const bytes = whole.toOnnx();
      // In another engine, as after a restart.
      const worker = await createWorker();
      const far = await worker.loadModel(MODEL);
      const theirs = await worker.quantize(far, { calibration: calibration(32), config: few });
      const got = [];
      for (const [epoch, resume] of states.entries()) {
        const steps = [];
        const options = { ...base, resume, onProgress: (step) => steps.push(step) };
        const here = await train(quantized, options);
        assert.deepEqual(here.toOnnx(), bytes, `behind epoch ${epoch}`);
        assert.equal(steps[0]?.epoch, epoch < 3 ? epoch + 1 : undefined);
        here.dispose();
      }
      const there = await worker.train(theirs, {
        ...base,
        resume: states[1],
        onCheckpoint: (state) => void got.push(state),
      });
      assert.deepEqual(await there.toOnnx(), bytes);
      assert.deepEqual(got, states.slice(2));
      await worker.terminate();
      whole.dispose();
    }
  });

  test('an iterable that can be walked once is kept', async () => {
    const once = function* (of) {
      yield* of;
    };
    const base = { epochs: 2, batchSize: 8 };
    const a = await train(quantized, { ...base, dataset, validation });
    const b = await train(quantized, {
      ...base,
      dataset: Object.assign(once(dataset), { length: dataset.length }),
      validation: once(validation),
    });
    assert.deepEqual(a.toOnnx(), b.toOnnx());
    a.dispose();
    b.dispose();
  });

  test('keeps the given model, with a warning, where no epoch does better', async () => {
    for (const keep of ['best', 'better']) {
      const ruined = await train(quantized, {
        dataset,
        validation,
        epochs: 2,
        batchSize: 8,
        learningRate: 30,
        schedule: 'constant',
        keep,
      });
      assert.deepEqual(ruined.toOnnx(), quantized.toOnnx());
      assert.match(
        ruined.config.warnings.at(-1),
        /training did not help: right answers .* on the validation samples; the model is the one before/,
      );
      ruined.dispose();
    }
  });

  test('refuses what makes no sense, by name', async () => {
    const refused = (options, code, pattern) =>
      assert.rejects(train(quantized, { dataset, epochs: 2, ...options }), (error) => {
        assert.match(`${error.message} ${error.value}`, pattern);
        return isError(code)(error);
      });
    await refused({ keep: 'best' }, 'INVALID_ARGUMENT', /options.keep/);
    await refused({ keep: 'better', onCheckpoint() {} }, 'INVALID_ARGUMENT', /options.keep/);
    await refused({ validation: 3 }, 'INVALID_ARGUMENT', /options.validation/);
    await refused({ resume: 'yes' }, 'INVALID_ARGUMENT', /options.resume/);
    await refused({ resume: new Uint8Array(40) }, 'INVALID_ARGUMENT', /options.resume/);
    await refused({ onCheckpoint: 1 }, 'INVALID_ARGUMENT', /options.onCheckpoint/);
    await refused(
      { validation: [{ feeds: samples[0].feeds, label: 99 }] },
      'INVALID_ARGUMENT',
      /label/,
    );
    const states = [];
    const small = { dataset: dataset.slice(0, 8), epochs: 2, batchSize: 8, keep: 'last' };
    const done = await train(quantized, {
      ...small,
      onCheckpoint: (state) => void states.push(state),
    });
    done.dispose();
    for (let at = 0; at < states[0].length; at += 1 + (states[0].length >> 6)) {
      const damaged = states[0].slice();
      damaged[at] ^= 0x55;
      // A digit of the header may still make sense; nothing else may.
      await train(quantized, { ...small, resume: damaged }).then(
        (model) => model.dispose(),
        (error) => assert.ok(isError('INVALID_ARGUMENT')(error)),
      );
      await refused({ resume: states[0].slice(0, at) }, 'INVALID_ARGUMENT', /options.resume/);
    }
    await refused({ resume: states[1], epochs: 1 }, 'INVALID_ARGUMENT', /options.epochs/);
    await refused(
      { resume: states[0], optimizer: 'sgd' },
      'INVALID_ARGUMENT',
      /another model or of other options/,
    );
    const failing = train(quantized, {
      ...small,
      onCheckpoint: () => {
        throw new Error('the disk is full');
      },
    });
    await assert.rejects(failing, /the disk is full/);
  });
});

describe('train() of a float model', () => {
  test('learns from labels; then the model is quantized and goes on', async () => {
    const model = await loadModel(MODEL);
    const text = model.toText({ maxConstantElements: 1e9 });
    // A network that knows less: every weight with noise.
    let state = 7;
    const noisy = text.replace(
      /(const %\S*: float32\[\d+, [\d, ]+\] = \{)([^}]*)\}/g,
      (_, head, list) => {
        const values = list.split(', ').map((value) => {
          state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
          return Number(value) * (0.2 + (1.6 * state) / 2 ** 32);
        });
        return `${head}${values.map((value) => (Number.isInteger(value) ? `${value}.0` : value)).join(', ')}}`;
      },
    );
    const weak = await parseModel(noisy);
    const start = await shareOf(weak, validation);
    const trained = await train(weak, { dataset, epochs: 10, batchSize: 8, learningRate: 0.2 });
    assert.ok(trained instanceof Model);
    const now = await shareOf(trained, validation);
    assert.ok(now > start + 0.05, `${start} -> ${now}`);
    assert.equal(await shareOf(weak, validation), start, 'the given model is as it was');
    const images = testImages(4);
    const session = await InferenceSession.create(trained);
    const ours = await outputsOf(session, images);
    await session.release();
    const theirs = await ortOutputs(trained.toOnnx(), images);
    for (const [index, output] of ours.entries()) {
      for (const [at, value] of output.entries()) {
        assert.ok(Math.abs(value - theirs[index][at]) <= 1e-4, `${value} and ${theirs[index][at]}`);
      }
    }
    const quantized = await quantize(trained, { calibration: calibration(16) });
    const further = await train(quantized, { dataset, epochs: 1, batchSize: 8 });
    assert.ok((await shareOf(further, validation)) > start);
    // In a worker the same bits.
    const worker = await createWorker();
    const far = await worker.parseModel(noisy);
    const options = { dataset: dataset.slice(0, 16), epochs: 1, batchSize: 8, learningRate: 0.2 };
    const there = await worker.train(far, options);
    const here = await train(weak, options);
    assert.ok(there instanceof WorkerModel);
    assert.deepEqual(Buffer.from(await there.toOnnx()), Buffer.from(here.toOnnx()));
    const remote = await worker.createSession(there);
    await assert.rejects(worker.train(remote, options), isError('INVALID_ARGUMENT'));
    await worker.terminate();
    for (const one of [weak, trained, quantized, further, here, model]) one.dispose();
  });

  test('refuses a quantized model, and a model without layers that learn', async () => {
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(8) });
    const file = await loadModel(quantized.toOnnx());
    await assert.rejects(
      train(file, { dataset }),
      isError('INVALID_ARGUMENT', { hint: /readQuantized/ }),
    );
    const read = await readQuantized(file);
    (await train(read, { dataset: dataset.slice(0, 8), epochs: 1 })).dispose();
    const none = await parseModel(
      'graph "" opset 13\ninput %x: float32[1, 4]\n%y: float32[1, 4] = Relu(%x) "relu"\noutput %y\n',
    );
    await assert.rejects(train(none, { dataset }), isError('UNSUPPORTED'));
    for (const one of [model, quantized, file, read, none]) one.dispose();
  });
});

// Quantization-aware training: its gain, exports that equal the trained model, and invalid uses.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import {
  InferenceSession,
  QuantizedModel,
  Tensor,
  createWorker,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
  train,
} from 'requant';
import { augmented, feedsOf, makeDataset, take } from 'requant/dataset';
import { cifarImages, dataOf, modelPath, networks, skipShared } from './shared_models.mjs';
import {
  MODEL,
  ROOT,
  argMax,
  calibration,
  isError,
  ortOutputs,
  outputsOf,
  testImages,
  testLabels,
} from './support.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-train-'));
after(() => rmSync(folder, { recursive: true }));

const few = { weights: { bits: 2, observer: 'auto' }, activations: { bits: 3, observer: 'mse' } };

/** Number of right answers of the demo's network, or of a model derived from it, on the first test images. */
async function rightAnswers(model, count = 500) {
  const session = await InferenceSession.create(model);
  const labels = testLabels(count);
  const outputs = await outputsOf(session, testImages(count));
  await session.release();
  return outputs.filter((output, index) => argMax(output) === labels[index]).length;
}

const unlabelled = (count) => calibration(count).map((feeds) => ({ feeds }));

describe('train', () => {
  test('wins back what few bits lose, without labels', async () => {
    const model = await loadModel(MODEL);
    const float = await rightAnswers(model);
    const quantized = await quantize(model, { calibration: calibration(64), config: few });
    const before = await rightAnswers(quantized);
    const bytes = quantized.toOnnx();
    const steps = [];
    const trained = await train(quantized, {
      dataset: unlabelled(256),
      epochs: 6,
      batchSize: 16,
      loss: 'scores',
      onProgress: (step) => steps.push(step),
    });
    const now = await rightAnswers(trained);
    // Right of 500: 467 in float, about 350 with these bits, about 440 after training.
    assert.ok(before < float - 20, `${before} of ${float}: there must be something to win back`);
    assert.ok(now > before + (float - before) / 3, `${before} -> ${now} of ${float}`);
    assert.deepEqual(quantized.toOnnx(), bytes, 'the model that was given is as it was');

    assert.deepEqual(steps[0], { epoch: 0, epochs: 6, done: 0, total: 256, loss: 0, top1: null });
    const last = steps.filter(({ done }) => done === 256);
    assert.equal(last.length, 6);
    assert.ok(last[5].loss < last[0].loss / 2, `loss ${last[0].loss} -> ${last[5].loss}`);
    const { method, detail } = trained.config.recovery.at(-1);
    assert.equal(method, 'train');
    assert.match(detail, /^12 layers learned on 96 batches$/);
    const bits = ({ config }) => config.operators.map(({ inputs }) => inputs[1]?.bits);
    assert.deepEqual(bits(trained), bits(quantized));

    // Another engine gives the same from the exported file.
    const images = testImages(20);
    const ours = await outputsOf(
      await InferenceSession.create(trained.toOnnx(), { requantize: 'float' }),
      images,
    );
    const theirs = await ortOutputs(trained.toOnnx(), images);
    for (const [index, output] of ours.entries()) {
      for (const [at, value] of output.entries()) {
        assert.ok(Math.abs(value - theirs[index][at]) <= 1e-4, `${value} and ${theirs[index][at]}`);
      }
    }
  });

  test('a worker does the same, and every option is heard', async () => {
    const model = await loadModel(MODEL);
    const config = few;
    const quantized = await quantize(model, { calibration: calibration(16), config });
    const worker = await createWorker();
    const far = await worker.loadModel(MODEL);
    const farQuantized = await worker.quantize(far, { calibration: calibration(16), config });
    const labels = testLabels(24);
    const dataset = testImages(24).map((feeds, index) => ({ feeds, label: labels[index] }));
    // Keep the last model: trainings that are undone would give equal models.
    const base = { dataset, epochs: 2, batchSize: 8, keep: 'last' };
    const options = [
      {},
      { optimizer: 'sgd', momentum: 0.5, learningRate: 0.02 },
      { weightDecay: 0.1 },
      { scales: 'observe' },
      { scales: 'keep' },
      { scaleRate: 0 },
      { batchNorm: false },
      { freezeAfter: 0 },
      { loss: 'values' },
      { labelShare: 1 },
      { schedule: 'constant' },
      { seed: 7 },
      { shuffle: 1 },
    ];
    const files = new Map();
    for (const option of options) {
      const trained = await train(quantized, { ...base, ...option });
      const file = Buffer.from(trained.toOnnx()).toString('base64');
      const name = JSON.stringify(option);
      // scaleRate 0 keeps scales like 'keep', up to rounding.
      const same = [...files].filter(([, other]) => other === file).map(([other]) => other);
      if (option.scales !== 'keep' && option.scaleRate !== 0)
        assert.deepEqual(same, [], `${name} changes nothing`);
      files.set(name, file);
      trained.dispose();
    }
    const steps = [];
    const there = await worker.train(farQuantized, {
      ...base,
      onProgress: (step) => steps.push(step),
    });
    assert.equal(Buffer.from(await there.toOnnx()).toString('base64'), files.get('{}'));
    assert.equal(steps.at(-1).done, 24);
    assert.ok(steps.at(-1).top1 >= 0);
    // An iterable that can be walked only once is walked once, wherever the training runs.
    const once = () =>
      (function* () {
        yield* dataset;
      })();
    const again = await train(quantized, { ...base, dataset: once() });
    assert.equal(Buffer.from(again.toOnnx()).toString('base64'), files.get('{}'));
    const thereAgain = await worker.train(farQuantized, { ...base, dataset: once() });
    assert.equal(Buffer.from(await thereAgain.toOnnx()).toString('base64'), files.get('{}'));
    await assert.rejects(
      worker.train(farQuantized, { ...base, schedule: () => 1 }),
      isError('INVALID_ARGUMENT', { value: 'options.schedule' }),
    );
    await worker.terminate();
  });

  test('goes on with what a file says', async () => {
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(16), config: few });
    const file = await loadModel(quantized.toOnnx({ format: 'qonnx' }));
    const trained = await train(await readQuantized(file), {
      dataset: unlabelled(32),
      epochs: 1,
    });
    assert.ok(trained instanceof QuantizedModel);
    assert.ok((await rightAnswers(trained, 50)) > 15);
  });

  test('the core refuses what the checks would', async () => {
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(4) });
    const create = (options) =>
      quantized.handle.core.createTrainer(quantized.handle.object, options);
    create({ optimizer: 'sgd', scales: 'keep', loss: 'values', measuredBatches: 2 }).delete();
    for (const [name, value] of [
      ['optimizer', 'adams'],
      ['scales', 'learned'],
      ['loss', 'value'],
      ['momentum', 1],
      ['weightDecay', NaN],
      ['scaleRate', 1001],
      ['labelShare', -1],
    ]) {
      const { code, message } = create({ [name]: value }).requantError;
      assert.equal(code, 'INVALID_ARGUMENT', name);
      assert.match(message, new RegExp(`^${name} .*${String(value).toLowerCase()}`, 'i'));
    }
  });

  test('refuses what makes no sense', async () => {
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(4) });
    const dataset = unlabelled(4);
    const refuse = (options, details, code = 'INVALID_ARGUMENT') =>
      assert.rejects(train(quantized, options), isError(code, details));
    await assert.rejects(
      train({ model }, { dataset }),
      isError('INVALID_ARGUMENT', { value: 'quantized' }),
    );
    await refuse({}, { value: 'options.dataset' });
    await refuse({ dataset: [] }, { message: /no samples/ });
    await refuse({ dataset, epoch: 3 }, { hint: /epochs/ });
    await refuse({ dataset, epochs: 0 }, { value: 'options.epochs' });
    await refuse({ dataset, batchSize: 1.5 }, { value: 'options.batchSize' });
    await refuse({ dataset, optimizer: 'adams' }, { hint: /adam/ });
    await refuse({ dataset, scales: 'learned' }, { hint: /learn/ });
    await refuse({ dataset, schedule: 'cosinus' }, { hint: /cosine/ });
    await refuse({ dataset, schedule: () => NaN }, { value: 'options.schedule' });
    await refuse({ dataset, learningRate: -1 }, { value: 'options.learningRate' });
    await refuse({ dataset, momentum: 1 }, { value: 'options.momentum', hint: /below 1/ });
    await refuse({ dataset, labelShare: 1.5 }, { value: 'options.labelShare', hint: /0 to 1/ });
    await refuse({ dataset, freezeAfter: 2 }, { value: 'options.freezeAfter' });
    await refuse({ dataset: [{ feeds: dataset[0].feeds, label: -1 }] }, { message: /sample 0/ });
    const { feeds } = dataset[0];
    await refuse({ dataset: [{ feeds, label: 10 }] }, { message: /^label is 10 of 10 classes/ });
    await refuse({ dataset: [{}] }, { message: /sample 0/ });
    const nan = Float32Array.from({ length: 784 }, () => NaN);
    const bad = { feeds: { image: new Tensor('float32', nan, [1, 1, 28, 28]) } };
    await refuse({ dataset: [dataset[0], bad] }, { message: /sample 1: .*NaN/ });
    const wide = { feeds: { image: new Tensor('float32', [1, 2], [1, 1, 1, 2]) } };
    await refuse({ dataset: [wide] }, { message: /sample 0/ }, 'SHAPE_MISMATCH');

    const relu = await quantize(
      await parseModel('graph "" opset 13\ninput %x: float32[1, 4]\n%y = Relu(%x)\noutput %y\n'),
      { calibration: [{ x: new Tensor('float32', [1, 2, 3, -4], [1, 4]) }] },
    );
    await assert.rejects(
      train(relu, { dataset: [{ feeds: { x: new Tensor('float32', [1, 2, 3, -4], [1, 4]) } }] }),
      isError('UNSUPPORTED', { message: /^the model has no layer/ }),
    );

    // The training ends at once, and the engine keeps working.
    const controller = new AbortController();
    await refuse(
      {
        dataset: unlabelled(16),
        epochs: 1000,
        batchSize: 4,
        signal: controller.signal,
        onProgress: ({ done }) => done > 0 && controller.abort(),
      },
      {},
      'ABORTED',
    );
    await train(quantized, { dataset, epochs: 1 });
    quantized.dispose();
    await refuse({ dataset }, {}, 'DISPOSED');
  });

  test('what made things worse is undone, unless it is wanted', async () => {
    const model = await loadModel(MODEL);
    const quantized = await quantize(model, { calibration: calibration(32) });
    const labels = testLabels(64);
    const labelled = testImages(64).map((feeds, index) => ({ feeds, label: labels[index] }));
    const ruinous = {
      epochs: 2,
      batchSize: 8,
      learningRate: 30,
      batchNorm: false,
      schedule: 'constant',
    };
    for (const [options, pattern] of [
      [{ dataset: labelled }, /right answers 9\d\.\d % before, .* after, on 64 samples/],
      [
        { dataset: unlabelled(40), loss: 'scores' },
        /right answers 100\.0 % before.* on 40 samples/,
      ],
      [{ dataset: unlabelled(200) }, /signal to noise \d+\.\d dB before.* on 128 samples/],
    ]) {
      const kept = await train(quantized, { ...ruinous, ...options });
      assert.deepEqual(kept.toOnnx(), quantized.toOnnx());
      assert.match(kept.config.warnings.at(-1), pattern);
      assert.equal(kept.config.warnings.length, quantized.config.warnings.length + 1);
      const last = await train(quantized, { ...ruinous, ...options, keep: 'last' });
      assert.notDeepEqual(last.toOnnx(), quantized.toOnnx());
      assert.ok((await rightAnswers(last, 100)) < (await rightAnswers(quantized, 100)) - 20);
      for (const made of [kept, last]) made.dispose();
    }
    await assert.rejects(
      train(quantized, { dataset: labelled, keep: 'best' }),
      isError('INVALID_ARGUMENT', { value: 'options.keep' }),
    );
    quantized.dispose();
    model.dispose();
  });

  test('a rest of few samples is left out', async () => {
    const quantized = await quantize(await loadModel(MODEL), { calibration: calibration(4) });
    const dataset = unlabelled(19);
    const steps = [];
    const options = { epochs: 1, batchSize: 8, onProgress: ({ done }) => steps.push(done) };
    await train(quantized, { ...options, dataset });
    assert.deepEqual(steps, [0, 8, 16]);
    steps.length = 0;
    await train(quantized, { ...options, dataset: unlabelled(20) });
    assert.deepEqual(steps, [0, 8, 16, 20]);
    steps.length = 0;
    await train(quantized, { ...options, dataset: unlabelled(3) });
    assert.deepEqual(steps, [0, 3]);
  });

  test('the command line', async () => {
    const output = path.join(folder, 'trained.onnx');
    const requant = (...args) => {
      const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
      const main = path.join(ROOT, 'dist/cli/main.js');
      return spawnSync(process.execPath, [...flags, main, 'train', ...args], { encoding: 'utf8' });
    };
    const data = [
      ...['--data', path.join(ROOT, 'demos/data/test-images-idx3-ubyte')],
      ...['--labels', path.join(ROOT, 'demos/data/test-labels-idx1-ubyte')],
      ...['--max-samples', '48', '--epochs', '2', '--batch-size', '16', '-o', output],
    ];
    const first = requant(MODEL, ...data, '--bits', '4', '--flip', '--shift', '1', '--json');
    assert.equal(first.status, 0, first.stderr);
    const report = JSON.parse(first.stdout);
    assert.equal(report.epochs.length, 2);
    assert.ok(report.epochs[1].loss > 0 && report.epochs[1].top1 > 0.3);
    assert.ok(report.trainingTop1.candidate > 0.5);
    assert.equal(readFileSync(output).length, report.bytes);
    // Train the file further.
    const second = requant(output, ...data, '--scales', 'keep', '--optimizer', 'sgd');
    assert.equal(second.status, 0, second.stderr);
    assert.match(second.stdout, /^epoch 1: loss [\d.]+, right [\d.]+ %\nepoch 2: /);
    assert.match(second.stdout, /top-1 on the training samples: float .*\nwrote /);
    // Stop and go on: the state behind the first epoch leads to the same file.
    const epochs = ['--bits', '2', '--validation', '16', '--rate', '0.02'];
    const [state, again] = ['state.bin', 'again.onnx'].map((name) => path.join(folder, name));
    const whole = requant(MODEL, ...data, ...epochs, '--epochs', '1', '--checkpoint', state);
    assert.equal(whole.status, 0, whole.stderr);
    assert.match(whole.stdout, /^epoch 1: loss [\d.]+, right [\d.]+ %, validation [\d.]+ %\n/);
    const resumed = requant(MODEL, ...data, ...epochs, '--resume', state, '-o', again, '--json');
    assert.equal(resumed.status, 0, resumed.stderr);
    assert.equal(Object.keys(JSON.parse(resumed.stdout).epochs.filter(Boolean)).length, 1);
    const float = requant(MODEL, ...data, '--float', '--rate', '0.01');
    assert.equal(float.status, 0, float.stderr);
    assert.match(float.stdout, /wrote .*\(float\)/);
    assert.equal(requant(MODEL, ...data, '--float', '--bits', '2').status, 2);
    assert.equal(requant(MODEL, ...data, '--validation', '48').status, 2);
    requant(MODEL, ...data, '--bits', '4', '--flip', '--shift', '1');
    const refused = requant(output, ...data, '--bits', '2');
    assert.equal(refused.status, 2);
    assert.match(refused.stderr, /--bits is for float models/);
    assert.equal(requant(MODEL, ...data, '--rate', 'x').status, 2);
  });
});

test('augmented images are the same ones, mirrored and moved', async () => {
  const [channels, height, width] = [2, 3, 4];
  const data = Float32Array.from({ length: channels * height * width }, (_, i) => i + 1);
  const dims = [1, channels, height, width];
  const dataset = makeDataset(1, () => ({
    feeds: { x: new Tensor('float32', data, dims) },
    label: 5,
  }));
  const seen = new Set();
  const options = { shift: 1, seed: 3 };
  const images = augmented(dataset, options);
  const channelsLast = augmented(
    makeDataset(1, () => {
      const moved = Float32Array.from(data, (_, i) => data[(i % 2) * 12 + Math.floor(i / 2)]);
      return { feeds: { x: new Tensor('float32', moved, [1, height, width, channels]) } };
    }),
    { ...options, layout: 'nhwc' },
  );
  for (let round = 0; round < 100; round++) {
    let first;
    for await (const { feeds, label } of images) {
      assert.equal(label, 5);
      first = feeds.x.data;
      seen.add(first.join());
      assert.deepEqual(feeds.x.dims, dims);
      // Both channels change alike; the values that were shifted in are 0.
      for (let i = 0; i < 12; i++) assert.equal(first[12 + i], first[i] === 0 ? 0 : first[i] + 12);
    }
    for await (const { feeds } of channelsLast) {
      for (let i = 0; i < 24; i++)
        assert.equal(feeds.x.data[i], first[(i % 2) * 12 + Math.floor(i / 2)]);
    }
  }
  assert.equal(seen.size, 2 * 9);
  assert.ok(seen.has(data.join()));
  assert.throws(() => augmented(dataset, { shift: -1 }), isError('INVALID_ARGUMENT'));
  assert.throws(() => augmented(dataset, { layout: 'chw' }), isError('INVALID_ARGUMENT'));
});

// Rows O1 to O8: 8-bit training of a ResNet for CIFAR-10 stays within half a point of float, for every
// formula, with one scale or one per channel, and with symmetric or affine activations.
describe('8 bits, by OneFlow and Cambricon formulas', { skip: skipShared }, () => {
  const network = networks.find(({ name }) => name === 'resnet8_cifar10');
  const cases = [];
  for (const formula of ['google', 'cambricon']) {
    for (const symmetric of formula === 'google' ? [true, false] : [true]) {
      for (const perChannel of [true, false]) cases.push({ formula, symmetric, perChannel });
    }
  }
  // Each takes half a minute: CI runs the first, and another one every day.
  const [first, ...others] = cases;
  const day = Math.floor(Date.now() / 86_400_000);
  const { CI, REQUANT_LONG } = process.env;
  const share = CI ? [others[day % others.length]] : others;
  const chosen = [first, ...(REQUANT_LONG ? share : [])];
  for (const { formula, symmetric, perChannel } of chosen) {
    const name = `${formula}, ${symmetric ? 'symmetric' : 'affine'}, per ${perChannel ? 'channel' : 'layer'}`;
    test(name, async () => {
      const model = await loadModel(modelPath(network.name));
      const { calibration: images, test: tests } = dataOf(network);
      const quantized = await quantize(model, {
        calibration: feedsOf(take(images, 64)),
        config: {
          activations: { formula, symmetric, observer: 'moving_average' },
          weights: { formula, perChannel, observer: 'minmax' },
          recover: [],
        },
      });
      const dataset = take(cifarImages(network, 'train_3k'), 2048);
      const trained = await train(quantized, {
        dataset,
        epochs: 2,
        scales: 'observe',
      });
      // Half a point: exactly for 5,000 JPEG images; for the 600 test images plus twice the standard error of
      // the difference, which depends on the answers that are lost and won (McNemar).
      for (const [images, spread] of [
        [cifarImages(network, 'train_jpeg_5k'), 0],
        [tests, 2],
      ]) {
        const labels = [];
        for await (const { label } of images) labels.push(label);
        const rights = [];
        for (const candidate of [model, trained]) {
          const session = await InferenceSession.create(candidate);
          const outputs = [];
          for await (const { feeds } of images) {
            outputs.push(Object.values(await session.run(feeds))[0].data);
          }
          rights.push(outputs.map((output, index) => argMax(output) === labels[index]));
          await session.release();
        }
        const [float, now] = rights;
        const lost = float.filter((right, index) => right && !now[index]).length;
        const won = now.filter((right, index) => right && !float[index]).length;
        const allowed = labels.length / 200 + spread * Math.sqrt(lost + won);
        assert.ok(lost - won <= allowed, `${lost} lost, ${won} won, of ${labels.length}`);
      }
    });
  }
});

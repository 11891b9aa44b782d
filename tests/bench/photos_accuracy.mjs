// Few bits of the ImageNet networks of ../shared, rounded in turn and trained on 600 photos without labels (photos.mjs)
// and measured on the 100 test images. Prints Markdown.
//
//   node tests/bench/photos_accuracy.mjs [--networks a,b] [--rows REGEX] [--photos N] [--steps N] [--batch N]
//     [--epochs N] [--rate X] [--judge N] [--config JSON] [--options JSON: of train()]
//
// Each row is quantized with sequential_rounding, or by --config (an object in JSON; methods that learn take --steps of
// --batch photos), and then, with --epochs, trained to give the answers of the float network on the same photos and their
// mirror images. --judge N keeps the last N photos away from both and measures on them instead, for decisions about the
// method, which must not be made on the test images.

import { parseArgs } from 'node:util';
import { loadModel, quantize, train } from 'requant';
import { augmented, feedsOf } from 'requant/dataset';
import { dataOf, modelPath, networks } from '../node/shared_models.mjs';
import { answersOf, part } from './answers.mjs';
import { edgesOf } from './networks.mjs';
import { photosOf } from './photos.mjs';

const { values } = parseArgs({
  options: {
    networks: { type: 'string', default: 'mobilenet_v1_025_224' },
    rows: { type: 'string', default: '.' },
    photos: { type: 'string', default: '600' },
    steps: { type: 'string', default: '0' },
    batch: { type: 'string', default: '0' },
    epochs: { type: 'string', default: '0' },
    rate: { type: 'string', default: '0.002' },
    judge: { type: 'string', default: '0' },
    config: { type: 'string', default: '{}' },
    options: { type: 'string', default: '{}' },
  },
});
const number = (name) => Number(values[name]);

const RECOVER = ['round_weights', 'bias_correction', 'sequential_rounding'];
/** Bits of the weights and activations, and whether the first and the last layer keep eight. */
const ROWS = [
  { name: 'W4A8', weights: 4, activations: 8 },
  { name: 'W4A8, edges W8', weights: 4, activations: 8, edges: true },
  { name: 'W4A4, edges W8A8', weights: 4, activations: 4, edges: true },
];

function score(answers, float) {
  const right = (list) => list.filter(([answer, label]) => answer === label).length;
  const same = answers.filter(([answer], at) => answer === float[at][0]).length;
  const points = (right(answers) - right(float)) / answers.length;
  const accuracy =
    answers[0][1] === undefined ? '-' : `${right(answers)} (${(100 * points).toFixed(1)})`;
  return `${accuracy} | ${((100 * same) / answers.length).toFixed(1)} %`;
}

console.log('| network | bits | quantized: right | same | trained: right | same | seconds | |');
console.log('| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |');
for (const network of networks.filter(({ name }) => values.networks.split(',').includes(name))) {
  const { test } = dataOf(network);
  const all = await photosOf(network);
  const kept = Math.min(number('photos'), all.length - number('judge'));
  const photos = part(all, 0, kept);
  const images = number('judge') > 0 ? part(all, all.length - number('judge'), all.length) : test;
  const model = await loadModel(modelPath(network.name));
  const float = await answersOf(model, images);
  for (const row of ROWS.filter(({ name }) => new RegExp(values.rows).test(name))) {
    let operators = {};
    if (row.edges) {
      const probe = await quantize(model, {
        calibration: feedsOf(part(all, 0, 1)),
        config: { recover: [] },
      });
      operators = edgesOf(probe);
      probe.dispose();
    }
    const times = [performance.now()];
    const quantized = await quantize(model, {
      calibration: feedsOf(photos),
      config: {
        activations: { bits: row.activations, observer: row.activations < 8 ? 'mse' : 'minmax' },
        weights: { bits: row.weights, observer: 'mse' },
        operators,
        recover: RECOVER,
        recoverSamples: kept,
        ...(number('steps') > 0 ? { recoverSteps: number('steps') } : {}),
        ...(number('batch') > 0 ? { recoverBatch: number('batch') } : {}),
        ...JSON.parse(values.config),
      },
      onProgress({ phase, method, done, total }) {
        if (done % 1000 === 0) console.error(`${row.name}: ${method ?? phase} ${done} of ${total}`);
      },
    });
    for (const { method, beforeDb, afterDb, detail } of quantized.config.recovery) {
      console.error(`  ${method}: ${beforeDb?.toFixed(2)} -> ${afterDb?.toFixed(2)} dB, ${detail}`);
    }
    times.push(performance.now());
    const before = score(await answersOf(quantized, images), float);
    let after = ' | ';
    if (number('epochs') > 0) {
      const trained = await train(quantized, {
        dataset: augmented(photos, { flip: true }),
        epochs: number('epochs'),
        labelShare: 0,
        learningRate: number('rate'),
        ...JSON.parse(values.options),
        onProgress({ epoch, loss, done }) {
          if (done % 128 === 0)
            console.error(`${row.name}: epoch ${epoch + 1}, ${done}, loss ${loss}`);
        },
      });
      after = score(await answersOf(trained, images), float);
      trained.dispose();
    }
    times.push(performance.now());
    const seconds = times.slice(1).map((time, at) => ((time - times[at]) / 1000).toFixed(0));
    console.log(
      `| ${network.name} | ${row.name} | ${before} | ${after} | ${seconds.join(' + ')} | ${kept} photos |`,
    );
    quantized.dispose();
  }
  model.dispose();
}

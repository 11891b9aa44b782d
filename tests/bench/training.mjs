// The accuracy tables of quantization-aware training in docs/quantization.md: CIFAR networks of ../shared,
// trained on ../shared/data/cifar10/train_3k.bin and measured on test_600. Markdown on stdout; progress on stderr.
//
//   node tests/bench/training.mjs --table formulas [--network resnet8_cifar10] [--epochs N] [--images N]
//   node tests/bench/training.mjs --table bits [--network resnet20_cifar10] [--rows REGEX]
//     [--options JSON: more options of train()] [--jpeg N: learns from N images with JPEG artifacts as well]
//
// formulas: 8 bits by every formula, symmetric or affine, per layer or channel, with observed scales. The last
// columns are onnxruntime-web's answers to both files that are written, and the largest difference of an output.
// bits: few bits with learned scales, first and last layer at 8, images mirrored and moved by up to 4 pixels in
// every epoch.

import { parseArgs } from 'node:util';
import { InferenceSession, loadModel, quantize, train } from 'requant';
import { augmented, feedsOf, take } from 'requant/dataset';
import { argmax, cifarImages, dataOf, modelPath, networks } from '../node/shared_models.mjs';
import { ortOutputs, outputsOf } from '../node/support.mjs';
import { answersOf } from './answers.mjs';
import { edgesOf } from './networks.mjs';

const { values } = parseArgs({
  options: {
    table: { type: 'string', default: 'bits' },
    network: { type: 'string' },
    rows: { type: 'string', default: '.' },
    epochs: { type: 'string' },
    images: { type: 'string', default: '3292' },
    jpeg: { type: 'string', default: '0' },
    options: { type: 'string', default: '{}' },
  },
});

// Cambricon's formula has no zero points.
const formulas = [
  ['google', 'symmetric'],
  ['google', 'affine'],
  ['google', 'affine, weights too'],
  ['cambricon', 'symmetric'],
].flatMap(([formula, form]) =>
  [true, false].map((perChannel) => ({
    name: `${formula}, ${form}, per ${perChannel ? 'channel' : 'layer'}`,
    config: {
      activations: { formula, symmetric: form === 'symmetric', observer: 'moving_average' },
      weights: { formula, perChannel, observer: 'minmax', symmetric: !form.endsWith('too') },
      recover: [],
    },
    options: { epochs: 3, scales: 'observe' },
  })),
);

const bits = [
  [8, 4, { epochs: 4 }],
  [4, 4, { epochs: 6 }],
  [3, 3, { epochs: 10 }],
  [2, 4, { epochs: 10, learningRate: 0.01, batchSize: 16 }],
  [2, 2, { epochs: 18, learningRate: 0.02, batchSize: 16 }],
  [8, 1, { epochs: 8, learningRate: 0.02, batchSize: 16 }],
  [1, 1, { epochs: 12, learningRate: 0.02, batchSize: 16 }],
  [1, 1, { epochs: 12, learningRate: 0.02, batchSize: 16 }, true],
].map(([activations, weights, options, signs = false]) => ({
  name: `W${weights}A${activations}${signs ? ', signs' : ''}`,
  edges: true,
  config: {
    activations: { bits: activations, observer: 'mse', symmetric: signs },
    weights: { bits: weights, observer: 'auto' },
    // With one bit the sums of residual blocks keep eight, as in the published networks.
    ...(weights === 1 ? { operatorTypes: { Add: { activations: { bits: 8 } } } } : {}),
  },
  options,
}));

const table = { formulas, bits }[values.table];
const name =
  values.network ?? (values.table === 'formulas' ? 'resnet8_cifar10' : 'resnet20_cifar10');
const network = networks.find((one) => one.name === name);
const { calibration, test } = dataOf(network);
const model = await loadModel(modelPath(name));
const scales = { calibration: feedsOf(take(calibration, 128)) };

// A difference of a point is uncertain with few images: these have JPEG artifacts, and there are many of
// them.
const other = cifarImages(network, 'train_jpeg_5k');

const float = await answersOf(model, test);
const floatOther = await answersOf(model, other);
const rightOf = (answers) => answers.filter(([answer, label]) => answer === label).length;
const sameAs = (answers) =>
  answers.filter(([answer], index) => answer === float[index][0]).length / answers.length;
console.log(
  `\n${name}: ${rightOf(float)} of ${float.length} right in float, ${rightOf(floatOther)} of ${floatOther.length} JPEG images\n`,
);
/** What onnxruntime-web makes of the files of a model: right answers, and how far its outputs are from ours. */
async function besideOrt(trained) {
  const feeds = [];
  const labels = [];
  for await (const sample of test) {
    feeds.push(sample.feeds);
    labels.push(sample.label);
  }
  const session = await InferenceSession.create(trained, { requantize: 'float' });
  const ours = await outputsOf(session, feeds);
  await session.release();
  const cells = [];
  for (const format of ['qdq', 'qoperator']) {
    const theirs = await ortOutputs(trained.toOnnx({ format }), feeds);
    const right = theirs.filter((output, i) => argmax(output) === labels[i]).length;
    const far = theirs.map((output, i) =>
      output.reduce((most, value, at) => Math.max(most, Math.abs(value - ours[i][at])), 0),
    );
    cells.push(`${right}, ${Math.max(...far).toPrecision(1)}`);
  }
  return cells;
}

const judged = values.table === 'formulas';
console.log(
  '| | right before | right after | same answers | of JPEG images before | after | seconds |' +
    (judged ? ' Q/DQ file | QOperator file |' : ''),
);
console.log(`| --- |${' ---: |'.repeat(judged ? 8 : 6)}`);
/** The number of right answers above float's, in points. */
const beyond = (answers) =>
  ((100 * (rightOf(answers) - rightOf(floatOther))) / floatOther.length).toFixed(1);
let edges;
for (const row of table.filter((one) => new RegExp(values.rows).test(one.name))) {
  if (row.edges && !edges) {
    const probe = await quantize(model, { ...scales, config: { recover: [] } });
    edges = edgesOf(probe);
    probe.dispose();
  }
  const config = { ...row.config, ...(row.edges ? { operators: edges } : {}) };
  const quantized = await quantize(model, { ...scales, config });
  const images = [];
  for await (const image of take(cifarImages(network, 'train_3k'), Number(values.images)))
    images.push(image);
  if (Number(values.jpeg) > 0) {
    for await (const image of take(other, Number(values.jpeg))) images.push(image);
  }
  const start = performance.now();
  let last = -1;
  const trained = await train(quantized, {
    dataset: row.edges ? augmented(images, { flip: true, shift: 4 }) : images,
    ...row.options,
    ...(values.epochs ? { epochs: Number(values.epochs) } : {}),
    ...JSON.parse(values.options),
    onProgress({ epoch, loss, top1, done, total }) {
      if (done + 32 < total || epoch === last) return;
      last = epoch;
      console.error(`${row.name}: epoch ${epoch + 1}, loss ${loss.toFixed(4)}, right ${top1}`);
    },
  });
  const seconds = (performance.now() - start) / 1000;
  const [before, after] = [await answersOf(quantized, test), await answersOf(trained, test)];
  console.log(
    `| ${row.name} | ${rightOf(before)} | ${rightOf(after)} (${rightOf(after) - rightOf(float)}) | ` +
      `${(100 * sameAs(after)).toFixed(1)} % | ${beyond(await answersOf(quantized, other))} | ` +
      `${beyond(await answersOf(trained, other))} | ${seconds.toFixed(0)} |` +
      (judged ? ` ${(await besideOrt(trained)).join(' | ')} |` : ''),
  );
  quantized.dispose();
  trained.dispose();
}

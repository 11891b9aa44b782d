// The accuracy tables of docs/quantization.md: pretrained networks of ../shared, quantized in many ways on
// calibration images and measured on the test images. Prints Markdown.
//
//   node tests/bench/quantization.mjs [--table auto|observers|bits|affine|w4a8|w4a4] [--networks a,b]
//     [--calibration N] [--config JSON] [--images N] [--rows REGEX] [--json FILE] [--wide]
//     [--validate [--moved] [--last]] [--from N] [--other FILE]
//
// --validate measures on the calibration images that were not used, for decisions about the method, which
// must not be made on the test images. --moved makes four of each: itself, mirrored, moved by 8 pixels, both.
// --last calibrates with the last N images instead of the first. --from calibrates with N images from that
// one on, to measure the effect of the choice of images. --other measures CIFAR networks on the labelled
// images of ../shared/data/cifar10/FILE.bin.
//
// --wide also prints a table with a column for each network at the end: right answers less those of float (if
// there are labels), the share of answers equal to float's in %, and the signal to noise ratio in dB.
//
// A row shows right answers (and their difference to float), the share of answers equal to float's, the
// signal to noise ratio of the outputs and of the differences between classes (each row less its mean), and
// the seconds of quantizing.

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf, take } from 'requant/dataset';
import { argmax, cifarImages, dataOf, modelPath, networks } from '../node/shared_models.mjs';
import { movedImages } from '../node/moved_images.mjs';
import { part } from './answers.mjs';
import { edgesOf } from './networks.mjs';
import { photosOf } from './photos.mjs';

const a4 = (observer) => ({ bits: 4, observer });
const w4 = (observer) => ({ bits: 4, observer });
/** The recovery methods that keep all operators in integers. */
const INTEGERS = ['round_weights', 'bias_correction'];
/** First and last layers keep 8 bits, as is usual for 4-bit networks. */
const lowBits = (weights, activations) => ({
  ...(activations < 8
    ? { activations: a4('mse'), weights: w4('auto') }
    : { activations: { observer: 'auto' }, weights: w4('auto') }),
  edges: activations < 8,
});

const recoveries = {
  none: [],
  equalize: ['equalize'],
  'channel split': ['channel_split'],
  'round + bias': INTEGERS,
  'empirical bias': ['empirical_bias'],
  adaround: ['adaround'],
  'learned steps': ['learned_steps'],
  'round + adaround': ['round_weights', 'bias_correction', 'adaround'],
  'block reconstruction': ['round_weights', 'bias_correction', 'block_reconstruction'],
};

const tables = {
  observers() {
    const rows = {};
    for (const observer of ['minmax', 'moving_average', 'percentile', 'kl', 'mse', 'auto']) {
      for (const perChannel of [false, true]) {
        for (const symmetric of [true, false]) {
          const own = observer === 'moving_average' ? 'minmax' : observer;
          rows[
            `${observer}, per ${perChannel ? 'channel' : 'tensor'}, ${symmetric ? 'symmetric' : 'affine'}`
          ] = {
            activations: { observer, symmetric },
            weights: { observer: own, perChannel },
            ...(observer === 'auto' ? {} : { recover: INTEGERS }),
          };
        }
      }
    }
    return rows;
  },
  auto: () => ({
    default: {},
    'integers alone': { recover: INTEGERS },
    auto: { activations: { observer: 'auto' }, weights: { observer: 'auto' } },
  }),
  bits: () => {
    const config = (activations, weights, rest) => ({
      activations: { ...rest, bits: activations },
      weights: { ...rest, bits: weights },
      floatOutputs: true,
    });
    const pairs = [8, 9, 10, 12, 16].map((bits) => [bits, 8]).concat([[8, 16]]);
    return {
      ...Object.fromEntries(
        pairs.map(([a, w]) => [`A${a}, W${w}`, { ...config(a, w), recover: INTEGERS }]),
      ),
      'A8, W8, auto': config(8, 8, { observer: 'auto' }),
    };
  },
  affine: () =>
    Object.fromEntries(
      [8, 4].flatMap((bits) =>
        [true, false].flatMap((perChannel) =>
          [true, false].map((symmetric) => [
            `W${bits}A8, per ${perChannel ? 'channel' : 'tensor'}, ${symmetric ? 'symmetric' : 'affine'}`,
            { weights: { bits, perChannel, symmetric }, recover: INTEGERS },
          ]),
        ),
      ),
    ),
  w4a8: () =>
    Object.fromEntries(
      Object.entries(recoveries).map(([name, recover]) => [
        `W4A8, ${name}`,
        { ...lowBits(4, 8), recover },
      ]),
    ),
  w4a4: () =>
    Object.fromEntries(
      Object.entries(recoveries).map(([name, recover]) => [
        `W4A4, ${name}`,
        { ...lowBits(4, 4), recover },
      ]),
    ),
};

const { values } = parseArgs({
  options: {
    table: { type: 'string', default: 'auto' },
    networks: { type: 'string', default: 'resnet20_cifar10' },
    calibration: { type: 'string' },
    config: { type: 'string' },
    images: { type: 'string' },
    rows: { type: 'string' },
    json: { type: 'string' },
    validate: { type: 'boolean', default: false },
    moved: { type: 'boolean', default: false },
    last: { type: 'boolean', default: false },
    from: { type: 'string', default: '0' },
    other: { type: 'string' },
    photos: { type: 'boolean', default: false },
    wide: { type: 'boolean', default: false },
  },
});

async function answersOf(session, images) {
  const answers = [];
  for await (const { feeds, label } of images) {
    const [output] = Object.values(await session.run(feeds));
    answers.push({ label, data: output.data });
  }
  return answers;
}

/** The images for calibration, and those for measuring. */
async function imagesOf(network) {
  const { calibration: own, test } = dataOf(network);
  const calibration = values.photos ? await photosOf(network) : own;
  const { length } = calibration;
  const count = Math.min(
    length,
    Number(values.calibration ?? (network.kind === 'cifar' ? 256 : 32)),
  );
  const from = values.last ? length - count : Number(values.from);
  const shown = part(calibration, from, Math.min(from + count, length));
  if (!values.validate)
    return { shown, images: values.other ? cifarImages(network, values.other) : test };
  const rest = values.last
    ? part(calibration, 0, length - count)
    : part(calibration, count, length);
  return { shown, images: values.moved ? movedImages(rest) : rest };
}

const power = (values) => values.reduce((sum, value) => sum + value * value, 0);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

async function measure(network, name, config) {
  const { shown, images: all } = await imagesOf(network);
  const images = values.images ? take(all, Number(values.images)) : all;
  const model = await loadModel(modelPath(network.name));
  const float = await answersOf(await InferenceSession.create(model), images);
  const start = performance.now();
  const { edges, ...plain } = config;
  let keep = {};
  if (edges) {
    const probe = await quantize(model, {
      calibration: feedsOf(take(shown, 1)),
      config: { recover: [] },
    });
    keep = { operators: edgesOf(probe, config.edgeActivations) };
    probe.dispose();
  }
  const quantized = await quantize(model, {
    calibration: feedsOf(shown),
    config: { ...plain, ...keep },
    onProgress: ({ phase, method, done, total }) =>
      process.stderr.isTTY &&
      process.stderr.write(`\r${name} ${method ?? phase} ${done}/${total}      `),
  });
  const seconds = (performance.now() - start) / 1000;
  const mine = await answersOf(await InferenceSession.create(quantized), images);
  const row = {
    network: network.name,
    name,
    images: mine.length,
    right: 0,
    float: 0,
    same: 0,
    seconds,
  };
  let [signal, noise, classes, classNoise] = [0, 0, 0, 0];
  mine.forEach(({ label, data }, index) => {
    const wanted = float[index].data;
    row.right += Number(argmax(data) === label);
    row.float += Number(argmax(wanted) === label);
    row.same += Number(argmax(data) === argmax(wanted));
    const errors = wanted.map((value, at) => value - data[at]);
    signal += power(wanted);
    noise += power(errors);
    classes += power(wanted) - power([mean(wanted)]) * wanted.length;
    classNoise += power(errors) - power([mean(errors)]) * errors.length;
  });
  row.snr = 10 * Math.log10(signal / noise);
  row.classSnr = 10 * Math.log10(classes / classNoise);
  row.recovery = quantized.config.recovery;
  row.warnings = quantized.config.warnings;
  quantized.dispose();
  model.dispose();
  return row;
}

const rows = [];
const chosen = values.networks.split(',');
if (!values.config && !(values.table in tables)) {
  throw new Error(`--table ${values.table}: there are ${Object.keys(tables).join(', ')}`);
}
const configs = values.config
  ? Object.fromEntries([JSON.parse(values.config)].flat().map((one) => [JSON.stringify(one), one]))
  : tables[values.table]();
process.stdout.write(
  '| network | configuration | top-1 | against float | agreement | SNR dB | between classes | s |\n',
);
process.stdout.write('| --- | --- | --- | --- | --- | --- | --- | --- |\n');
for (const network of networks.filter(({ name }) => chosen.includes(name))) {
  for (const [name, config] of Object.entries(configs)) {
    if (values.rows && !new RegExp(values.rows).test(name)) continue;
    const row = await measure(network, name, config);
    rows.push(row);
    process.stderr.write('\r');
    process.stdout.write(
      `| ${row.network} | ${name} | ${row.right}/${row.images} | ${row.right - row.float} | ` +
        `${((100 * row.same) / row.images).toFixed(1)} % | ${row.snr.toFixed(1)} | ` +
        `${row.classSnr.toFixed(1)} | ${row.seconds.toFixed(1)} |\n`,
    );
    for (const { method, beforeDb, afterDb, detail } of row.recovery) {
      process.stderr.write(
        `  ${method}: ${beforeDb?.toFixed(2)} -> ${afterDb?.toFixed(2)} dB, ${detail}\n`,
      );
    }
    for (const warning of row.warnings) process.stderr.write(`  ${warning}\n`);
  }
}
if (values.wide) {
  const measured = [...new Set(rows.map(({ network }) => network))];
  const cell = ({ right, float, same, images, snr }) => {
    const more = `${right > float ? '+' : ''}${right - float}, `;
    return `${float > 0 ? more : ''}${((100 * same) / images).toFixed(1)}, ${snr.toFixed(1)}`;
  };
  const named = [...new Set(rows.map(({ name }) => name))];
  const lines = named.map((name) => [
    name,
    ...measured.map((network) => {
      const row = rows.find((one) => one.name === name && one.network === network);
      return row ? cell(row) : '';
    }),
  ]);
  const rule = ['---', ...measured.map(() => '---:')];
  for (const line of [['', ...measured], rule, ...lines]) {
    process.stdout.write(`| ${line.join(' | ')} |\n`);
  }
}
if (values.json) writeFileSync(values.json, JSON.stringify(rows, null, 2));

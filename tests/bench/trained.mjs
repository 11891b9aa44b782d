// Prints the tables of docs/quantization.md about trained transformers as Markdown.
//
//   node tests/bench/trained.mjs [--table vit|lm|weights|rotations|past] [--rows REGEX] [--folder build/trained]
//     [--images N] [--windows N] [--calibration N] [--ort] [--layers]
//
// tests/transformers/train_vit.py and train_lm.py make the networks and the texts. --images and --windows are
// how many images and pieces of text measure (10,000 and 64), --calibration how many of others calibrate (128
// images, 48 pieces). --ort also runs the written files in onnxruntime-web and counts how many
// answers are the same. --layers prints what was chosen for every layer.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { InferenceSession, loadModel, quantize, quantizeDynamic, quantizeWeights } from 'requant';
import { argmax } from '../node/shared_models.mjs';

const { values } = parseArgs({
  options: {
    table: { type: 'string', default: 'weights' },
    rows: { type: 'string', default: '' },
    folder: { type: 'string', default: 'build/trained' },
    images: { type: 'string', default: '10000' },
    windows: { type: 'string', default: '64' },
    calibration: { type: 'string' },
    ort: { type: 'boolean', default: false },
    layers: { type: 'boolean', default: false },
  },
});

const DATA = '/usr/share/datasets/fashion-mnist';
const LENGTH = 128; // characters of a piece
const BATCH = 50; // images of a run

/** Debian's images in batches of one size: feeds and labels. */
function images(name, begin, count, batch) {
  const read = (kind, offset) =>
    gunzipSync(readFileSync(`${DATA}/${name}-${kind}-ubyte.gz`)).subarray(offset);
  const [pixels, labels] = [read('images-idx3', 16), read('labels-idx1', 8)];
  const batches = [];
  for (let at = begin; at < begin + count; at += batch) {
    const data = Float32Array.from(pixels.subarray(at * 784, (at + batch) * 784), (x) => x / 255);
    batches.push({
      feeds: { pixel_values: { type: 'float32', dims: [batch, 1, 28, 28], data } },
      labels: labels.subarray(at, at + batch),
    });
  }
  return batches;
}

/** Pieces of a text that are spread over all of it. */
function pieces(name, count) {
  const text = readFileSync(`${values.folder}/${name}`);
  const step = Math.floor(text.length / count);
  return Array.from({ length: count }, (_, index) => {
    const codes = text.subarray(index * step, index * step + LENGTH);
    const tensor = (data) => ({ type: 'int64', dims: [1, LENGTH], data });
    const feeds = {
      input_ids: tensor(BigInt64Array.from(codes, BigInt)),
      attention_mask: tensor(new BigInt64Array(LENGTH).fill(1n)),
    };
    return { feeds, codes };
  });
}

/** The negative logarithm of the probability of a class. */
function surprise(scores, index) {
  const most = scores.reduce((a, b) => Math.max(a, b));
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return most + Math.log(sum) - scores[index];
}

const tasks = {
  vit: {
    file: 'vit.onnx',
    unit: 'right, %',
    calibration: () => images('train', 0, Number(values.calibration ?? 128), 1),
    test: () => images('t10k', 0, Number(values.images), BATCH),
    async measure(run, samples) {
      const answers = [];
      let right = 0;
      for (const { feeds, labels } of samples) {
        const { data } = (await run(feeds)).logits;
        labels.forEach((label, index) => {
          answers.push(argmax(data.subarray(index * 10, index * 10 + 10)));
          right += Number(answers.at(-1) === label);
        });
      }
      return { value: (100 * right) / answers.length, answers };
    },
    cell: (value, float) => `${value.toFixed(2)} | ${(value - float).toFixed(2)}`,
  },
  lm: {
    file: 'lm.onnx',
    unit: 'perplexity',
    calibration: () => pieces('lm_train.txt', Number(values.calibration ?? 48)),
    test: () => pieces('lm_test.txt', Number(values.windows)),
    async measure(run, samples) {
      const answers = [];
      let sum = 0;
      for (const { feeds, codes } of samples) {
        const { data, dims } = (await run(feeds)).logits;
        const width = dims.at(-1);
        for (let at = 0; at + 1 < LENGTH; at++) {
          const scores = data.subarray(at * width, (at + 1) * width);
          sum += surprise(scores, codes[at + 1]);
          answers.push(argmax(scores));
        }
      }
      return { value: Math.exp(sum / answers.length), answers };
    },
    cell: (value, float) => `${value.toFixed(4)} | ${(100 * (value / float - 1)).toFixed(2)} %`,
  },
};

const feedsOf = (samples) => samples.map(({ feeds }) => feeds);
const static_ = (config) => (model, calibration) =>
  quantize(model, { calibration: feedsOf(calibration), config });
const blocks = (options) => (model) => quantizeWeights(model, options);
const fitted = (options) => (model, calibration) =>
  quantizeWeights(model, { ...options, calibration: feedsOf(calibration) });
const nbits = { format: 'matmulnbits' };
const w4 = { weights: { bits: 4 } };

/** Quantizations of activations and weights: the default, what each recovery method gains, and blocks. */
const common = {
  'W8A8 static': static_({}),
  'W8A8 static, no recovery': static_({ recover: [] }),
  'W8A8 static, SmoothQuant': static_({ recover: ['equalize_activations'] }),
  'W8A8 static, bias correction': static_({ recover: ['bias_correction'] }),
  'W8A8 static, rounding and bias': static_({ recover: ['round_weights', 'bias_correction'] }),
  'W8A8 static, AdaRound': static_({ recover: ['adaround'] }),
  'W8A8 static, float edges': static_({ recover: ['float_start', 'float_end', 'float_sums'] }),
  'W8A8 static, auto': static_({
    activations: { observer: 'auto' },
    weights: { observer: 'auto' },
  }),
  'W8A8 dynamic': (model) => quantizeDynamic(model),
  'W8A8 dynamic, one scale': (model) => quantizeDynamic(model, { perToken: false }),
  'W8 blocks': blocks({ bits: 8 }),
  'W4 blocks': blocks({ bits: 4, ...nbits, int8Activations: false }),
  'W4 blocks, A8': blocks({ bits: 4, ...nbits }),
  'W4 blocks, GPTQ': fitted({ bits: 4, ...nbits, int8Activations: false }),
  'W4A8 static': static_(w4),
  'W4A8 static, no recovery': static_({ ...w4, recover: [] }),
  'W4A8 static, AdaRound': static_({ ...w4, recover: ['round_weights', 'adaround'] }),
};

const weights = Object.fromEntries(
  [4, 3, 2].flatMap((bits) =>
    [true, false].flatMap((symmetric) => {
      const name = `W${bits}, ${symmetric ? 'symmetric' : 'affine'}`;
      const options = { bits, symmetric };
      return [
        [`${name}, nearest`, blocks(options)],
        ...['gptq', 'awq', 'awq_gptq'].map((method) => [
          `${name}, ${method}`,
          fitted({ ...options, method }),
        ]),
      ];
    }),
  ),
);

const rotate = 'auto';
/** Rotations, with and without samples, on blocks of two sizes. 2 bits have zero points. */
const rotations = Object.fromEntries(
  [4, 3, 2].flatMap((bits) =>
    [32, 128].flatMap((blockSize) => {
      const name = `W${bits}${bits === 2 ? ', affine' : ''}, blocks of ${blockSize}`;
      const options = { bits, blockSize, symmetric: bits > 2 };
      return [
        [`${name}, nearest`, blocks(options)],
        [`${name}, rotate`, blocks({ ...options, rotate })],
        [`${name}, rotate: always`, blocks({ ...options, rotate: 'always' })],
        [`${name}, gptq`, fitted(options)],
        [`${name}, gptq, rotate`, fitted({ ...options, rotate })],
        [`${name}, gptq, rotate: always`, fitted({ ...options, rotate: 'always' })],
        [`${name}, awq`, fitted({ ...options, method: 'awq' })],
        [`${name}, awq_gptq`, fitted({ ...options, method: 'awq_gptq' })],
        [`${name}, awq_gptq, rotate`, fitted({ ...options, method: 'awq_gptq', rotate })],
      ];
    }),
  ),
);

/** A past in 8 bits; tests/transformers/round_past.py makes the file. */
const past = { 'past of 8 bits': () => loadModel(`${values.folder}/lm_past8.onnx`) };

const tables = {
  vit: ['vit', common],
  lm: ['lm', common],
  weights: ['lm', weights],
  rotations: ['lm', rotations],
  past: ['lm', past],
};
if (!(values.table in tables)) {
  throw new Error(`--table ${values.table}: there are ${Object.keys(tables).join(', ')}`);
}
const [name, rows] = tables[values.table];
const task = tasks[name];
const ort = values.ort ? await import('onnxruntime-web') : undefined;

/** A run of a written file in onnxruntime-web, or why there is none. */
async function foreign(bytes) {
  try {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
    return (feeds) =>
      session.run(
        Object.fromEntries(
          Object.entries(feeds).map(([key, { type, data, dims }]) => [
            key,
            new ort.Tensor(type, data, dims),
          ]),
        ),
      );
  } catch (error) {
    process.stderr.write(`  onnxruntime-web: ${error.message.split('\n')[0]}\n`);
    return undefined;
  }
}

const share = (a, b) => a.filter((answer, index) => answer === b[index]).length / a.length;

const model = await loadModel(`${values.folder}/${task.file}`);
const calibration = task.calibration();
const test = task.test();
const session = await InferenceSession.create(model);
const float = await task.measure((feeds) => session.run(feeds), test);
const head = ['', task.unit, 'against float', 'same answers', 'size, MB', 's'];
if (ort) head.push('onnxruntime-web: same');
process.stdout.write(`| ${head.join(' | ')} |\n| --- |${' ---: |'.repeat(head.length - 1)}\n`);
const megabytes = (bytes) => (bytes.length / 1e6).toFixed(2);
process.stdout.write(
  `| float | ${task.cell(float.value, float.value)} | | ${megabytes(model.toOnnx())} | |\n`,
);
for (const [row, make] of Object.entries(rows)) {
  if (!new RegExp(values.rows).test(row)) continue;
  const start = performance.now();
  const made = await make(model, calibration);
  const seconds = (performance.now() - start) / 1000;
  const own = await InferenceSession.create(made);
  const { value, answers } = await task.measure((feeds) => own.run(feeds), test);
  const bytes = made.toOnnx(row.startsWith('W4A8') ? { int4: true } : {});
  const cells = [
    row,
    task.cell(value, float.value),
    `${(100 * share(answers, float.answers)).toFixed(1)} %`,
    megabytes(bytes),
    seconds.toFixed(1),
  ];
  if (ort) {
    const run = await foreign(bytes);
    const theirs = run && (await task.measure(run, test.slice(0, 8)));
    cells.push(theirs ? `${(100 * share(theirs.answers, answers)).toFixed(1)} %` : '-');
  }
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
  if (values.layers) {
    for (const { name: layer, detail, before, after } of made.weightLayers ?? []) {
      process.stderr.write(
        `  ${layer}: ${before?.toExponential(2)} -> ${after?.toExponential(2)}, ${detail}\n`,
      );
    }
    for (const { method, detail } of made.config?.recovery ?? []) {
      process.stderr.write(`  ${method}: ${detail}\n`);
    }
  }
  own.dispose();
  made.dispose();
}

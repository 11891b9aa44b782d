// The command `train`: training, quantization-aware or of float models.

import { readFile } from 'node:fs/promises';
import { augmented } from '../dataset/augment.js';
import { pictureShape } from '../dataset/node_images.js';
import { type Dataset, behind, take } from '../dataset/sample.js';
import { Model } from '../model/model.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { readQuantized } from '../quantize/read_quantized.js';
import { oneLine } from '../report/format.js';
import { formatBytes, formatShare } from '../report/index.js';
import { type Quality, formatQuality } from '../train/quality.js';
import { train } from '../train/train.js';
import type { TrainOptions } from '../train/train_options.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  oneOf,
  openOptions,
  real,
  required,
  text,
  threadsOption,
} from './args.js';
import { agreementOption, checkAgreement, compareWithProgress } from './comparing.js';
import { metricFrom, metricOptions, openData } from './data.js';
import { loadFloat, write } from './models.js';
import { Progress, type Streams } from './output.js';
import {
  configOptions,
  exportOptions,
  outputOptions,
  quantizeWithProgress,
  readConfig,
} from './quantizing.js';

export const trainSpec: CommandSpec = {
  name: 'train',
  summary: 'Train: with few bits (quantization-aware), or in float.',
  positionals: ['MODEL'],
  options: {
    ...outputOptions,
    ...configOptions,
    ...agreementOption,
    ...metricOptions,
    epochs: { type: 'string', value: 'N', help: 'how often all samples are seen; default 10' },
    'batch-size': { type: 'string', value: 'N', help: 'samples of a step; default 32' },
    rate: { type: 'string', value: 'X', help: 'learning rate; default 0.005, of sgd 0.01' },
    optimizer: { type: 'string', value: 'O', help: 'adam (default) or sgd' },
    momentum: { type: 'string', value: 'X', help: 'of sgd; default 0.9' },
    'weight-decay': { type: 'string', value: 'X', help: 'default 0' },
    scales: { type: 'string', value: 'S', help: 'learn (default), observe or keep' },
    'no-batch-norm': { type: 'boolean', help: 'without normalization by the batch' },
    keep: {
      type: 'string',
      value: 'WHAT',
      help: 'better (nothing changes if the model was better before), best (epoch, by --validation) or last',
    },
    validation: {
      type: 'string',
      value: 'N',
      help: 'the last N samples measure every epoch instead of training; the best epoch is kept',
    },
    checkpoint: { type: 'string', value: 'FILE', help: 'write the state behind every epoch' },
    resume: { type: 'string', value: 'FILE', help: 'go on with such a state' },
    float: { type: 'boolean', help: 'train the float model in float, by --labels' },
    'label-share': {
      type: 'string',
      value: 'X',
      help: 'of the loss: labels; the rest is the float network; default 0.5',
    },
    flip: { type: 'boolean', help: 'half of the images are mirrored' },
    shift: { type: 'string', value: 'N', help: 'images are moved by up to N pixels' },
    seed: { type: 'string', value: 'N', help: 'of the order of the samples' },
    calibration: { type: 'string', value: 'N', help: 'samples for the first scales; default 128' },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
  notes:
    'A float model is quantized first, with the options of `requant quantize` (not of --float); a quantized one\n' +
    'goes on as its file says. The accuracy that is shown is that on the training samples: measure with `requant compare`.',
};

function trainOptions(values: Values): Omit<TrainOptions, 'dataset'> {
  const options = {
    epochs: integer(values, 'epochs', 1, 1e6),
    batchSize: integer(values, 'batch-size', 1, 1e6),
    learningRate: real(values, 'rate', 0, 1000),
    optimizer: oneOf(values, 'optimizer', ['adam', 'sgd'] as const),
    momentum: real(values, 'momentum', 0, 0.9999),
    weightDecay: real(values, 'weight-decay', 0, 0.9999),
    scales: oneOf(values, 'scales', ['learn', 'observe', 'keep'] as const),
    keep: oneOf(values, 'keep', ['better', 'best', 'last'] as const),
    labelShare: real(values, 'label-share', 0, 1),
    seed: integer(values, 'seed', 0, 2 ** 32 - 1),
    ...(values['no-batch-norm'] ? { batchNorm: false } : {}),
  };
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Omit<TrainOptions, 'dataset'>;
}

async function quantizedOf(
  model: Model,
  values: Values,
  streams: Streams,
): Promise<QuantizedModel> {
  if (model.info.quantized) {
    const given = Object.keys(configOptions).find((name) => values[name] !== undefined);
    if (given) throw new UsageError(`--${given} is for float models; this one is quantized`);
    return readQuantized(model);
  }
  const config = await readConfig(values);
  const samples = take(await openData(values, model), integer(values, 'calibration') ?? 128);
  return quantizeWithProgress(model, samples, config, streams);
}

/** The samples to learn from, and those that measure every epoch. */
function divide(data: Dataset, values: Values): { data: Dataset; validation?: Dataset } {
  const count = integer(values, 'validation', 1);
  if (count === undefined) return { data };
  if (count >= data.length) {
    throw new UsageError(
      `--validation ${count} leaves none of ${data.length} samples to learn from`,
    );
  }
  const rest = data.length - count;
  return { data: take(data, rest), validation: behind(data, rest) };
}

/** The model to train: quantized, or of `--float` the float one. */
async function startOf(model: Model, values: Values, streams: Streams) {
  if (!values['float']) return quantizedOf(model, values, streams);
  const given = Object.keys({ ...configOptions, ...agreementOption }).find(
    (name) => values[name] !== undefined,
  );
  if (given) throw new UsageError(`--${given} is for quantized models, and --float makes none`);
  return model.clone();
}

export async function runTrain(values: Values, [file]: string[], streams: Streams): Promise<void> {
  const output = required(values, 'output');
  const exporting = exportOptions(values);
  required(values, 'data');
  const options = trainOptions(values);
  const flip = values['flip'] === true;
  const shift = integer(values, 'shift', 0, 1e6) ?? 0;
  using model = await loadFloat(file!, streams);
  using start = await startOf(model, values, streams);
  const { data, validation } = divide(await openData(values, model), values);
  const checkpoint = text(values, 'checkpoint');
  const resume = text(values, 'resume');
  const { layout: given } = openOptions(values);
  const dataset =
    flip || shift > 0
      ? augmented(data, { flip, shift, layout: pictureShape(model.info.inputs[0]!, given).layout })
      : data;
  const epochs: { loss: number; top1: number | null; validation?: Quality }[] = [];
  const began = performance.now();
  const progress = new Progress(streams);
  let trained: QuantizedModel | Model;
  try {
    const all: TrainOptions = {
      ...options,
      dataset,
      ...(validation ? { validation } : {}),
      ...metricFrom(values),
      ...(checkpoint ? { onCheckpoint: (state) => write(checkpoint, state, streams) } : {}),
      ...(resume ? { resume: await readFile(resume) } : {}),
      onProgress: ({ epoch, epochs: all, done, total, loss, top1, validation: quality }) => {
        if (done > 0) epochs[epoch] = { loss, top1, ...(quality ? { validation: quality } : {}) };
        progress.show(`epoch ${epoch + 1} of ${all}, loss ${loss.toFixed(4)}`, done, total);
      },
    };
    trained = await (start instanceof Model ? train(start, all) : train(start, all));
  } finally {
    progress.clear();
  }
  using result = trained;
  const seconds = (performance.now() - began) / 1000;
  const bytes = result instanceof Model ? result.toOnnx() : result.toOnnx(exporting);
  await write(output, bytes, streams);
  const measured =
    text(values, 'labels') === undefined && epochs[0]?.top1 === null
      ? undefined
      : await compareWithProgress(model, result, { dataset: data }, streams);
  if (values['json']) {
    const warnings = result instanceof Model ? [] : result.config.warnings;
    const json = { output, samples: data.length, seconds, bytes: bytes.length, epochs, warnings };
    const top1 = measured ? { trainingTop1: measured.top1 } : {};
    streams.out(`${JSON.stringify({ ...json, ...top1 }, null, 2)}\n`);
    if (measured) checkAgreement(values, measured);
    return;
  }
  if (!(result instanceof Model)) {
    for (const warning of result.config.warnings) streams.err(`warning: ${oneLine(warning)}\n`);
  }
  for (const [index, epoch] of epochs.entries()) {
    if (epoch === undefined) continue; // of the training that goes on
    const { loss, top1, validation: quality } = epoch;
    const right = top1 === null ? '' : `, right ${formatShare(top1)}`;
    const judged = quality ? `, validation ${formatQuality(quality)}` : '';
    streams.out(`epoch ${index + 1}: loss ${loss.toFixed(4)}${right}${judged}\n`);
  }
  streams.out(
    `trained on ${data.length} samples, ${Object.keys(epochs).length} epochs in ${seconds.toFixed(1)} s\n`,
  );
  if (measured) {
    const { float, candidate, agreement } = measured.top1;
    streams.out(
      `top-1 on the training samples: float ${formatShare(float)}, quantized ${formatShare(candidate)}, the same ${formatShare(agreement)}\n`,
    );
  }
  const form = result instanceof Model ? 'float' : exporting.format;
  streams.out(`wrote ${output}: ${formatBytes(bytes.length)} (${form})\n`);
  if (measured) checkAgreement(values, measured);
}

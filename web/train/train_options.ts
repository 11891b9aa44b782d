// The options of train(), and their checks.

import type { CompareSample } from '../analyze/compare.js';
import { checkIterable } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { checkBytes, checkOneOf } from '../base/options.js';
import {
  type ConfigOf,
  checkSchema,
  choice,
  flag,
  integer,
  number,
  other,
} from '../base/schema.js';
import type { MetricSpec } from '../metrics/table.js';
import type { Quality } from './quality.js';

/** How far a training has come. */
export interface TrainProgress {
  /** Counted from 0. */
  epoch: number;
  epochs: number;
  /** Samples of this epoch so far. */
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
  /** Mean loss over this epoch so far. */
  loss: number;
  /** Share of right answers in this epoch so far; null without labels. */
  top1: number | null;
  /** Behind an epoch, with `validation`: how the model of this epoch does. */
  validation?: Quality;
}

const belowOne = number('at least 0 and below 1', (value) => value >= 0 && value < 1);
const upTo = (most: number) => number(`0 to ${most}`, (value) => value >= 0 && value <= most);

/** @internal The options of train() that the core reads by the rows of src/train/options.inc. */
export const trainerOptions = {
  /** The optimizer of the weights and scales. Default 'adam'. */
  optimizer: choice('adam', 'sgd'),
  /** For 'sgd': the weight of the past. Default 0.9. */
  momentum: belowOne,
  /** Decay of the weights. Default 0. */
  weightDecay: belowOne,
  /**
   * 'learn': scales are learned with the weights; 'observe': scales of weights follow their range, scales of
   * activations a moving average of the batches' ranges (config `momentum`, `stopUpdateAfter`; with observer
   * 'minmax' their range so far); 'keep': scales stay. Default 'learn'.
   */
  scales: choice('learn', 'observe', 'keep'),
  /**
   * The learning rate of scales (of their logarithms) as a multiple of the learning rate; with b bits it is
   * 2^(2 - b) times as large, with one bit 1/32. Default 1.
   */
  scaleRate: upTo(1000),
  /**
   * Whether convolutions are normalized by the statistics of the batch while they learn, and folded with
   * running statistics before their weights go on their grid. Default true.
   */
  batchNorm: flag,
  /**
   * By which statistics these convolutions fold their normalization while they learn: 'running', a moving average
   * over batches, or 'batch', those of the batch itself, which costs a second convolution. What is deployed has the
   * running ones. Default 'running'.
   */
  fold: choice('running', 'batch'),
  /**
   * 'scores': the first output scores classes, by cross entropy with labels and with the answers of the float
   * network; 'values': squared error against the float network, relative to its power. Default 'scores' if
   * the first sample has a label.
   */
  loss: choice('scores', 'values'),
  /** For 'scores': the weight of labels in the loss. Default 0.5. */
  labelShare: upTo(1),
};

/** @internal The other options of train() but for its dataset. */
export const scheduleOptions = {
  /** How often training walks over the samples. Default 10. */
  epochs: integer(1, 1e6),
  /** Samples of a batch. Default 32. */
  batchSize: integer(1, 1e6),
  /**
   * The learning rate at the beginning. For 'adam' it is relative to the grid of what learns: 0.01 moves
   * weights by about 1 % of their grid's step in an update. Default 0.005, for 'sgd' 0.01.
   */
  learningRate: upTo(1000),
  /**
   * The factor of the learning rate, by the share of the training that is done. Default 'cosine', which falls
   * to 0.
   */
  schedule: other<'cosine' | 'constant' | ((share: number) => number)>(
    'any',
    "'cosine', 'constant' or a function",
  ),
  /**
   * The share of the training after which batch normalization ends, so that the deployed form goes on
   * learning. Default 0.75.
   */
  freezeAfter: upTo(1),
  /** The size of the buffer from which the next sample is drawn. Default 2048; 1 keeps the order. */
  shuffle: integer(1, 1e9),
  /** Seed for the order of the samples. Default 1. */
  seed: integer(0, 2 ** 32 - 1),
  /**
   * 'better': returns the given model, with a warning, if it does better than the trained one on the first
   * 128 samples: more right answers, without labels more answers of the float network, for 'values' less
   * noise. 'best': returns the model of the epoch that does best on `validation`, or, with a warning, the given
   * one if none does better. 'last': always returns the trained one. Default 'best' with `validation`, 'last' with
   * `onCheckpoint` or `resume`, otherwise 'better'.
   */
  keep: choice('better', 'best', 'last'),
  /**
   * Called behind every epoch with the state of the training; training waits for a promise. With these bytes
   * as `resume`, and the same model and options, another call of train() goes on behind that epoch and ends
   * with the same bits.
   */
  onCheckpoint: other<(state: Uint8Array, epoch: number) => void | Promise<void>>(
    'function',
    'a function',
  ),
  /** The state of a training that goes on, from `onCheckpoint`. */
  resume: other<Uint8Array>('any', 'bytes'),
  /** Called before every epoch and after every batch. */
  onProgress: other<(progress: TrainProgress) => void>('function', 'a function'),
  /** Aborts the training. */
  signal: other<AbortSignal>('signal', 'an AbortSignal'),
};

/** Options of {@link train}. */
export interface TrainOptions
  extends ConfigOf<typeof trainerOptions>, ConfigOf<typeof scheduleOptions> {
  /**
   * Samples, with labels where known. Every epoch walks over them once (so a Dataset that makes them anew can
   * vary them); an iterable that can only be walked once is kept in memory.
   */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /**
   * Other samples, on which the model of every epoch is measured: `onProgress` gets its quality, and `keep`
   * chooses by it.
   */
  validation?: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** What to measure on `validation`, instead of right answers: the best epoch is that of the best value. */
  metric?: MetricSpec;
}

export const schedules: Record<string, (share: number) => number> = {
  cosine: (share) => 0.5 * (1 + Math.cos(Math.PI * share)),
  constant: () => 1,
};

/** @internal What train() keeps; the first samples of a training that went on are not known any more. */
export function keepOf({ keep, validation, onCheckpoint, resume }: TrainOptions) {
  return keep ?? (validation ? 'best' : onCheckpoint || resume ? 'last' : 'better');
}

export function checkTrainOptions(options: TrainOptions): void {
  const others = { dataset: other('any'), validation: other('any'), metric: other('any') };
  checkSchema(options, { ...trainerOptions, ...scheduleOptions, ...others }, 'options');
  checkIterable(options.dataset, 'options.dataset');
  const { schedule, validation, keep, resume, onCheckpoint } = options;
  if (validation !== undefined) checkIterable(validation, 'options.validation');
  if (options.metric !== undefined && validation === undefined) {
    throw invalidArgument(
      'options.metric has no samples to measure on',
      'options.metric',
      'Give options.validation.',
    );
  }
  if (resume !== undefined) checkBytes(resume, 'options.resume');
  const needs = keep === 'best' || (keep === 'better' && (resume ?? onCheckpoint) !== undefined);
  if (needs && validation === undefined) {
    throw invalidArgument(
      `options.keep is '${keep}', but there are no samples to choose by`,
      'options.keep',
      'Give options.validation.',
    );
  }
  if (schedule !== undefined && typeof schedule !== 'function') {
    checkOneOf(schedule, Object.keys(schedules), 'options.schedule');
  }
}

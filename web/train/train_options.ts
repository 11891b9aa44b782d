// The options of train(), and their checks.

import type { CompareSample } from '../analyze/compare.js';
import { checkIterable } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { checkInteger, checkOneOf, checkOptions } from '../base/options.js';

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
}

/** Options of {@link train}. */
export interface TrainOptions {
  /**
   * Samples, with labels where known. Every epoch walks over them once (so a Dataset that makes them anew can
   * vary them); an iterable that can only be walked once is kept in memory.
   */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** Default 10. */
  epochs?: number;
  /** Samples of a batch. Default 32. */
  batchSize?: number;
  /** Default 'adam'. */
  optimizer?: 'adam' | 'sgd';
  /**
   * The learning rate at the beginning. For 'adam' it is relative to the grid of what learns: 0.01 moves
   * weights by about 1 % of their grid's step in an update. Default 0.005, for 'sgd' 0.01.
   */
  learningRate?: number;
  /**
   * The factor of the learning rate, by the share of the training that is done. Default 'cosine', which falls
   * to 0.
   */
  schedule?: 'cosine' | 'constant' | ((share: number) => number);
  /** For 'sgd', in [0, 1). Default 0.9. */
  momentum?: number;
  /** Decay of the weights, in [0, 1). Default 0. */
  weightDecay?: number;
  /**
   * 'learn': scales are learned with the weights; 'observe': scales of weights follow their range, scales of
   * activations a moving average of the batches' ranges (config `momentum`, `stopUpdateAfter`; with observer
   * 'minmax' their range so far); 'keep': scales stay. Default 'learn'.
   */
  scales?: 'learn' | 'observe' | 'keep';
  /**
   * The learning rate of scales (of their logarithms) as a multiple of the learning rate; with b bits it is
   * 2^(2 - b) times as large. Default 1.
   */
  scaleRate?: number;
  /**
   * Whether convolutions are normalized by the statistics of the batch while they learn, and folded with
   * running statistics before their weights go on their grid. Default true.
   */
  batchNorm?: boolean;
  /**
   * The share of the training after which batch normalization ends, so that the deployed form goes on
   * learning. Default 0.75.
   */
  freezeAfter?: number;
  /**
   * 'scores': the first output scores classes, by cross entropy with labels and with the answers of the float
   * network; 'values': squared error against the float network, relative to its power. Default 'scores' if
   * the first sample has a label.
   */
  loss?: 'scores' | 'values';
  /** For 'scores': the weight of labels in the loss, in [0, 1]. Default 0.5. */
  labelShare?: number;
  /** The size of the buffer from which the next sample is drawn. Default 2048; 1 keeps the order. */
  shuffle?: number;
  /** Seed for the order of the samples. Default 1. */
  seed?: number;
  /**
   * 'better': returns the given model, with a warning, if it does better than the trained one on the first
   * 128 samples: more right answers, without labels more answers of the float network, for 'values' less
   * noise. 'last': always returns the trained one. Default 'better'.
   */
  keep?: 'better' | 'last';
  onProgress?: (progress: TrainProgress) => void;
  signal?: AbortSignal;
}

const kinds = {
  dataset: 'any',
  epochs: 'integer',
  batchSize: 'integer',
  optimizer: 'string',
  learningRate: 'number',
  schedule: 'any',
  momentum: 'number',
  weightDecay: 'number',
  scales: 'string',
  scaleRate: 'number',
  batchNorm: 'boolean',
  freezeAfter: 'number',
  loss: 'string',
  labelShare: 'number',
  shuffle: 'integer',
  seed: 'integer',
  keep: 'string',
  onProgress: 'function',
  signal: 'signal',
} as const;

export const schedules: Record<string, (share: number) => number> = {
  cosine: (share) => 0.5 * (1 + Math.cos(Math.PI * share)),
  constant: () => 1,
};

export function checkTrainOptions(options: TrainOptions): void {
  checkOptions(options, kinds, 'options');
  checkIterable(options.dataset, 'options.dataset');
  checkInteger(options.epochs, 1, 1e6, 'options.epochs');
  checkInteger(options.batchSize, 1, 1e6, 'options.batchSize');
  checkInteger(options.shuffle, 1, 1e9, 'options.shuffle');
  checkInteger(options.seed, 0, 2 ** 32 - 1, 'options.seed');
  const { optimizer, schedule, scales, loss, learningRate, freezeAfter, keep } = options;
  if (optimizer !== undefined) checkOneOf(optimizer, ['adam', 'sgd'], 'options.optimizer');
  if (scales !== undefined) checkOneOf(scales, ['learn', 'observe', 'keep'], 'options.scales');
  if (keep !== undefined) checkOneOf(keep, ['better', 'last'], 'options.keep');
  if (loss !== undefined) checkOneOf(loss, ['scores', 'values'], 'options.loss');
  if (schedule !== undefined && typeof schedule !== 'function') {
    checkOneOf(schedule, Object.keys(schedules), 'options.schedule');
  }
  const between = (value: number | undefined, most: number, name: string) => {
    if (value === undefined || (value >= 0 && value <= most)) return;
    throw invalidArgument(`${name} is ${value}`, name, `It must be from 0 to ${most}.`);
  };
  between(learningRate, 1000, 'options.learningRate');
  between(freezeAfter, 1, 'options.freezeAfter');
}

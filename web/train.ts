// Quantization-aware training.

import { Breather, checkIterable, items, lengthOf, throwIfAborted } from './abort.js';
import { type CompareSample, checkLabel, ofSample } from './compare.js';
import type { CoreTrainer } from './core.js';
import { invalidArgument, show } from './errors.js';
import { Handle, call, withFeeds } from './heap.js';
import { checkInteger, checkOneOf, checkOptions } from './options.js';
import { QuantizedModel } from './quantize.js';
import { shuffled } from './shuffle.js';

/** How far a training is. */
export interface TrainProgress {
  /** Counted from 0. */
  epoch: number;
  epochs: number;
  /** Samples of this epoch. */
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
  /** Mean over this epoch so far. */
  loss: number;
  /** Share of right answers in this epoch so far; null without labels. */
  top1: number | null;
}

/** Options of {@link train}. */
export interface TrainOptions {
  /**
   * Samples, with labels where known. Walked once in every epoch (so that a Dataset that makes them anew
   * can vary them); what can only be walked once is kept in memory.
   */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** Default 10. */
  epochs?: number;
  /** Samples of a step. Default 32. */
  batchSize?: number;
  /** Default 'adam'. */
  optimizer?: 'adam' | 'sgd';
  /**
   * At the beginning. Of 'adam' relative to the grid of what learns: 0.01 moves weights by about 1 % of their
   * grid's step in an update. Default 0.005, of 'sgd' 0.01.
   */
  learningRate?: number;
  /**
   * What the learning rate is multiplied with, by the share of the training that is done. Default
   * 'cosine', which goes down to 0.
   */
  schedule?: 'cosine' | 'constant' | ((share: number) => number);
  /** Of 'sgd', in [0, 1). Default 0.9. */
  momentum?: number;
  /** Of the weights, in [0, 1). Default 0. */
  weightDecay?: number;
  /**
   * 'learn': scales are learned with the weights; 'observe': those of weights follow their range, those of
   * activations a moving average of the batches' (config `momentum`, `stopUpdateAfter`; with observer
   * 'minmax' their range so far); 'keep': they stay. Default 'learn'.
   */
  scales?: 'learn' | 'observe' | 'keep';
  /**
   * The rate of learned scales (of their logarithms) as a multiple of the learning rate; with b bits it is
   * 2^(2 - b) times as large. Default 1.
   */
  scaleRate?: number;
  /**
   * Convolutions are normalized by the statistics of the batch while they learn, and folded with the
   * running ones before their weights go on their grid. Default true.
   */
  batchNorm?: boolean;
  /** The share of the training after which that ends: what is deployed goes on learning. Default 0.75. */
  freezeAfter?: number;
  /**
   * 'scores': the first output tells classes apart, by cross entropy with labels and with the answers of
   * the float network; 'values': squared error against the float network, relative to its power. Default
   * 'scores' if the first sample has a label.
   */
  loss?: 'scores' | 'values';
  /** Of 'scores': the part of the loss that labels make, in [0, 1]. Default 0.5. */
  labelShare?: number;
  /** Samples from which the next one is drawn. Default 2048; 1: in their order. */
  shuffle?: number;
  /** Of the order of the samples. Default 1. */
  seed?: number;
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
  onProgress: 'function',
  signal: 'signal',
} as const;

const schedules: Record<string, (share: number) => number> = {
  cosine: (share) => 0.5 * (1 + Math.cos(Math.PI * share)),
  constant: () => 1,
};

function checkTrainOptions(options: TrainOptions): void {
  checkOptions(options, kinds, 'options');
  checkIterable(options.dataset, 'options.dataset');
  checkInteger(options.epochs, 1, 1e6, 'options.epochs');
  checkInteger(options.batchSize, 1, 1e6, 'options.batchSize');
  checkInteger(options.shuffle, 1, 1e9, 'options.shuffle');
  checkInteger(options.seed, 0, 2 ** 32 - 1, 'options.seed');
  const { optimizer, schedule, scales, loss, learningRate, freezeAfter } = options;
  if (optimizer !== undefined) checkOneOf(optimizer, ['adam', 'sgd'], 'options.optimizer');
  if (scales !== undefined) checkOneOf(scales, ['learn', 'observe', 'keep'], 'options.scales');
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

/** One that has been walked, if it can be walked only once, as an array for the next epochs. */
class Epochs {
  readonly #source: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  readonly #kept: CompareSample[] | undefined;
  #whole = false;
  length: number | undefined;

  constructor(source: Iterable<CompareSample> | AsyncIterable<CompareSample>) {
    this.#source = source;
    this.length = lengthOf(source);
    const iterable = source as Partial<Iterable<unknown> & AsyncIterable<unknown>>;
    const once =
      (iterable[Symbol.asyncIterator]?.() as unknown) === source ||
      (iterable[Symbol.iterator]?.() as unknown) === source;
    if (once) this.#kept = [];
  }

  async *walk(signal: AbortSignal | undefined): AsyncGenerator<CompareSample, void, undefined> {
    if (this.#kept && this.#whole) {
      yield* this.#kept;
      return;
    }
    let count = 0;
    for await (const sample of items(this.#source, signal)) {
      this.#kept?.push(sample);
      count += 1;
      yield sample;
    }
    this.#whole = true;
    this.length = count;
  }
}

/** @internal All epochs there can be, with null behind each, for who walks over them elsewhere. */
export async function* epochsOf(
  source: Iterable<CompareSample> | AsyncIterable<CompareSample>,
): AsyncGenerator<CompareSample | null, void, undefined> {
  const epochs = new Epochs(source);
  for (;;) {
    yield* epochs.walk(undefined);
    yield null;
  }
}

/**
 * Quantization-aware training: a quantized model goes on learning with its grids in place, from labels,
 * from the float network it was made of, or both, in the same engine. Rounding passes gradients straight
 * through; weights, biases and scales learn. For few bits, where what quantize() recovers is not enough:
 * some thousand samples and some minutes. Works in slices, so that events, progress and `signal` get
 * their turn; {@link RequantWorker.train} is the same on another thread.
 *
 * @param quantized What {@link quantize} or {@link readQuantized} made; it stays as it is. Gradients go
 * through the operators of convolutional networks; layers that none reaches are named in the warnings.
 * @returns A model with the same operators and bits; `config.recovery` says how the training went.
 * @throws RequantError INVALID_ARGUMENT for a bad option, no samples, NaN or infinity in one, and when the
 * loss becomes NaN (a learning rate that is too large); UNSUPPORTED for a model without layers that can
 * learn; OUT_OF_MEMORY for a batch whose values do not fit; ABORTED.
 * @example
 * const quantized = await quantize(model, { calibration, config: { weights: { bits: 2 } } });
 * const trained = await train(quantized, { dataset: samplesWithLabels, epochs: 20 });
 * await trained.save('model.w2.onnx');
 */
export async function train(
  quantized: QuantizedModel,
  options: TrainOptions,
): Promise<QuantizedModel> {
  if (!(quantized instanceof QuantizedModel)) {
    throw invalidArgument(
      `train needs a quantized model, not ${show(quantized)}`,
      'quantized',
      'Use quantize() or readQuantized().',
    );
  }
  checkTrainOptions(options);
  const { onProgress, signal, optimizer = 'adam', epochs = 10, batchSize = 32 } = options;
  const { learningRate = optimizer === 'sgd' ? 0.01 : 0.005, freezeAfter = 0.75 } = options;
  const { schedule = 'cosine', shuffle = 2048, seed = 1 } = options;
  const factor = typeof schedule === 'function' ? schedule : schedules[schedule]!;
  throwIfAborted(signal);

  const { core, object } = quantized.handle;
  const source = new Epochs(options.dataset);
  const breather = new Breather(signal);
  let trainer: Handle<CoreTrainer> | undefined;
  const start = (labelled: boolean): Handle<CoreTrainer> => {
    const { momentum, weightDecay, scales, scaleRate, batchNorm, labelShare } = options;
    const { loss = labelled ? 'scores' : 'values' } = options;
    // A part of the batches, 1 where their number is not known.
    const batches = ((source.length ?? 0) / batchSize) * epochs;
    const measuredBatches = Math.max(1, Math.min(16, Math.round(batches / 8)));
    const given = {
      momentum,
      weightDecay,
      scales,
      scaleRate,
      batchNorm,
      labelShare,
      measuredBatches,
    };
    return new Handle(
      core,
      call(core, () => core.createTrainer(object, { ...given, optimizer, loss } as object)),
      'trainer',
    );
  };
  try {
    let frozen = false;
    for (let epoch = 0; epoch < epochs; epoch++) {
      const sums = { done: 0, loss: 0, correct: 0, labelled: 0 };
      let pending = 0;
      let index = 0;
      const report = () =>
        onProgress?.({
          epoch,
          epochs,
          done: sums.done,
          ...(source.length === undefined ? {} : { total: source.length }),
          loss: sums.done > 0 ? sums.loss / sums.done : 0,
          top1: sums.labelled > 0 ? sums.correct / sums.labelled : null,
        });
      const learn = async (handle: Handle<CoreTrainer>) => {
        const inEpoch = source.length ? Math.min(1, sums.done / source.length) : 0;
        const share = (epoch + inEpoch) / epochs;
        if (!frozen && share >= freezeAfter) {
          handle.call((each) => each.freeze());
          frozen = true;
        }
        const rate = learningRate * factor(share);
        if (!(rate >= 0 && Number.isFinite(rate))) {
          throw invalidArgument(`the schedule gave a learning rate of ${rate}`, 'options.schedule');
        }
        for (;;) {
          const step = handle.call((each) => each.advance(rate));
          if (step.finished) {
            sums.done += pending;
            sums.loss += step.loss * pending;
            sums.correct += step.correct;
            sums.labelled += step.labelled;
            break;
          }
          await breather.breathe();
        }
        pending = 0;
        report();
        await breather.breathe();
      };
      report();
      for await (const sample of shuffled(source.walk(signal), shuffle, seed + epoch)) {
        ofSample(index++, () => {
          checkOptions(sample, { feeds: 'any', label: 'any' }, 'the sample');
          const { feeds, label } = sample;
          checkLabel(label, undefined);
          trainer ??= start(label !== undefined);
          const handle = trainer;
          withFeeds(core, feeds, (coreFeeds) =>
            handle.call((each) => each.add(...coreFeeds, label ?? -1)),
          );
        });
        pending += 1;
        if (pending === batchSize) await learn(trainer!);
      }
      if (!trainer) throw invalidArgument('there are no samples to learn from', 'options.dataset');
      // A rest of few samples would count as much as a batch.
      if (pending > 0 && (2 * pending >= batchSize || sums.done === 0)) await learn(trainer);
      else if (pending > 0) trainer.call((each) => each.clear());
    }
    return new QuantizedModel(
      core,
      trainer!.call((each) => each.finish()),
    );
  } finally {
    trainer?.dispose();
  }
}

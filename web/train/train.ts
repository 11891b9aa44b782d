// Quantization-aware training.

import { type CompareSample, checkLabel, compare, ofSample } from '../analyze/compare.js';
import { Breather, checkIterable, items, lengthOf, throwIfAborted } from '../base/abort.js';
import { type RequantError, invalidArgument, show } from '../base/errors.js';
import { checkInteger, checkOneOf, checkOptions, withoutUndefined } from '../base/options.js';
import { shuffled } from '../base/shuffle.js';
import type { Core, CoreQuantized, CoreTrainOptions, CoreTrainer } from '../core.js';
import { Handle, call, withFeeds } from '../engine/heap.js';
import type { Model } from '../model/model.js';
import { QuantizedModel } from '../quantize/quantized_model.js';

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

/**
 * The samples of all epochs; an iterable that can be walked only once becomes an array for the next epochs.
 */
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

async function* numbered<T>(
  source: AsyncIterable<T>,
): AsyncGenerator<[number, T], void, undefined> {
  let index = 0;
  for await (const item of source) yield [index++, item];
}

/**
 * @internal The samples of all possible epochs, with null behind each epoch, for code elsewhere that walks
 * over them.
 */
export async function* epochsOf(
  source: Iterable<CompareSample> | AsyncIterable<CompareSample>,
): AsyncGenerator<CompareSample | null, void, undefined> {
  const epochs = new Epochs(source);
  for (;;) {
    yield* epochs.walk(undefined);
    yield null;
  }
}

/** Some samples, and a measure of how well models do on them. */
class Judged {
  static readonly #MOST = 128;
  static readonly #MOST_BYTES = 2 ** 26;
  readonly #samples: CompareSample[] = [];
  #bytes = 0;

  add(sample: CompareSample): void {
    if (this.#samples.length >= Judged.#MOST || this.#bytes > Judged.#MOST_BYTES) return;
    this.#samples.push(sample);
    for (const { data } of Object.values(sample.feeds)) this.#bytes += data.byteLength;
  }

  get length(): number {
    return this.#samples.length;
  }

  /** Shares of right answers (null where they do not count), and signal to noise ratio in dB. */
  async quality(
    float: Model,
    candidate: QuantizedModel,
    loss: TrainOptions['loss'],
    signal: AbortSignal | undefined,
  ): Promise<{ answers: number | null; snr: number }> {
    const options = { dataset: this.#samples, ...(signal ? { signal } : {}) };
    try {
      const { top1, outputs } = await compare(float, candidate, options);
      const labelled = this.#samples.some(({ label }) => label !== undefined && label >= 0);
      const noise = outputs.map(({ snr }) => snr ?? Infinity);
      const answers =
        (loss ?? (labelled ? 'scores' : 'values')) === 'scores'
          ? ((labelled ? top1.candidate : top1.agreement) ?? 0)
          : null;
      return { answers, snr: noise.reduce((a, b) => a + b, 0) / noise.length };
    } catch (error) {
      // The outputs have NaN.
      if ((error as Partial<RequantError>).code !== 'INVALID_ARGUMENT') throw error;
      return { answers: -1, snr: -Infinity };
    }
  }
}

/** The trained model or, with a warning, the one before if that does better. */
async function better(
  before: QuantizedModel,
  trained: QuantizedModel,
  judged: Judged,
  { loss, signal }: TrainOptions,
): Promise<QuantizedModel> {
  const float = before.floatModel();
  try {
    const was = await judged.quality(float, before, loss, signal);
    const is = await judged.quality(float, trained, loss, signal);
    const worse =
      was.answers === null || is.answers === null ? is.snr < was.snr : is.answers < was.answers;
    if (!worse) return trained;
    const text = ({ answers, snr }: typeof was) =>
      answers === null
        ? `${snr.toFixed(1)} dB`
        : answers < 0
          ? 'none'
          : `${(100 * answers).toFixed(1)} %`;
    const warning =
      `training did not help: ${was.answers === null ? 'signal to noise' : 'right answers'} ${text(was)} before, ` +
      `${text(is)} after, on ${judged.length} samples; the model is the one before`;
    const { core, object } = before.handle;
    const copy = call(core, () => object.copy(warning));
    trained.dispose();
    return new QuantizedModel(core, copy);
  } finally {
    float.dispose();
  }
}

/** The core's trainer and its progress. */
class Training {
  readonly #core: Core;
  readonly #object: CoreQuantized;
  readonly #options: TrainOptions;
  readonly #source: Epochs;
  readonly #breather: Breather;
  readonly #epochs: number;
  readonly #batchSize: number;
  #trainer: Handle<CoreTrainer> | undefined;
  #frozen = false;
  #epoch = 0;
  /** Samples that were added for the next batch. */
  #pending = 0;
  /** The first samples, on which the trained model is compared with the given one. */
  readonly judged = new Judged();
  /** Sums over this epoch. */
  #sums = { done: 0, loss: 0, correct: 0, labelled: 0 };

  constructor(quantized: QuantizedModel, options: TrainOptions) {
    this.#core = quantized.handle.core;
    this.#object = quantized.handle.object;
    this.#options = options;
    this.#source = new Epochs(options.dataset);
    this.#breather = new Breather(options.signal);
    this.#epochs = options.epochs ?? 10;
    this.#batchSize = options.batchSize ?? 32;
  }

  async run(): Promise<CoreQuantized> {
    const { signal, shuffle = 2048, seed = 1 } = this.#options;
    for (; this.#epoch < this.#epochs; this.#epoch++) {
      this.#sums = { done: 0, loss: 0, correct: 0, labelled: 0 };
      this.#report();
      const samples = shuffled(numbered(this.#source.walk(signal)), shuffle, seed + this.#epoch);
      for await (const [index, sample] of samples) {
        this.#add(index, sample);
        if (this.#pending === this.#batchSize) await this.#learn();
      }
      if (!this.#trainer) {
        throw invalidArgument('there are no samples to learn from', 'options.dataset');
      }
      // A last batch of few samples would count as much as a full one.
      if (this.#pending === 0) continue;
      if (2 * this.#pending >= this.#batchSize || this.#sums.done === 0) await this.#learn();
      else this.#clear();
    }
    return this.#trainer!.call((trainer) => trainer.finish());
  }

  dispose(): void {
    this.#trainer?.dispose();
  }

  #start(labelled: boolean): Handle<CoreTrainer> {
    const { optimizer = 'adam', loss = labelled ? 'scores' : 'values' } = this.#options;
    const { momentum, weightDecay, scales, scaleRate, batchNorm, labelShare } = this.#options;
    // An eighth of the batches, 1 where their number is unknown.
    const batches = ((this.#source.length ?? 0) / this.#batchSize) * this.#epochs;
    const measuredBatches = Math.max(1, Math.min(16, Math.round(batches / 8)));
    const options = withoutUndefined({
      ...{ optimizer, loss, momentum, weightDecay, scales, scaleRate, batchNorm, labelShare },
      measuredBatches,
    }) as CoreTrainOptions;
    const create = () => this.#core.createTrainer(this.#object, options);
    return new Handle(this.#core, call(this.#core, create), 'trainer');
  }

  #add(index: number, sample: CompareSample): void {
    ofSample(index, () => {
      checkOptions(sample, { feeds: 'any', label: 'any' }, 'the sample');
      checkLabel(sample.label, undefined);
    });
    const { feeds, label } = sample;
    const handle = (this.#trainer ??= this.#start(label !== undefined));
    ofSample(index, () =>
      withFeeds(this.#core, feeds, (coreFeeds) =>
        handle.call((trainer) => trainer.add(...coreFeeds, label ?? -1)),
      ),
    );
    if (this.#epoch === 0 && this.#options.keep !== 'last') this.judged.add(sample);
    this.#pending += 1;
  }

  #clear(): void {
    this.#trainer!.call((trainer) => trainer.clear());
    this.#pending = 0;
  }

  /** The learning rate of the next batch; freezes batch normalization when it is time. */
  #rate(): number {
    const { learningRate, freezeAfter = 0.75, schedule = 'cosine', optimizer } = this.#options;
    const { length } = this.#source;
    const share =
      (this.#epoch + (length ? Math.min(1, this.#sums.done / length) : 0)) / this.#epochs;
    if (!this.#frozen && share >= freezeAfter) {
      this.#trainer!.call((trainer) => trainer.freeze());
      this.#frozen = true;
    }
    const factor = typeof schedule === 'function' ? schedule : schedules[schedule]!;
    const rate = (learningRate ?? (optimizer === 'sgd' ? 0.01 : 0.005)) * factor(share);
    if (rate >= 0 && Number.isFinite(rate)) return rate;
    throw invalidArgument(`the schedule gave a learning rate of ${rate}`, 'options.schedule');
  }

  async #learn(): Promise<void> {
    const rate = this.#rate();
    for (;;) {
      const step = this.#trainer!.call((trainer) => trainer.advance(rate));
      if (step.finished) {
        this.#sums.done += this.#pending;
        this.#sums.loss += step.loss * this.#pending;
        this.#sums.correct += step.correct;
        this.#sums.labelled += step.labelled;
        break;
      }
      await this.#breather.breathe();
    }
    this.#pending = 0;
    this.#report();
    await this.#breather.breathe();
  }

  #report(): void {
    const { done, loss, correct, labelled } = this.#sums;
    const { length } = this.#source;
    this.#options.onProgress?.({
      epoch: this.#epoch,
      epochs: this.#epochs,
      done,
      ...(length === undefined ? {} : { total: length }),
      loss: done > 0 ? loss / done : 0,
      top1: labelled > 0 ? correct / labelled : null,
    });
  }
}

/**
 * Quantization-aware training: a quantized model continues to learn with its grids in place, from labels,
 * from the float network it was made of, or both, in the same engine. Rounding passes gradients straight
 * through; weights, biases and scales learn. It is for few bits, where what quantize() recovers is not
 * enough, and takes some thousand samples and some minutes. It works in slices, so that events, progress and
 * `signal` get their turn; {@link RequantWorker.train} does the same on another thread.
 *
 * @param quantized The result of {@link quantize} or {@link readQuantized}; it stays as it is. Gradients go
 * through the operators of convolutional networks; warnings name layers that no gradient reaches.
 * @returns A model with the same operators and bits; `config.recovery` tells how the training went.
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
  throwIfAborted(options.signal);
  const training = new Training(quantized, options);
  let trained: QuantizedModel;
  try {
    trained = new QuantizedModel(quantized.handle.core, await training.run());
  } finally {
    training.dispose();
  }
  if (options.keep === 'last') return trained;
  try {
    return await better(quantized, trained, training.judged, options);
  } catch (error) {
    trained.dispose();
    throw error;
  }
}

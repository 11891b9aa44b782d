// Quantization-aware training.

import { type CompareSample, checkLabel, ofSample } from '../analyze/compare.js';
import { Breather, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { checkOptions, withoutUndefined } from '../base/options.js';
import { pick } from '../base/schema.js';
import { shuffled } from '../base/shuffle.js';
import type { Core, CoreQuantized, CoreTrainer } from '../core.js';
import { Handle, call, withFeeds } from '../engine/heap.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { Epochs, numbered } from './epochs.js';
import { Judged, better } from './judged.js';
import {
  type TrainOptions,
  checkTrainOptions,
  schedules,
  trainerOptions,
} from './train_options.js';

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
    // An eighth of the batches, 1 where their number is unknown.
    const batches = ((this.#source.length ?? 0) / this.#batchSize) * this.#epochs;
    const measuredBatches = Math.max(1, Math.min(16, Math.round(batches / 8)));
    const given = withoutUndefined(pick(this.#options, trainerOptions));
    const options = { loss: labelled ? 'scores' : 'values', ...given, measuredBatches };
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

// A training that runs: epochs, batches, validation and checkpoints around the core's trainer.

import { type CompareSample, checkLabel, ofSample, sampleKinds } from '../analyze/compare.js';
import { Breather } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { checkOptions, withoutUndefined } from '../base/options.js';
import { pick } from '../base/schema.js';
import { shuffled } from '../base/shuffle.js';
import type { Core, CoreTrainer } from '../core.js';
import { Handle, call, copyIn, free, takeBlob } from '../engine/heap.js';
import { withNumbers } from '../engine/tensors.js';
import type { Model } from '../model/model.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { type BestEpoch, type Checkpoint, readCheckpoint, writeCheckpoint } from './checkpoint.js';
import { Epochs, numbered } from './epochs.js';
import {
  FirstSamples,
  type Quality,
  compareQuality,
  didNotHelp,
  formatQuality,
  qualityOf,
} from './quality.js';
import { type TrainOptions, keepOf, schedules, trainerOptions } from './train_options.js';

type Samples = Iterable<CompareSample> | AsyncIterable<CompareSample>;

/** The core's trainer and its progress. */
export class Training {
  readonly #core: Core;
  readonly #quantized: QuantizedModel;
  readonly #float: Model;
  readonly #options: TrainOptions;
  readonly #keep: NonNullable<TrainOptions['keep']>;
  readonly #source: Epochs;
  readonly #validation: Epochs | undefined;
  readonly #breather: Breather;
  readonly #epochs: number;
  readonly #batchSize: number;
  readonly #first = new FirstSamples();
  #trainer: Handle<CoreTrainer> | undefined;
  /** What the first samples decided. */
  #decided = { loss: '', measuredBatches: 1 };
  #frozen = false;
  #epoch = 0;
  /** Samples that were added for the next batch. */
  #pending = 0;
  /** Sums over this epoch. */
  #sums = { done: 0, loss: 0, correct: 0, labelled: 0 };
  /** The quality of the latest epoch, and the best one. */
  #last: Quality | undefined;
  #best: BestEpoch | undefined;
  #bestState: Uint8Array | undefined;

  constructor(quantized: QuantizedModel, options: TrainOptions) {
    this.#core = quantized.handle.core;
    this.#quantized = quantized;
    this.#options = options;
    this.#keep = keepOf(options);
    this.#source = new Epochs(options.dataset);
    this.#validation = options.validation && new Epochs(options.validation);
    this.#breather = new Breather(options.signal);
    this.#epochs = options.epochs ?? 10;
    this.#batchSize = options.batchSize ?? 32;
    this.#float = quantized.floatModel();
  }

  async run(): Promise<QuantizedModel> {
    const { resume } = this.#options;
    if (resume) await this.#resume(readCheckpoint(resume));
    else if (this.#validation) await this.#judgeStart();
    for (; this.#epoch < this.#epochs; this.#epoch++) {
      await this.#walk();
      await this.#endEpoch();
    }
    return this.#result();
  }

  dispose(): void {
    this.#trainer?.dispose();
    this.#float.dispose();
  }

  async #walk(): Promise<void> {
    const { signal, shuffle = 2048, seed = 1 } = this.#options;
    this.#sums = { done: 0, loss: 0, correct: 0, labelled: 0 };
    this.#report();
    const samples = shuffled(numbered(this.#source.walk(signal)), shuffle, seed + this.#epoch);
    for await (const [index, sample] of samples) {
      this.#add(index, sample);
      if (this.#epoch === 0 && this.#keep === 'better') this.#first.add(sample);
      if (this.#pending === this.#batchSize) await this.#learn();
    }
    if (!this.#trainer) {
      throw invalidArgument('there are no samples to learn from', 'options.dataset');
    }
    // A last batch of few samples would count as much as a full one.
    if (this.#pending === 0) return;
    if (2 * this.#pending >= this.#batchSize || this.#sums.done === 0) await this.#learn();
    else this.#clear();
  }

  #create(): Handle<CoreTrainer> {
    const given = withoutUndefined(pick(this.#options, trainerOptions));
    const options = { ...given, ...this.#decided };
    const create = () => this.#core.createTrainer(this.#quantized.handle.object, options);
    return new Handle(this.#core, call(this.#core, create), 'trainer');
  }

  #start(labelled: boolean): Handle<CoreTrainer> {
    // An eighth of the batches, 1 where their number is unknown.
    const batches = ((this.#source.length ?? 0) / this.#batchSize) * this.#epochs;
    const measuredBatches = Math.max(1, Math.min(16, Math.round(batches / 8)));
    const loss = this.#options.loss ?? (labelled ? 'scores' : 'values');
    this.#decided = { loss, measuredBatches };
    return this.#create();
  }

  #restore(state: Uint8Array): void {
    const pointer = copyIn(this.#core, state);
    try {
      this.#trainer!.call((trainer) => trainer.restore(pointer, state.length));
    } finally {
      free(this.#core, pointer);
    }
  }

  async #resume(checkpoint: Checkpoint): Promise<void> {
    const { epoch, length, loss, measuredBatches, frozen, state, best, bestState } = checkpoint;
    if (epoch > this.#epochs) {
      throw invalidArgument(
        `options.epochs is ${this.#epochs}, but ${epoch} are done`,
        'options.epochs',
        `Give ${epoch} or more.`,
      );
    }
    this.#epoch = epoch;
    this.#frozen = frozen;
    this.#decided = { loss, measuredBatches };
    this.#best = best;
    this.#bestState = bestState;
    this.#source.length ??= length;
    this.#trainer = this.#create();
    this.#restore(state);
    if (this.#validation && !best) await this.#judgeStart();
    if (epoch < this.#epochs) return;
    // The result takes the shapes of its inputs from the latest sample.
    for await (const [index, sample] of numbered(this.#source.walk(this.#options.signal))) {
      this.#add(index, sample);
      break;
    }
    this.#clear();
  }

  #add(index: number, sample: CompareSample): void {
    ofSample(index, () => {
      checkOptions(sample, sampleKinds, 'the sample');
      checkLabel(sample.label, undefined);
    });
    const { feeds, label } = sample;
    const handle = (this.#trainer ??= this.#start(label !== undefined));
    ofSample(index, () =>
      withNumbers(this.#core, feeds, (coreFeeds) =>
        handle.call((trainer) => trainer.add(...coreFeeds, label ?? -1)),
      ),
    );
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

  #report(validation?: Quality): void {
    const { done, loss, correct, labelled } = this.#sums;
    const { length } = this.#source;
    this.#options.onProgress?.({
      epoch: this.#epoch,
      epochs: this.#epochs,
      done,
      ...(length === undefined ? {} : { total: length }),
      loss: done > 0 ? loss / done : 0,
      top1: labelled > 0 ? correct / labelled : null,
      ...(validation ? { validation } : {}),
    });
  }

  #qualityOf(model: QuantizedModel, samples: Samples): Promise<Quality> {
    const loss = this.#options.loss ?? (this.#decided.loss as TrainOptions['loss'] | '');
    return qualityOf(this.#float, model, samples, {
      ...(loss ? { loss } : {}),
      ...(this.#options.metric === undefined ? {} : { metric: this.#options.metric }),
      signal: this.#options.signal,
    });
  }

  #validationSamples(): AsyncIterable<CompareSample> {
    return this.#validation!.walk(this.#options.signal);
  }

  /** Measures the model that training begins with. */
  async #judgeStart(): Promise<void> {
    const quality = await this.#qualityOf(this.#quantized, this.#validationSamples());
    this.#best = { epoch: -1, quality };
  }

  async #endEpoch(): Promise<void> {
    const trainer = this.#trainer!;
    const { onCheckpoint } = this.#options;
    if (!this.#validation && !onCheckpoint) return;
    let taken: Uint8Array | undefined;
    const state = () =>
      (taken ??= takeBlob(
        this.#core,
        trainer.call((object) => object.state()),
      ));
    if (this.#validation) {
      const now = new QuantizedModel(
        this.#core,
        trainer.call((object) => object.snapshot()),
      );
      let quality: Quality;
      try {
        quality = await this.#qualityOf(now, this.#validationSamples());
      } finally {
        now.dispose();
      }
      if (this.#keep === 'best' && compareQuality(quality, this.#best!.quality) > 0) {
        this.#best = { epoch: this.#epoch, quality };
        this.#bestState = state();
      }
      this.#last = quality;
      this.#report(quality);
    }
    if (!onCheckpoint) return;
    const checkpoint = writeCheckpoint({
      epoch: this.#epoch + 1,
      length: this.#source.length,
      ...this.#decided,
      frozen: this.#frozen,
      state: state(),
      best: this.#best,
      bestState: this.#bestState,
    });
    await onCheckpoint(checkpoint, this.#epoch);
  }

  #finish(note = ''): QuantizedModel {
    return new QuantizedModel(
      this.#core,
      this.#trainer!.call((trainer) => trainer.finish(note)),
    );
  }

  #before(warning: string): QuantizedModel {
    const { core, object } = this.#quantized.handle;
    return new QuantizedModel(
      core,
      call(core, () => object.copy(warning)),
    );
  }

  async #result(): Promise<QuantizedModel> {
    if (this.#keep === 'last') return this.#finish();
    if (this.#keep === 'best') return this.#bestResult();
    const trained = this.#finish();
    try {
      const validated = this.#validation && this.#last;
      const samples = this.#first.samples;
      const was = validated ? this.#best!.quality : await this.#qualityOf(this.#quantized, samples);
      const is = validated ? this.#last! : await this.#qualityOf(trained, samples);
      if (compareQuality(is, was) >= 0) return trained;
      const on = validated ? 'on the validation samples' : `on ${samples.length} samples`;
      const before = this.#before(didNotHelp(was, is, on));
      trained.dispose();
      return before;
    } catch (error) {
      trained.dispose();
      throw error;
    }
  }

  #bestResult(): QuantizedModel {
    const { epoch, quality } = this.#best!;
    if (epoch < 0) {
      return this.#before(didNotHelp(quality, this.#last ?? quality, 'on the validation samples'));
    }
    if (epoch < this.#epochs - 1) this.#restore(this.#bestState!);
    return this.#finish(
      `; kept epoch ${epoch + 1} of ${this.#epochs}, ${formatQuality(quality)} on the validation samples`,
    );
  }
}

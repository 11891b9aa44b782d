// Calibration step by step, and divided among workers or machines.

import { Breather, throwIfAborted } from './abort.js';
import { type QuantizeConfig } from './config.js';
import type { CoreCalibrator } from './core.js';
import { invalidArgument, show } from './errors.js';
import { type Feeds, type Handle, copyIn, makeDisposable, takeBlob, withFeeds } from './heap.js';
import { Model, loadToolsFor } from './model.js';
import { checkOptions } from './options.js';
import { type QuantizeProgress, QuantizedModel, createCalibrator } from './quantize.js';

/** Options of {@link Calibration.create}. */
export interface CalibrationOptions {
  config?: QuantizeConfig;
  analyze?: boolean;
}

/**
 * The parts of `quantize()`. A shard shows its own samples and saves its state; merged in the order of
 * the samples, the states of all shards are the state of one calibration that saw everything, to the
 * last bit.
 *
 * @example
 * // In every worker, with the same model and options:
 * const shard = await Calibration.create(model, { config });
 * if (first > 0) shard.probe(samples[0], first); // not for the first shard
 * for (const feeds of samples.slice(first, last)) shard.add(0, feeds);
 * const state = shard.save(0);
 * // In one place:
 * whole.load(0, states[0]);
 * for (const state of states.slice(1)) whole.merge(0, state);
 * // A second pass, if whole.passes is 2, begins with shard.load(0, whole.save(0)).
 * const quantized = await whole.finish();
 */
export class Calibration {
  readonly #handle: Handle<CoreCalibrator>;
  /** How often every sample must be shown: 1, or 2 when an observer needs a histogram. */
  readonly passes: number;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  private constructor(handle: Handle<CoreCalibrator>) {
    this.#handle = handle;
    this.passes = handle.call((object) => object.passes());
  }

  static async create(model: Model, options: CalibrationOptions = {}): Promise<Calibration> {
    if (!(model instanceof Model)) {
      throw invalidArgument(`a calibration needs a Model, not ${show(model)}`, 'model');
    }
    checkOptions(options, { config: 'object', analyze: 'boolean' }, 'options');
    await loadToolsFor(model);
    return new Calibration(createCalibrator(model, options));
  }

  /** Shows a sample in pass 0 or 1. */
  add(pass: number, feeds: Feeds): void {
    withFeeds(this.#handle.core, feeds, (core) =>
      this.#handle.call((object) => object.add(pass, ...core)),
    );
  }

  /**
   * Tells a shard the first sample of all, which it does not count, and the index of its own first
   * one. Before its pass 0; not needed by the shard that begins with sample 0.
   */
  probe(firstOfAll: Feeds, index: number): void {
    withFeeds(this.#handle.core, firstOfAll, (core) =>
      this.#handle.call((object) => object.probe(index, ...core)),
    );
  }

  /** What was gathered in that pass. */
  save(pass: number): Uint8Array<ArrayBuffer> {
    return takeBlob(
      this.#handle.core,
      this.#handle.call((object) => object.saveState(pass)),
    );
  }

  /** Replaces what was gathered in that pass. INVALID_ARGUMENT for bytes of another calibration. */
  load(pass: number, bytes: Uint8Array): void {
    this.#take(pass, bytes, false);
  }

  /** Adds what a shard of later samples has gathered in that pass. */
  merge(pass: number, bytes: Uint8Array): void {
    this.#take(pass, bytes, true);
  }

  #take(pass: number, bytes: Uint8Array, merge: boolean): void {
    const { core } = this.#handle;
    const pointer = copyIn(core, bytes);
    try {
      this.#handle.call((object) => object.loadState(pass, pointer, bytes.length, merge));
    } finally {
      core.free(pointer);
    }
  }

  /** Makes the quantized model, in slices; the calibration is used up. */
  async finish(
    options: { onProgress?: (progress: QuantizeProgress) => void; signal?: AbortSignal } = {},
  ): Promise<QuantizedModel> {
    const { onProgress, signal } = options;
    throwIfAborted(signal);
    return finishCalibration(this.#handle, new Breather(signal), onProgress);
  }

  /** Gives the memory back. */
  dispose(): void {
    this.#handle.dispose();
  }
}

makeDisposable(Calibration, function (this: Calibration) {
  this.dispose();
});

/** @internal */
export async function finishCalibration(
  calibrator: Handle<CoreCalibrator>,
  breather: Breather,
  onProgress?: (progress: QuantizeProgress) => void,
): Promise<QuantizedModel> {
  onProgress?.({ phase: 'finish', done: 0, total: 1 });
  await breather.breathe(true);
  for (let finished = false; !finished;) {
    const step = calibrator.call((object) => object.step());
    finished = step.finished;
    const { method, done, total } = step;
    if (!finished) onProgress?.({ phase: 'finish', method, done, total });
    await breather.breathe();
  }
  const quantized = calibrator.call((object) => object.finish());
  onProgress?.({ phase: 'finish', done: 1, total: 1 });
  return new QuantizedModel(calibrator.core, quantized);
}

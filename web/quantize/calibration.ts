// Calibrates step by step, also divided among workers or machines.

import { Breather, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { checkBytes, checkInteger, checkKind, checkOptions } from '../base/options.js';
import type { CoreCalibrator } from '../core.js';
import { type Handle, copyIn, free, makeDisposable, takeBlob } from '../engine/heap.js';
import { type Feeds, withNumbers } from '../engine/tensors.js';
import { arrived, loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { type QuantizeProgress, createCalibrator, finishCalibrator } from './calibrator.js';
import type { QuantizeConfig } from './config.js';
import { QuantizedModel } from './quantized_model.js';

/** Options of {@link Calibration.create}. */
export interface CalibrationOptions {
  /** As in {@link quantize}; the same for all shards. */
  config?: QuantizeConfig;
  /** Whether to find out what every operator costs: `quantized.config.analysis`. Default false. */
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
 * // Each further pass, of whole.passes, begins with shard.load(pass - 1, whole.save(pass - 1)).
 * const quantized = await whole.finish();
 */
export class Calibration {
  readonly #handle: Handle<CoreCalibrator>;
  #finished = false;
  /**
   * How often every sample must be shown: 1, or 2 when an observer needs a histogram; two more with the
   * recovery methods 'smooth_quant' and 'equalize_activations', whose passes come first.
   */
  readonly passes: number;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  private constructor(handle: Handle<CoreCalibrator>) {
    this.#handle = handle;
    this.passes = handle.call((object) => object.passes());
  }

  /**
   * Starts a calibration of a float model (or a promise of one, as in {@link quantize}), which stays as it is
   * and may be disposed of.
   *
   * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value in the config, and for a model that
   * is quantized already; LOAD_FAILED when the engine's tools cannot be loaded.
   */
  static async create(
    given: Model | PromiseLike<Model>,
    options: CalibrationOptions = {},
  ): Promise<Calibration> {
    const model = await arrived(given);
    if (!(model instanceof Model)) {
      throw invalidArgument(`a calibration needs a Model, not ${show(model)}`, 'model');
    }
    checkOptions(options, { config: 'object', analyze: 'boolean' }, 'options');
    await loadToolsFor(model);
    return new Calibration(createCalibrator(model, options));
  }

  /**
   * Shows a sample in one of the {@link passes}, counted from 0.
   *
   * @throws RequantError what {@link InferenceSession.run} throws; INVALID_ARGUMENT for a pass that does not
   * exist, for NaN or infinity in the sample or in the network's values, and after {@link finish}.
   */
  add(pass: number, feeds: Feeds): void {
    this.#checkPass(pass);
    withNumbers(this.#handle.core, feeds, (core) =>
      this.#handle.call((object) => object.add(pass, ...core)),
    );
  }

  /**
   * Shows a shard the very first sample, which it does not count, and tells it the index of its own first
   * one. Call it before pass 0; the shard that begins with sample 0 does not need it.
   *
   * @throws RequantError what {@link add} throws.
   */
  probe(firstOfAll: Feeds, index: number): void {
    this.#checkUse();
    checkKind(index, 'integer', 'index');
    checkInteger(index, 0, Number.MAX_SAFE_INTEGER, 'index');
    withNumbers(this.#handle.core, firstOfAll, (core) =>
      this.#handle.call((object) => object.probe(index, ...core)),
    );
  }

  /**
   * The statistics that were gathered in that pass.
   *
   * @throws RequantError INVALID_ARGUMENT for a pass that does not exist, and after {@link finish}.
   */
  save(pass: number): Uint8Array<ArrayBuffer> {
    this.#checkPass(pass);
    return takeBlob(
      this.#handle.core,
      this.#handle.call((object) => object.saveState(pass)),
    );
  }

  /**
   * Replaces the statistics of that pass.
   *
   * @throws RequantError INVALID_ARGUMENT for bytes of another calibration, for a pass that does not exist,
   * and after {@link finish}.
   */
  load(pass: number, bytes: Uint8Array): void {
    this.#take(pass, bytes, false);
  }

  /**
   * Adds the statistics that a shard of later samples gathered in that pass.
   *
   * @throws RequantError what {@link load} throws.
   */
  merge(pass: number, bytes: Uint8Array): void {
    this.#take(pass, bytes, true);
  }

  #checkUse(): void {
    if (!this.#finished) return;
    throw invalidArgument(
      'the calibration is used up by finish()',
      undefined,
      'Make another one with Calibration.create().',
    );
  }

  // The core has ints, in which a pass of 2^32 would be the first one.
  #checkPass(pass: number): void {
    this.#checkUse();
    checkKind(pass, 'integer', 'pass');
    checkInteger(pass, 0, this.passes - 1, 'pass');
  }

  #take(pass: number, bytes: Uint8Array, merge: boolean): void {
    this.#checkPass(pass);
    checkBytes(bytes);
    const { core } = this.#handle;
    const pointer = copyIn(core, bytes);
    try {
      this.#handle.call((object) => object.loadState(pass, pointer, bytes.length, merge));
    } finally {
      free(core, pointer);
    }
  }

  /**
   * Makes the quantized model, in slices. It uses the calibration up, even when it is aborted or fails.
   *
   * @throws RequantError INVALID_ARGUMENT for a bad option, without samples and when called again, ABORTED.
   */
  async finish(
    options: { onProgress?: (progress: QuantizeProgress) => void; signal?: AbortSignal } = {},
  ): Promise<QuantizedModel> {
    checkOptions(options, { onProgress: 'function', signal: 'signal' }, 'options');
    const { onProgress, signal } = options;
    throwIfAborted(signal);
    this.#checkUse();
    this.#finished = true;
    const { core } = this.#handle;
    const object = await finishCalibrator(this.#handle, new Breather(signal), onProgress);
    return new QuantizedModel(core, object);
  }

  /** Gives the memory back. */
  dispose(): void {
    this.#handle.dispose();
  }
}

makeDisposable(Calibration, function (this: Calibration) {
  this.dispose();
});

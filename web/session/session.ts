/// <reference lib="esnext.disposable" preserve="true" />

// InferenceSession.

import { throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import { warn, warnOnce } from '../base/log.js';
import { MOST_INT, checkInteger } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import type { Source } from '../base/source.js';
import type { Tensor } from '../base/tensor.js';
import { makeDisposable } from '../engine/heap.js';
import { type Feeds } from '../engine/tensors.js';
import { Model } from '../model/model.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import type { BoundRun } from './bound_run.js';
import { createLocal } from './create.js';
import { type Executor, currentProxy } from './executor.js';
import { type Fetches, type RunOptions, fetchTargets, runArguments } from './fetches.js';
import type { Plan, StepProfile, ValueMetadata } from './plan.js';
import { type SessionState, type StateOptions, checkStateOptions } from './state.js';
import { type StatePair, statePairs } from './state_pairs.js';
import { type SessionOptions, checkSessionOptions } from './session_options.js';
import { type ChromeTrace, since, toChromeTrace } from './trace.js';

/** The part of a buffer that onnxruntime-web's create(buffer, byteOffset, byteLength) means. */
function partOf(source: unknown, byteOffset: number, byteLength: unknown): Uint8Array {
  const tag = Object.prototype.toString.call(source);
  if (tag !== '[object ArrayBuffer]' && tag !== '[object SharedArrayBuffer]') {
    throw invalidArgument('a byteOffset needs an ArrayBuffer as source', 'byteOffset');
  }
  const buffer = source as ArrayBuffer;
  checkInteger(byteOffset, 0, Math.min(buffer.byteLength, MOST_INT), 'byteOffset');
  const most = buffer.byteLength - byteOffset;
  checkInteger(byteLength, 0, most, 'byteLength');
  return new Uint8Array(buffer, byteOffset, (byteLength as number | undefined) ?? most);
}

/**
 * Runs a model. Float models compute in float, QDQ and QOperator models and models quantized here in
 * integers.
 *
 * @example
 * const session = await InferenceSession.create('model.onnx');
 * const { logits } = await session.run({ image: new Tensor('float32', pixels, [1, 1, 28, 28]) });
 * await session.release();
 */
export class InferenceSession {
  /** Names of the model's inputs. */
  readonly inputNames: readonly string[];
  /** Names of the model's outputs. */
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  readonly #executor: Executor;
  readonly #options: SessionOptions;
  /** Names of outputs and taps. */
  readonly #fetchable: readonly string[];
  #profileStart: readonly StepProfile[] | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  private constructor(executor: Executor, options: SessionOptions) {
    this.#executor = executor;
    this.#options = options;
    this.inputMetadata = executor.inputs;
    this.outputMetadata = executor.outputs;
    this.inputNames = Object.freeze(this.inputMetadata.map(({ name }) => name));
    this.outputNames = Object.freeze(this.outputMetadata.map(({ name }) => name));
    this.#fetchable = [...this.outputNames, ...(options.taps ?? [])];
  }

  /**
   * With `env.wasm.proxy`, a session of a file lives in a Worker; one of a model in memory always computes on
   * this thread.
   *
   * @param source A model in memory, which stays the caller's, any source that {@link loadModel} takes, or
   * one with the bytes of {@link InferenceSession.toPlan}.
   * @throws RequantError what loadModel throws, INVALID_ARGUMENT for an unknown option, tap or kernel,
   * INVALID_PLAN for a plan that cannot be used here (any more), and with the option `quantize` what
   * {@link quantize} throws.
   */
  static create(
    source: Source | Model | QuantizedModel,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  /** Of a part of a buffer, as in onnxruntime-web. */
  static create(
    buffer: ArrayBufferLike,
    byteOffset: number,
    byteLength?: number,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  static async create(
    given: Source | Model | QuantizedModel,
    second: SessionOptions | number = {},
    byteLength?: number,
    last: SessionOptions = {},
  ): Promise<InferenceSession> {
    const isPart = typeof second === 'number';
    const source = isPart ? partOf(given, second, byteLength) : given;
    const options = isPart ? last : second;
    checkSessionOptions(options);
    throwIfAborted(options.signal);
    const proxy = currentProxy();
    const isModel = source instanceof Model || source instanceof QuantizedModel;
    const executor =
      proxy && !isModel ? await proxy(source, options) : await createLocal(source, options);
    return new InferenceSession(executor, options);
  }

  /**
   * Computes the outputs for these inputs. The work happens on the calling thread before this function
   * returns; {@link createWorker} moves it to another one.
   *
   * @param feeds A tensor for every input, by name: of this package, of onnxruntime-web, or any object with
   * type, data and dims.
   * @param fetches The outputs (or taps) wanted, default all: an array of names, or an object with tensors by
   * name that are filled, or null for new ones.
   * @returns Tensors with memory of their own, by name.
   * @throws RequantError INVALID_ARGUMENT for a missing or unknown name, SHAPE_MISMATCH, TYPE_MISMATCH,
   * DISPOSED.
   */
  run(feeds: Feeds, options?: RunOptions): Promise<Record<string, Tensor>>;
  run(
    feeds: Feeds,
    fetches: Fetches | undefined,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(
    feeds: Feeds,
    second?: Fetches | RunOptions,
    third?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    const { targets, options } = runArguments(second, third, this.#fetchable);
    return this.#executor.run(feeds, targets, options.signal);
  }

  /**
   * Prepares repeated runs with tensors that stay: every {@link BoundRun.run} reads the present contents of
   * the feeds and fills the same outputs, without allocating anything, so a real-time loop has no pauses for
   * garbage collection. Models that run as several plans (control flow, shapes that depend on data) still
   * allocate in the engine.
   *
   * @param feeds As in {@link run}; every run reads the tensors again.
   * @param fetches As in {@link run}; tensors among them are filled, others are made once.
   * @throws RequantError what run throws, and UNSUPPORTED when the shape of an output depends on data.
   */
  bind(feeds: Feeds, fetches?: Fetches): BoundRun {
    return this.#executor.bind(feeds, fetchTargets(fetches, this.#fetchable));
  }

  /**
   * Makes runs that remember: outputs that the next run takes as inputs stay in the engine, and where a
   * Concat or an attention operator joins them with new tokens, only those are written. For decoders,
   * {@link requant/generate!Decoder} and its generate() are simpler.
   *
   * @param pairs The input for each such output, `{ 'present.0.key': 'past_key_values.0.key' }`, or a list
   * with more of each; 'auto' finds the names of Optimum and onnxruntime-genai. Default: 'auto'.
   * @throws RequantError INVALID_ARGUMENT for names that the model does not have, or a past of which no axis is
   * open; UNSUPPORTED for a session of fixed shapes, of a saved plan, or behind `env.wasm.proxy`.
   */
  state(
    pairs: 'auto' | Readonly<Record<string, string>> | readonly StatePair[] = 'auto',
    options: StateOptions = {},
  ): SessionState {
    checkStateOptions(options);
    const found = statePairs(pairs, this.inputMetadata, this.outputNames);
    return this.#executor.state(found, options);
  }

  /**
   * The plan of the last run; undefined before the first run of a model of open shape. A model that runs as several
   * plans (control flow, shapes that depend on data) has `instructions` in place of `steps`.
   */
  plan(): Plan | undefined {
    return this.#executor.plan();
  }

  /**
   * The cost of every operator so far; empty without the option `profile`. {@link toChromeTrace} makes a file
   * for trace viewers of it.
   */
  profile(): StepProfile[] {
    return this.#executor.profile();
  }

  /** Begins a new measurement; the session needs the option `enableProfiling` (or `profile`). */
  startProfiling(): void {
    const { enableProfiling, profile, logSeverityLevel } = this.#options;
    if (!(profile ?? enableProfiling)) {
      warnOnce(
        'startProfiling() needs a session with the option enableProfiling',
        logSeverityLevel,
      );
    }
    this.#executor.fetchProfile().then(
      (steps) => (this.#profileStart = steps),
      () => {}, // endProfiling() reports the error
    );
  }

  /**
   * The costs since startProfiling(), or since the session was created, as a trace for trace viewers. With the
   * option `profileFilePrefix` it is saved, too. It has no operators if the session does not measure them.
   */
  async endProfiling(): Promise<ChromeTrace> {
    const steps = await this.#executor.fetchProfile();
    const trace = toChromeTrace(since(steps, this.#profileStart ?? []));
    this.#profileStart = undefined;
    const { profileFilePrefix: prefix, logSeverityLevel } = this.#options;
    if (prefix !== undefined) {
      const name = `${prefix}_${new Date().toISOString().replaceAll(':', '-')}.json`;
      // Programs written for onnxruntime-web do not wait for this method, so nobody would see a rejection.
      await saveBytes(name, new TextEncoder().encode(JSON.stringify(trace))).catch(
        (error: unknown) => warn(String(error), logSeverityLevel),
      );
    }
    return trace;
  }

  /**
   * The plan as bytes, for {@link InferenceSession.create}: kernels chosen, weights packed, memory laid out,
   * so that the next session needs no model. It is a cache to keep beside the model, not a format to
   * exchange: another build of the package, another variant of the engine or a machine that lacks what its
   * kernels need refuses it with INVALID_PLAN.
   *
   * @throws RequantError UNSUPPORTED before the first run of a model of open shape (the plan is for the
   * shapes that ran last).
   */
  toPlan(): Uint8Array<ArrayBuffer> {
    return this.#executor.toPlan();
  }

  /** Gives the memory back; the session cannot be used any more. */
  async release(): Promise<void> {
    await this.#executor.dispose();
  }

  /** Does what {@link release} does, at once. */
  dispose(): void {
    void Promise.resolve(this.#executor.dispose()).catch(() => {});
  }
}

type CreateOptions = SessionOptions;
type OptionsOfRun = RunOptions;
type Metadata = ValueMetadata;

/** Types by the names that they have in onnxruntime-web. */
// eslint-disable-next-line @typescript-eslint/no-namespace -- that is what such programs say
export declare namespace InferenceSession {
  type SessionOptions = CreateOptions;
  type RunOptions = OptionsOfRun;
  type ValueMetadata = Metadata;
  type FeedsType = Feeds;
  type FetchesType = Fetches;
  type OnnxValueMapType = Readonly<Record<string, Tensor>>;
  type ReturnType = Record<string, Tensor>;
  type ExecutionProviderConfig = string | { readonly name: string };
}

makeDisposable(InferenceSession, function (this: InferenceSession) {
  this.dispose();
});

/** @internal */
export function checkSameCore(a: Model, b: Model): void {
  if (a.handle.core === b.handle.core) return;
  throw new RequantError('INVALID_ARGUMENT', 'the models live in different engines', {
    hint: 'Load both with the same env.wasm.simd and both for one thread or both for several.',
  });
}

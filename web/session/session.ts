/// <reference lib="esnext.disposable" preserve="true" />

// InferenceSession.

import { throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import { checkOptions, withoutUndefined } from '../base/options.js';
import type { Source } from '../base/source.js';
import { type Tensor, bytesOf } from '../base/tensor.js';
import type { Core, CoreResult, CoreSession } from '../core.js';
import {
  type Feeds,
  Handle,
  checkFeeds,
  copyOutInto,
  makeDisposable,
  takeBlob,
  toTensor,
  withFeeds,
} from '../engine/heap.js';
import { loadLowBits, loadOperators, sessionThreads, threadsOf } from '../engine/load_core.js';
import { modelOf, openSource } from '../model/load_model.js';
import type { LoadOptions } from '../model/load_options.js';
import { Model } from '../model/model.js';
import type { ValueInfo } from '../model/model_info.js';
import { isPlan, needsOperators } from '../model/plan_file.js';
import { checkRequantize, createCoreSession } from '../model/planning.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { BoundRun } from './bound_run.js';
import { CoreRun } from './core_run.js';
import {
  type Fetches,
  type RunOptions,
  checkTarget,
  fetchTargets,
  runArguments,
} from './fetches.js';
import type { Plan, StepProfile, ValueMetadata } from './plan.js';
import { loadPlan } from './saved_plan.js';
import { type SessionOptions, checkOrtOptions, sessionOptionKinds } from './session_options.js';

// An engine loaded for this session with one thread only has already warned why.
function createdThreads(core: Core, loaded: boolean, numThreads: unknown): Promise<number> {
  if (loaded && threadsOf(core) === 1) return Promise.resolve(1);
  return sessionThreads(core, numThreads);
}

function metadata(info: readonly ValueInfo[]): readonly ValueMetadata[] {
  return Object.freeze(
    info.map(({ name, type, dims }) =>
      Object.freeze({ name, isTensor: true as const, type, shape: Object.freeze([...dims]) }),
    ),
  );
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
  readonly #handle: Handle<CoreSession>;
  /** Names of outputs and taps. */
  readonly #fetchable: readonly string[];
  #last: CoreRun | undefined;
  #bindable = true;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  private constructor(
    handle: Handle<CoreSession>,
    taps: readonly string[],
    modelOutputs: readonly string[],
  ) {
    const info = handle.json<{ inputs: ValueInfo[]; outputs: ValueInfo[] }>((session) =>
      session.info(),
    );
    this.#handle = handle;
    const missing = taps.find((tap) => !info.outputs.some(({ name }) => name === tap));
    if (missing !== undefined) {
      throw invalidArgument(
        `there is no value "${missing}" to tap`,
        missing,
        'Optimization may have removed it: then use optimize: false.',
      );
    }
    const isTap = new Set(taps.filter((tap) => !modelOutputs.includes(tap)));
    this.inputMetadata = metadata(info.inputs);
    this.outputMetadata = metadata(info.outputs.filter(({ name }) => !isTap.has(name)));
    this.inputNames = Object.freeze(this.inputMetadata.map(({ name }) => name));
    this.outputNames = Object.freeze(this.outputMetadata.map(({ name }) => name));
    this.#fetchable = [...this.outputNames, ...taps];
  }

  /**
   * @param source A model in memory, which stays the caller's, any source that {@link loadModel} takes, or
   * one with the bytes of {@link InferenceSession.toPlan}.
   * @throws RequantError what loadModel throws, INVALID_ARGUMENT for an unknown option, tap or kernel, and
   * INVALID_PLAN for a plan that cannot be used here (any more).
   */
  static async create(
    source: Source | Model | QuantizedModel,
    options: SessionOptions = {},
  ): Promise<InferenceSession> {
    checkOptions(options, sessionOptionKinds, 'options');
    checkRequantize(options.requantize, 'options.requantize');
    checkOrtOptions(options);
    const { onProgress, signal, externalData, numThreads, preload, taps = [] } = options;
    throwIfAborted(signal);
    let model: Model;
    let ours = false;
    if (source instanceof Model) {
      model = source;
    } else if (source instanceof QuantizedModel) {
      model = source.integerModel;
    } else {
      const loadOptions = withoutUndefined({
        onProgress,
        signal,
        externalData,
        numThreads,
        preload,
      }) as LoadOptions;
      const { core, loaded } = await openSource(source, loadOptions);
      if (isPlan(loaded.bytes)) {
        const threads = await createdThreads(core, true, numThreads);
        if (needsOperators(loaded.bytes)) await loadOperators(core);
        const session = loadPlan(core, loaded.bytes, options, threads);
        const handle = new Handle(core, session, 'session');
        try {
          await loadOperators(
            core,
            handle.call((object) => object.functions()),
          );
          if (handle.call((object) => object.lowBits())) await loadLowBits(core, false);
          return new InferenceSession(handle, [], []);
        } catch (error) {
          handle.dispose();
          throw error;
        }
      }
      model = await modelOf(core, loaded, loadOptions);
      ours = true;
    }
    try {
      const threads = await createdThreads(model.handle.core, ours, numThreads);
      const { core, object } = model.handle;
      const outputs = taps.length > 0 ? model.info.outputs.map(({ name }) => name) : [];
      const planning = { ...options, requantize: options.requantize ?? model.requantize };
      const { profile } = options;
      const session = await createCoreSession(core, object, planning, {
        consume: ours,
        threads,
        taps: [...taps],
        ...(profile === undefined ? {} : { profile }),
      });
      const handle = new Handle(core, session, 'session');
      try {
        return new InferenceSession(handle, taps, outputs);
      } catch (error) {
        handle.dispose();
        throw error;
      }
    } finally {
      if (ours) model.dispose();
    }
  }

  /**
   * Computes the outputs for these inputs. The work happens on the calling thread before this function
   * returns; {@link createWorker} moves it to another one.
   *
   * @param feeds A tensor for every input, by name.
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
    const { fetches, options } = runArguments(second, third, this.#fetchable);
    throwIfAborted(options.signal);
    const { core } = this.#handle;
    const results = this.#compute(feeds);
    const outputs: Record<string, Tensor> = {};
    for (const result of results) {
      if (fetches && !fetches.has(result.name)) continue;
      const target = fetches?.get(result.name);
      if (target) {
        checkTarget(result, target);
        copyOutInto(core, result.pointer, bytesOf(target.data));
      }
      outputs[result.name] = target ?? toTensor(core, result);
    }
    return outputs;
  }

  // Feeds with the names, types and shapes of the last ones reuse the run that was prepared for those.
  #compute(feeds: Feeds): readonly CoreResult[] {
    checkFeeds(feeds);
    if (!this.#last?.fits(feeds)) {
      this.#last?.dispose();
      this.#last = undefined;
      try {
        if (this.#bindable) this.#last = new CoreRun(this.#handle, feeds);
      } catch (error) {
        if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
        this.#bindable = false; // shapes of outputs depend on data
      }
    }
    if (this.#last?.alive) {
      this.#last.run(Object.values(feeds).map(({ data }) => bytesOf(data)));
      return this.#last.results;
    }
    return withFeeds(this.#handle.core, feeds, (coreFeeds) =>
      this.#handle.call((session) => session.run(...coreFeeds)),
    );
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
    return new BoundRun(this.#handle, feeds, fetchTargets(fetches, this.#fetchable));
  }

  /**
   * The plan of the last run; undefined before the first run of a model of open shape, and always for a model
   * that runs as several plans (control flow, shapes that depend on data).
   */
  plan(): Plan | undefined {
    const plan = this.#handle.json<Partial<Plan>>((session) => session.plan());
    return plan.steps ? (plan as Plan) : undefined;
  }

  /**
   * The cost of every operator so far; empty without the option `profile`. {@link toChromeTrace} makes a file
   * for trace viewers of it.
   */
  profile(): StepProfile[] {
    // The core lists all steps of its plan, including those that nobody measured.
    const steps = this.#handle.json<StepProfile[]>((session) => session.profile());
    return steps.some(({ runs }) => runs > 0) ? steps : [];
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
    return takeBlob(
      this.#handle.core,
      this.#handle.call((session) => session.save()),
    );
  }

  /** Gives the memory back; the session cannot be used any more. */
  release(): Promise<void> {
    this.#handle.dispose();
    return Promise.resolve();
  }

  /** Does what {@link release} does, at once. */
  dispose(): void {
    this.#handle.dispose();
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
  type ReturnType = Record<string, Tensor>;
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

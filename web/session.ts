/// <reference lib="esnext.disposable" preserve="true" />

import { throwIfAborted } from './abort.js';
import type { Core, CoreResult, CoreSession, CoreSessionOptions } from './core.js';
import type { EngineInfo } from './engine.js';
import { RequantError, invalidArgument, show } from './errors.js';
import {
  type Feeds,
  Handle,
  allocate,
  call,
  checkFeeds,
  copyIn,
  copyOutInto,
  makeDisposable,
  takeBlob,
  toTensor,
  withFeeds,
} from './heap.js';
import { loadTools, sessionThreads, threadsOf } from './load_core.js';
import {
  type LoadOptions,
  Model,
  type RequantizeMode,
  type ValueInfo,
  isPlan,
  loadOptionKinds,
  modelOf,
  openSource,
} from './model.js';
import { checkOneOf, checkOptions, suggest, withoutUndefined } from './options.js';
import { QuantizedModel } from './quantize.js';
import type { Source } from './source.js';
import { Tensor, type TensorType, bytesOf } from './tensor.js';

/**
 * Options of {@link InferenceSession.create}. For a model in memory `numThreads` can be at most what
 * its engine can start, and is by default what that has; 1 if it was loaded for one thread.
 */
export interface SessionOptions extends LoadOptions {
  /**
   * How integer operators requantize. `'float'` computes as ONNX Runtime does (default for models
   * that were loaded); `'fixed'` uses integers only (default for models quantized here); `'nearest'`
   * and `'gemmlowp'` compute as those engines do.
   */
  requantize?: RequantizeMode;
  /** Measure every operator; see {@link InferenceSession.profile}. */
  profile?: boolean;
  /** Fuse activations and additions into the operators before them. Default true. */
  fuse?: boolean;
  /** Optimize the graph before it is planned. Default true. */
  optimize?: boolean;
  /** Force a kernel of a family by its name; {@link engineInfo} lists them. */
  kernels?: Readonly<Record<string, string>>;
  /** Inner values that run() returns as well, by name. */
  taps?: readonly string[];
}

/** Options of {@link InferenceSession.run}. */
export interface RunOptions {
  /** Looked at before the run; a run itself is not interrupted. */
  signal?: AbortSignal;
}

/** Name, type and shape of a session's input or output, as in onnxruntime-web. */
export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: true;
  readonly type: TensorType;
  /** A number, the name of a symbolic dimension, or null for an unknown one. */
  readonly shape: readonly (number | string | null)[];
}

/** One step of a session's plan. */
export interface PlanStep {
  /** Name of the operator. */
  name: string;
  op: string;
  /** The kernel that computes it. */
  kernel: string;
  /** Multiply-accumulate operations of one run. */
  macs: number;
  /** Bytes of intermediate values in memory while it runs. */
  usedBytes: number;
  /** How many threads compute it. */
  threads: number;
  output?: { name: string; type: TensorType; layout: 'plain' | 'channels-last'; dims: number[] };
}

/** Bytes that a plan needs beside the model. */
export interface PlanMemory {
  /** Memory for all intermediate values. */
  arena: number;
  /** No layout of the arena can be smaller. */
  lowerBound: number;
  packedWeights: number;
}

/** How a session computes its graph for the shapes it was given last. */
export interface Plan {
  steps: PlanStep[];
  memory: PlanMemory;
}

/** What one operator cost. */
export interface StepProfile {
  name: string;
  op: string;
  kernel: string;
  /** Sum over all runs. */
  milliseconds: number;
  runs: number;
  /** Multiply-accumulate operations of one run. */
  macs: number;
}

const requantizeModes: readonly RequantizeMode[] = ['fixed', 'float', 'nearest', 'gemmlowp'];

const sessionOptionKinds = {
  ...loadOptionKinds,
  requantize: 'string',
  profile: 'boolean',
  fuse: 'boolean',
  optimize: 'boolean',
  kernels: 'object',
  taps: 'strings',
  // What programs written for onnxruntime-web may pass; it has no meaning here.
  executionProviders: 'any',
  graphOptimizationLevel: 'any',
  executionMode: 'any',
  enableCpuMemArena: 'any',
  enableMemPattern: 'any',
  interOpNumThreads: 'any',
  intraOpNumThreads: 'any',
  logId: 'any',
  logSeverityLevel: 'any',
  logVerbosityLevel: 'any',
} as const;

/** @internal Throws INVALID_ARGUMENT for a mode that does not exist. */
export function checkRequantize(mode: unknown, name: string): void {
  if (mode !== undefined) checkOneOf(mode, requantizeModes, name);
}

// The core looks at the names when it plans, which for a model of open shape is its first run.
function checkKernels(core: Core, forced: Readonly<Record<string, string>>): void {
  const known = JSON.parse(call(core, () => core.kernels())) as EngineInfo['kernels'];
  for (const [family, name] of Object.entries(forced)) {
    const option = `options.kernels.${family}`;
    const names = known.filter((kernel) => kernel.family === family).map((kernel) => kernel.name);
    if (names.length === 0) {
      const families = [...new Set(known.map((kernel) => kernel.family))];
      throw invalidArgument(
        `there is no kernel family "${family}"`,
        option,
        suggest(family, families),
      );
    }
    checkOneOf(name, names, option);
    const missing = known.find((kernel) => kernel.name === name)?.missing;
    if (missing !== undefined) {
      throw new RequantError('UNSUPPORTED', `${name} needs ${missing}, which is not here`, {
        value: option,
      });
    }
  }
}

// What a plan was made with, and cannot be changed when it is loaded.
const planned = ['requantize', 'fuse', 'optimize', 'kernels', 'taps', 'externalData'] as const;

// Why an engine that was loaded for this session has one thread only has been said by then.
function createdThreads(core: Core, loaded: boolean, numThreads: unknown): Promise<number> {
  if (loaded && threadsOf(core) === 1) return Promise.resolve(1);
  return sessionThreads(core, numThreads);
}

function loadPlan(
  core: Core,
  bytes: Uint8Array,
  options: SessionOptions,
  threads: number,
): CoreSession {
  const given = planned.find((key) => options[key] !== undefined);
  if (given) {
    throw invalidArgument(
      `a saved plan was made with its own option "${given}"`,
      `options.${given}`,
      'Give it to the session whose plan is saved.',
    );
  }
  const pointer = copyIn(core, bytes);
  try {
    const { profile = false } = options;
    return call(core, () => core.loadPlan(pointer, bytes.length, { profile, threads }));
  } catch (error) {
    const { code, message, hint } = error as RequantError;
    if (code !== 'INVALID_MODEL' && code !== 'UNSUPPORTED') throw error;
    throw new RequantError('INVALID_PLAN', message, {
      hint: hint || 'create the session from the model again',
      cause: error,
    });
  }
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
  readonly #taps: readonly string[];

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
    this.#taps = taps;
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
  }

  /**
   * @param source A model in memory, which stays the caller's, what {@link loadModel} takes, or the
   * same with the bytes of {@link InferenceSession.toPlan}.
   * @throws RequantError as loadModel, INVALID_ARGUMENT for an unknown option, tap or kernel, and
   * INVALID_PLAN for a plan that cannot be used here (any more).
   */
  static async create(
    source: Source | Model | QuantizedModel,
    options: SessionOptions = {},
  ): Promise<InferenceSession> {
    checkOptions(options, sessionOptionKinds, 'options');
    checkRequantize(options.requantize, 'options.requantize');
    const { onProgress, signal, externalData, numThreads, taps = [] } = options;
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
      }) as LoadOptions;
      const { core, loaded } = await openSource(source, loadOptions);
      if (isPlan(loaded.bytes)) {
        const threads = await createdThreads(core, true, numThreads);
        const session = loadPlan(core, loaded.bytes, options, threads);
        const handle = new Handle(core, session, 'session');
        await loadTools(
          core,
          handle.call((object) => object.functions()),
        );
        return new InferenceSession(handle, [], []);
      }
      model = await modelOf(core, loaded, loadOptions);
      ours = true;
    }
    try {
      const threads = await createdThreads(model.handle.core, ours, numThreads);
      const { core, object } = model.handle;
      const { requantize = model.requantize, profile, fuse, optimize, kernels } = options;
      if (kernels) checkKernels(core, kernels);
      const outputs = taps.length > 0 ? model.info.outputs.map(({ name }) => name) : [];
      const coreOptions = withoutUndefined({
        consume: ours,
        requantize,
        profile,
        fuse,
        optimize,
        kernels: kernels && { ...kernels },
        threads,
        taps: [...taps],
      }) as CoreSessionOptions;
      const session = call(core, () => core.createSession(object, coreOptions));
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
   * Computes the outputs for these inputs. The work happens on the calling thread before this
   * function returns; {@link createWorker} moves it to another one.
   *
   * @param feeds A tensor for every input, by name.
   * @param fetches The outputs (or taps) wanted, default all: an array of names, or an object with
   * tensors by name that are filled, or null for new ones.
   * @returns Tensors with memory of their own, by name.
   * @throws RequantError INVALID_ARGUMENT for a missing or unknown name, SHAPE_MISMATCH,
   * TYPE_MISMATCH, DISPOSED.
   */
  run(feeds: Feeds, options?: RunOptions): Promise<Record<string, Tensor>>;
  run(
    feeds: Feeds,
    fetches: readonly string[] | Readonly<Record<string, Tensor | null>> | undefined,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(
    feeds: Feeds,
    second?: readonly string[] | Readonly<Record<string, Tensor | null>> | RunOptions,
    third?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    const options = third ?? (this.#isRunOptions(second) ? second : {});
    const fetches = second === options ? undefined : this.#fetchNames(second as readonly string[]);
    checkOptions(options, { signal: 'object', logSeverityLevel: 'any', tag: 'any' }, 'options');
    throwIfAborted(options.signal);
    const { core } = this.#handle;
    const results = withFeeds(core, feeds, (coreFeeds) =>
      this.#handle.call((session) => session.run(...coreFeeds)),
    );
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

  // As in onnxruntime-web, an object in second place is fetches when it has an output's name.
  #isRunOptions(value: unknown): value is RunOptions {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const keys = Object.keys(value);
    return !keys.some((key) => this.outputNames.includes(key) || this.#taps.includes(key));
  }

  #fetchNames(
    fetches: readonly string[] | Readonly<Record<string, unknown>> | undefined,
  ): Map<string, Tensor | null> | undefined {
    if (fetches === undefined || fetches === null) return undefined;
    if (typeof fetches !== 'object') {
      throw invalidArgument(`fetches must be an array of names, not ${show(fetches)}`, 'fetches');
    }
    const names: unknown[] = Array.isArray(fetches) ? fetches : Object.keys(fetches);
    const known = [...this.outputNames, ...this.#taps];
    for (const name of names) {
      if (typeof name !== 'string' || !known.includes(name)) {
        throw invalidArgument(
          `the model has no output ${show(name)}`,
          String(name),
          suggest(String(name), known),
        );
      }
    }
    const values = fetches as Readonly<Record<string, unknown>>;
    return new Map(
      (names as string[]).map((name) => {
        const value = Array.isArray(fetches) ? null : values[name];
        return [name, value instanceof Tensor ? value : null];
      }),
    );
  }

  /**
   * Prepares runs that are repeated with tensors that stay: every {@link BoundRun.run} reads what the
   * feeds hold then and fills the same outputs, without allocating anything. A real-time loop has no
   * pauses for garbage collection that way.
   *
   * @param feeds As in {@link run}; the tensors are read again by every run.
   * @param fetches As in {@link run}; tensors among them are filled, others are made once.
   * @throws RequantError as run, and UNSUPPORTED when shapes depend on data.
   */
  bind(
    feeds: Feeds,
    fetches?: readonly string[] | Readonly<Record<string, Tensor | null>>,
  ): BoundRun {
    const wanted = this.#fetchNames(fetches);
    return new BoundRun(this.#handle, feeds, wanted);
  }

  /** How the model was computed last; undefined before the first run of a model of open shape. */
  plan(): Plan | undefined {
    const plan = this.#handle.json<Partial<Plan>>((session) => session.plan());
    return plan.steps ? (plan as Plan) : undefined;
  }

  /**
   * What every operator cost so far; needs the option `profile`. {@link toChromeTrace} makes a file
   * for trace viewers of it.
   */
  profile(): StepProfile[] {
    return this.#handle.json<StepProfile[]>((session) => session.profile());
  }

  /**
   * The plan as bytes, for {@link InferenceSession.create}: kernels chosen, weights packed, memory
   * laid out, so that the next session needs no model. A cache to keep beside the model, not a format
   * to exchange: another build of the package, another variant of the engine or a machine without
   * what its kernels need refuses it with INVALID_PLAN.
   *
   * @throws RequantError UNSUPPORTED before the first run of a model of open shape (the plan is for
   * the shapes that ran last).
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

  /** The same as {@link release}, at once. */
  dispose(): void {
    this.#handle.dispose();
  }
}

makeDisposable(InferenceSession, function (this: InferenceSession) {
  this.dispose();
});

function checkTarget({ name, type, dims }: CoreResult, target: Tensor): void {
  if (target.type !== type) {
    throw new RequantError('TYPE_MISMATCH', `output "${name}" is ${type}, not ${target.type}`, {
      value: name,
    });
  }
  if (target.dims.length !== dims.length || target.dims.some((dim, axis) => dim !== dims[axis])) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `output "${name}" has shape [${dims.join(', ')}], not [${target.dims.join(', ')}]`,
      { value: name },
    );
  }
}

/** Repeated runs with tensors that stay; made by {@link InferenceSession.bind}. */
export class BoundRun {
  /** What every run fills, by name. */
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly #handle: Handle<CoreSession>;
  readonly #core: Core;
  #id = 0;
  #inputs: { bytes: Uint8Array; pointer: number }[] = [];
  #results: { bytes: Uint8Array; view: Uint8Array; pointer: number }[] = [];
  #heap: Uint8Array | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    handle: Handle<CoreSession>,
    feeds: Feeds,
    fetches: ReadonlyMap<string, Tensor | null> | undefined,
  ) {
    this.#handle = handle;
    const { core } = handle;
    this.#core = core;
    const outputs: Record<string, Tensor> = {};
    try {
      checkFeeds(feeds);
      for (const { data } of Object.values(feeds)) {
        const bytes = bytesOf(data);
        this.#inputs.push({ bytes, pointer: allocate(core, bytes.length) });
      }
      const tensors = Object.values(feeds);
      const { id, results } = handle.call((session) =>
        session.bind(
          Object.keys(feeds),
          tensors.map(({ type }) => type),
          tensors.map(({ dims }) => [...dims]),
          this.#inputs.map(({ pointer }) => pointer),
        ),
      );
      this.#id = id;
      for (const result of results) {
        if (fetches && !fetches.has(result.name)) continue;
        const target = fetches?.get(result.name) ?? toTensor(core, result);
        checkTarget(result, target);
        outputs[result.name] = target;
        const bytes = bytesOf(target.data);
        this.#results.push({ bytes, view: bytes, pointer: result.pointer >>> 0 });
      }
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.outputs = Object.freeze(outputs);
  }

  /**
   * Computes the outputs from what the feeds hold now.
   *
   * @throws RequantError DISPOSED after this or the session was disposed of.
   */
  run(): void {
    if (this.#id === 0 || this.#handle.disposed) {
      throw new RequantError('DISPOSED', 'the run is used after it was disposed of');
    }
    const core = this.#core;
    for (let at = 0; at < this.#inputs.length; at++) {
      const { bytes, pointer } = this.#inputs[at]!;
      core.HEAPU8.set(bytes, pointer);
    }
    if (failed(core, this.#id)) this.#runSlowly();
    if (this.#heap !== core.HEAPU8) {
      this.#heap = core.HEAPU8;
      for (const result of this.#results) {
        const { pointer, bytes } = result;
        result.view = this.#heap.subarray(pointer, pointer + bytes.length);
      }
    }
    for (let at = 0; at < this.#results.length; at++) {
      const { bytes, view } = this.#results[at]!;
      bytes.set(view);
    }
  }

  // Tells what went wrong. On its own, because a closure would cost every run its context.
  #runSlowly(): void {
    this.#handle.call((session) => session.runBound(this.#id));
  }

  /** Gives the memory back; the outputs stay the caller's. The session lives on. */
  dispose(): void {
    for (const { pointer } of this.#inputs) this.#core.free(pointer);
    this.#inputs = [];
    if (this.#id !== 0 && !this.#handle.disposed) this.#handle.object.unbind(this.#id);
    this.#id = 0;
  }
}

makeDisposable(BoundRun, function (this: BoundRun) {
  this.dispose();
});

function failed(core: Core, id: number): boolean {
  try {
    return core._run_bound(id) !== 0;
  } catch {
    return true; // a trap: it happens again, and is reported, by the slow way
  }
}

/** @internal */
export function checkSameCore(a: Model, b: Model): void {
  if (a.handle.core === b.handle.core) return;
  throw new RequantError('INVALID_ARGUMENT', 'the models live in different engines', {
    hint: 'Load both with the same env.wasm.simd and both for one thread or both for several.',
  });
}

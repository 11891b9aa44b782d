/// <reference lib="esnext.disposable" preserve="true" />

import { throwIfAborted } from './abort.js';
import type { Core, CoreSession, CoreSessionOptions } from './core.js';
import type { EngineInfo } from './engine.js';
import { RequantError, invalidArgument, show } from './errors.js';
import { type Feeds, Handle, call, makeDisposable, toTensor, withFeeds } from './heap.js';
import {
  type LoadOptions,
  Model,
  type RequantizeMode,
  type ValueInfo,
  loadModel,
  loadOptionKinds,
} from './model.js';
import { checkOneOf, checkOptions, suggest, withoutUndefined } from './options.js';
import { QuantizedModel } from './quantize.js';
import type { Source } from './source.js';
import type { Tensor, TensorType } from './tensor.js';

/** Options of {@link InferenceSession.create}. */
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
   * @param source A model in memory, which stays the caller's, or what {@link loadModel} takes.
   * @throws RequantError as loadModel, and INVALID_ARGUMENT for an unknown option, tap or kernel.
   */
  static async create(
    source: Source | Model | QuantizedModel,
    options: SessionOptions = {},
  ): Promise<InferenceSession> {
    checkOptions(options, sessionOptionKinds, 'options');
    checkRequantize(options.requantize, 'options.requantize');
    const { onProgress, signal, externalData, taps = [] } = options;
    throwIfAborted(signal);
    let model: Model;
    let ours = false;
    if (source instanceof Model) {
      model = source;
    } else if (source instanceof QuantizedModel) {
      model = source.integerModel;
    } else {
      model = await loadModel(
        source,
        withoutUndefined({ onProgress, signal, externalData }) as LoadOptions,
      );
      ours = true;
    }
    try {
      const { core, object } = model.handle;
      const { requantize = model.requantize, profile, fuse, optimize, kernels } = options;
      if (kernels) checkKernels(core, kernels);
      const coreOptions = withoutUndefined({
        requantize,
        profile,
        fuse,
        optimize,
        kernels: kernels && { ...kernels },
        taps: [...taps],
      }) as CoreSessionOptions;
      const session = call(core, () => core.createSession(object, coreOptions));
      const handle = new Handle(core, session, 'session');
      try {
        const outputs = taps.length > 0 ? model.info.outputs.map(({ name }) => name) : [];
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
   * @param fetches The outputs (or taps) wanted; default all.
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
      if (!fetches || fetches.has(result.name)) outputs[result.name] = toTensor(core, result);
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
  ): Set<string> | undefined {
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
    return new Set(names as string[]);
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

/** @internal */
export function checkSameCore(a: Model, b: Model): void {
  if (a.handle.core === b.handle.core) return;
  throw new RequantError('INVALID_ARGUMENT', 'the models live in different engines', {
    hint: 'Load both with the same env.wasm.simd.',
  });
}

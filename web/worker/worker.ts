/// <reference lib="esnext.disposable" preserve="true" />

import type { CompareOptions, CompareReport, CompareSample } from '../analyze/compare.js';
import { checkIterable, lengthOf, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { checkKind, withoutUndefined } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import { type Source, isNode, isResponse, readSource, ready } from '../base/source.js';
import { type Tensor, bytesOf } from '../base/tensor.js';
import type { EngineInfo } from '../engine/engine_info.js';
import { type WasmEnv, env } from '../engine/env.js';
import { type Feeds, disposedOf, makeDisposable, whenForgotten } from '../engine/heap.js';
import { prefetchMain, variantFor } from '../engine/load_core.js';
import { checkBinaries, compiled, isGiven } from '../engine/modules.js';
import type {
  LoadOptions,
  ModelInfo,
  OptimizeOptions,
  OptimizeReport,
  PlanOptions,
} from '../model/model.js';
import type { SessionOptions } from '../model/session_options.js';
import type { WasmFile } from '../own_files.js';
import type { QuantizeOptions } from '../quantize/quantize.js';
import type { ExportOptions } from '../quantize/quantized_model.js';
import type { QuantizationRecord } from '../quantize/record.js';
import { type Fetches, type RunOptions, checkTarget, runArguments } from '../session/fetches.js';
import type { Plan, StepProfile, ValueMetadata } from '../session/session.js';
import { type TrainOptions, epochsOf } from '../train/train.js';
import type { TuneOptions, TuneResult } from '../tune/tune.js';
import { type CallExtras, Connection } from './worker_connection.js';
import { type PackedFeeds, packFeeds, unpackFeeds } from './worker_protocol.js';

// Makes a page's relative URL absolute, since a worker would resolve it against its own script.
function absolute(source: string | URL): string {
  if (source instanceof URL || isNode || typeof document !== 'object') return String(source);
  return new URL(source, document.baseURI).href;
}

// Reads responses here, since they cannot be sent.
async function sendable(given: Source, signal: AbortSignal | undefined): Promise<unknown> {
  const source = await ready(given, signal);
  if (source instanceof URL || typeof source === 'string') return absolute(source);
  if (isResponse(source)) {
    return (await readSource(source, signal ? { signal } : {})).bytes;
  }
  return source;
}

/** Checks the options that stay here; the worker checks the others. */
function checkExtras(options: unknown): void {
  checkKind(options, 'object', 'options');
  const { onProgress, signal } = options as { onProgress?: unknown; signal?: unknown };
  if (onProgress !== undefined) checkKind(onProgress, 'function', 'options.onProgress');
  if (signal !== undefined) checkKind(signal, 'signal', 'options.signal');
}

async function splitLoadOptions<T extends LoadOptions>(options: T) {
  checkExtras(options);
  const { onProgress, signal, externalData, ...rest } = options;
  const send = async ([name, file]: [string, Source]) => [name, await sendable(file, signal)];
  const files =
    externalData && Object.fromEntries(await Promise.all(Object.entries(externalData).map(send)));
  return {
    plain: withoutUndefined({ ...rest, externalData: files }),
    extras: { onProgress, signal } as CallExtras,
  };
}

function disposal(connection: Connection, ref: number): () => void {
  return () => void connection.call('dispose', [ref]).catch(() => {});
}

/** An object that lives in the worker. */
abstract class Remote {
  /** @internal The worker, which is not forgotten as long as one of its objects is used. */
  readonly worker: RequantWorker;
  /** @internal */
  readonly ref: number;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(worker: RequantWorker, ref: number) {
    this.worker = worker;
    this.ref = ref;
    whenForgotten(this, disposal(worker.connection, ref));
  }

  /** @internal Calls a method of this object, which is not forgotten while it runs. */
  protected call<T>(method: string, args: unknown[] = [], extras: CallExtras = {}): Promise<T> {
    return this.worker.connection.call(method, [this.ref, ...args], { ...extras, uses: [this] });
  }

  /** Gives the memory in the worker back; later uses of the object fail with DISPOSED. */
  async dispose(): Promise<void> {
    disposedOf(this);
    await this.call('dispose');
  }
}

makeDisposable(Remote as unknown as { prototype: object }, function (this: Remote) {
  this.dispose().catch(() => {});
});

/** A {@link Model} in a worker, with the same members as asynchronous methods. */
export class WorkerModel extends Remote {
  /** As {@link Model.info}. */
  info(): Promise<ModelInfo> {
    return this.call('info');
  }

  /** As {@link Model.summary}. */
  summary(): Promise<string> {
    return this.call('summary');
  }

  /** As {@link Model.toText}. */
  toText(options: { maxConstantElements?: number } = {}): Promise<string> {
    return this.call('toText', [options]);
  }

  /** As {@link Model.toDot}. */
  toDot(): Promise<string> {
    return this.call('toDot');
  }

  /** As {@link Model.toOnnx}. */
  toOnnx(): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('toOnnx');
  }

  /** As {@link Model.save}; this thread writes the file. */
  async save(name: string): Promise<void> {
    return saveBytes(name, await this.toOnnx());
  }

  /** As {@link Model.clone}; the copy is in the worker. */
  async clone(): Promise<WorkerModel> {
    return new WorkerModel(this.worker, await this.call('clone'));
  }

  /** As {@link Model.optimize}; it changes the model in the worker. */
  optimize(options: OptimizeOptions = {}): Promise<OptimizeReport> {
    return this.call('optimize', [options]);
  }

  /** As {@link Model.toPlan}; the plan is for engines like the worker's. */
  toPlan(options: PlanOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('modelToPlan', [options]);
  }
}

/** A {@link QuantizedModel} in a worker, with the same members as asynchronous methods, except `config`. */
export class WorkerQuantizedModel extends Remote {
  /** How every operator slot was quantized. */
  readonly config: QuantizationRecord;

  /** @internal */
  constructor(worker: RequantWorker, ref: number, config: QuantizationRecord) {
    super(worker, ref);
    this.config = config;
  }

  /** As {@link QuantizedModel.toOnnx}. */
  toOnnx(options: ExportOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('toOnnx', [options]);
  }

  /** As {@link QuantizedModel.save}; this thread writes the file. */
  async save(name: string, options: ExportOptions = {}): Promise<void> {
    return saveBytes(name, await this.toOnnx(options));
  }

  /** A copy of {@link QuantizedModel.integerModel}, which the caller disposes of. */
  async integerModel(): Promise<WorkerModel> {
    return new WorkerModel(this.worker, await this.call('integerModel'));
  }

  /** As {@link QuantizedModel.floatModel}. */
  async floatModel(): Promise<WorkerModel> {
    return new WorkerModel(this.worker, await this.call('floatModel'));
  }
}

/** An {@link InferenceSession} in a worker, with the same methods, asynchronous and without `bind`. */
export class WorkerSession extends Remote {
  /** Names, types and shapes of the model's inputs. */
  readonly inputMetadata: readonly ValueMetadata[];
  /** Names, types and shapes of the model's outputs. */
  readonly outputMetadata: readonly ValueMetadata[];
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  /** Names of outputs and taps. */
  readonly #fetchable: readonly string[];

  /** @internal */
  constructor(
    worker: RequantWorker,
    ref: number,
    inputs: readonly ValueMetadata[],
    outputs: readonly ValueMetadata[],
    taps: readonly string[],
  ) {
    super(worker, ref);
    this.inputMetadata = inputs;
    this.outputMetadata = outputs;
    this.inputNames = inputs.map(({ name }) => name);
    this.outputNames = outputs.map(({ name }) => name);
    this.#fetchable = [...this.outputNames, ...taps];
  }

  /** As {@link InferenceSession.run}; the calling thread stays free. */
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
    const args = [packFeeds(feeds), fetches && [...fetches.keys()]];
    const { signal } = options;
    const outputs = unpackFeeds(await this.call<PackedFeeds>('run', args, { signal }));
    for (const [name, target] of fetches ?? []) {
      if (!target) continue;
      const { type, dims, data } = outputs[name]!;
      checkTarget({ name, type, dims }, target);
      bytesOf(target.data).set(bytesOf(data));
      outputs[name] = target;
    }
    return outputs;
  }

  /** As {@link InferenceSession.plan}. */
  plan(): Promise<Plan | undefined> {
    return this.call('plan');
  }

  /** As {@link InferenceSession.profile}; needs the option `profile` of {@link RequantWorker.createSession}. */
  profile(): Promise<StepProfile[]> {
    return this.call('profile');
  }

  /** As {@link InferenceSession.toPlan}. */
  toPlan(): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('toPlan');
  }

  /** Does what {@link dispose} does. */
  release(): Promise<void> {
    return this.dispose();
  }
}

function ending(connection: Connection): () => void {
  return () => void connection.terminate().catch(() => {});
}

/** A worker with an engine of its own; {@link createWorker} makes it. */
export class RequantWorker {
  /** @internal */
  readonly connection: Connection;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(connection: Connection) {
    this.connection = connection;
    whenForgotten(this, ending(connection));
  }

  // Calls a method. The worker, and its objects that the call uses, are not forgotten while it runs.
  #call<T>(
    method: string,
    args: unknown[],
    extras: CallExtras = {},
    objects: readonly object[] = [],
  ): Promise<T> {
    return this.connection.call(method, args, { ...extras, uses: [this, ...objects] });
  }

  /** As the function {@link engineInfo}, for the worker's engine. */
  engineInfo(): Promise<EngineInfo> {
    return this.#call('engineInfo', []);
  }

  /** As the function {@link loadModel}. */
  async loadModel(source: Source, options: LoadOptions = {}): Promise<WorkerModel> {
    const { plain, extras } = await splitLoadOptions(options);
    const from = await sendable(source, options.signal);
    const args = [from, plain, options.onProgress !== undefined];
    const { ref } = await this.#call<{ ref: number }>('loadModel', args, extras);
    return new WorkerModel(this, ref);
  }

  /** As the function {@link parseModel}. */
  async parseModel(text: string): Promise<WorkerModel> {
    const { ref } = await this.#call<{ ref: number }>('parseModel', [text]);
    return new WorkerModel(this, ref);
  }

  /** As {@link InferenceSession.create}. */
  async createSession(
    source: Source | WorkerModel | WorkerQuantizedModel,
    options: SessionOptions = {},
  ): Promise<WorkerSession> {
    const { plain, extras } = await splitLoadOptions(options);
    const used = source instanceof Remote ? [source] : [];
    const from =
      source instanceof Remote
        ? { ref: this.#own(source) }
        : await sendable(source, options.signal);
    const { ref, inputMetadata, outputMetadata } = await this.#call<{
      ref: number;
      inputMetadata: readonly ValueMetadata[];
      outputMetadata: readonly ValueMetadata[];
    }>('createSession', [from, plain, options.onProgress !== undefined], extras, used);
    const { taps = [] } = options;
    return new WorkerSession(this, ref, inputMetadata, outputMetadata, taps);
  }

  /** As the function {@link quantize}; the calibration samples are sent one at a time. */
  async quantize(model: WorkerModel, options: QuantizeOptions): Promise<WorkerQuantizedModel> {
    checkExtras(options);
    const { calibration, onProgress, signal, ...plain } = options;
    checkIterable(calibration, 'options.calibration');
    throwIfAborted(signal);
    const { ref, config } = await this.#call<{ ref: number; config: QuantizationRecord }>(
      'quantize',
      [this.#own(model), plain, lengthOf(calibration)],
      { signal, onProgress, source: calibration, pack: packFeeds },
      [model],
    );
    return new WorkerQuantizedModel(this, ref, config);
  }

  /** As the function {@link compare}; the samples are sent one at a time. */
  async compare(
    model: WorkerModel,
    candidate: WorkerModel | WorkerQuantizedModel,
    options: CompareOptions,
  ): Promise<CompareReport> {
    checkExtras(options);
    const { dataset, onProgress, signal, ...plain } = options;
    checkIterable(dataset, 'options.dataset');
    throwIfAborted(signal);
    return this.#call(
      'compare',
      [this.#own(model), this.#own(candidate), plain, lengthOf(dataset)],
      {
        signal,
        onProgress,
        source: dataset,
        pack: (sample: CompareSample) => ({ ...sample, feeds: packFeeds(sample?.feeds) }),
      },
      [model, candidate],
    );
  }

  /** As the function {@link train}; the samples of every epoch are sent one at a time. */
  async train(
    quantized: WorkerQuantizedModel,
    options: TrainOptions,
  ): Promise<WorkerQuantizedModel> {
    checkExtras(options);
    const { dataset, onProgress, signal, ...plain } = options;
    checkIterable(dataset, 'options.dataset');
    if (typeof plain.schedule === 'function') {
      throw invalidArgument(
        'a function cannot be sent to a worker',
        'options.schedule',
        "Use 'cosine' or 'constant'.",
      );
    }
    throwIfAborted(signal);
    const { ref, config } = await this.#call<{ ref: number; config: QuantizationRecord }>(
      'train',
      [this.#own(quantized), plain, lengthOf(dataset)],
      {
        signal,
        onProgress,
        source: epochsOf(dataset),
        pack: (sample: CompareSample | null) =>
          sample && { ...sample, feeds: packFeeds(sample.feeds) },
      },
      [quantized],
    );
    return new WorkerQuantizedModel(this, ref, config);
  }

  /**
   * As the function {@link tune}: it measures the worker's engine and stores records in the same cache as the
   * page.
   */
  async tune(model: WorkerModel | WorkerQuantizedModel, options: TuneOptions): Promise<TuneResult> {
    checkExtras(options);
    const { feeds, onProgress, signal, ...plain } = options;
    if (!feeds) throw invalidArgument('feeds are missing', 'options.feeds');
    throwIfAborted(signal);
    const args = [this.#own(model), packFeeds(feeds), plain];
    return this.#call('tune', args, { signal, onProgress }, [model]);
  }

  /** Ends the worker with everything in it; running calls fail with DISPOSED. */
  terminate(): Promise<void> {
    disposedOf(this);
    return this.connection.terminate();
  }

  #own(object: unknown): number {
    if (object instanceof Remote && object.worker === this) return object.ref;
    throw invalidArgument(`${show(object)} does not belong to this worker`, 'model');
  }
}

makeDisposable(RequantWorker, function (this: RequantWorker) {
  this.terminate().catch(() => {});
});

/**
 * Starts a worker (a module Worker in browsers, worker_threads in Node) with an engine of its own, so that
 * loading, quantizing and running leave the calling thread free. It gets the present settings of `env.wasm`.
 * In Node it keeps the process alive only while a call is running.
 *
 * @throws RequantError LOAD_FAILED when the worker's script or the module of `env.wasm.wasmBinary` cannot be
 * loaded; INVALID_ARGUMENT for settings that cannot be sent.
 * @example
 * const worker = await createWorker();
 * const session = await worker.createSession('model.onnx');
 * const outputs = await session.run(feeds);
 * await worker.terminate();
 */
export async function createWorker(): Promise<RequantWorker> {
  // A copy of the present settings, which later requests use as well.
  const settings = { ...env.wasm };
  const connection = new Connection((file) => moduleFor(file, settings));
  try {
    await Promise.all([prefetchMain(settings), connection.open()]);
    await connection.call('setEnv', [await sendableSettings(settings)]);
  } catch (error) {
    await connection.terminate();
    throw error;
  }
  return new RequantWorker(connection);
}

/**
 * The module that the worker asks for, compiled once for all workers; undefined: it may load the module
 * itself.
 */
async function moduleFor(
  file: WasmFile,
  settings: WasmEnv,
): Promise<WebAssembly.Module | undefined> {
  try {
    return await compiled(file, settings);
  } catch (error) {
    if (isGiven(file, settings)) throw error;
    return undefined;
  }
}

function absolutePaths<T extends string>(
  paths: string | URL | Partial<Record<T, string | URL>> | undefined,
): string | Record<string, string> | undefined {
  if (typeof paths === 'string' || paths instanceof URL) return absolute(paths);
  return paths && mapValues(paths as Record<string, string | URL>, absolute);
}

function mapValues<T, R>(object: Record<string, T>, map: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));
}

/**
 * The settings of env.wasm to send. The worker asks for modules, so only settings that shape its choices are
 * sent.
 */
async function sendableSettings(settings: WasmEnv): Promise<Partial<WasmEnv>> {
  checkBinaries(settings);
  const { numThreads, wasmPaths, workerPaths, wasmBinary } = settings;
  return withoutUndefined({
    simd: wasmBinary ? variantFor(settings) : settings.simd,
    numThreads,
    wasmPaths: absolutePaths(wasmPaths),
    workerPaths: absolutePaths(workerPaths),
    wasmBinary: wasmBinary && (await compiled(`requant-${variantFor(settings)}.wasm`, settings)),
  }) as Partial<WasmEnv>;
}

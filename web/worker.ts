/// <reference lib="esnext.disposable" preserve="true" />

import { checkIterable, lengthOf, throwIfAborted } from './abort.js';
import type { CompareOptions, CompareReport, CompareSample } from './compare.js';
import type { EngineInfo } from './engine.js';
import { env } from './env.js';
import { invalidArgument, show } from './errors.js';
import { type Feeds, makeDisposable } from './heap.js';
import type {
  LoadOptions,
  ModelInfo,
  OptimizeOptions,
  OptimizeReport,
  PlanOptions,
} from './model.js';
import { withoutUndefined } from './options.js';
import type { ExportOptions, QuantizationRecord, QuantizeOptions } from './quantize.js';
import type { Plan, RunOptions, StepProfile, ValueMetadata } from './session.js';
import type { SessionOptions } from './session_options.js';
import { type Source, isNode, isResponse, readSource, ready } from './source.js';
import type { Tensor } from './tensor.js';
import type { TuneOptions, TuneResult } from './tune.js';
import { type CallExtras, Connection } from './worker_connection.js';
import { type PackedFeeds, packFeeds, unpackFeeds } from './worker_protocol.js';

// A worker resolves relative URLs against its own script, so a page's are made absolute here.
function absolute(source: string | URL): string {
  if (source instanceof URL || isNode || typeof document !== 'object') return String(source);
  return new URL(source, document.baseURI).href;
}

// Responses cannot be sent, so they are read here.
async function sendable(given: Source, signal: AbortSignal | undefined): Promise<unknown> {
  const source = await ready(given, signal);
  if (source instanceof URL || typeof source === 'string') return absolute(source);
  if (isResponse(source)) {
    return (await readSource(source, signal ? { signal } : {})).bytes;
  }
  return source;
}

async function splitLoadOptions<T extends LoadOptions>(options: T) {
  const { onProgress, signal, externalData, ...rest } = options;
  const send = async ([name, file]: [string, Source]) => [name, await sendable(file, signal)];
  const files =
    externalData && Object.fromEntries(await Promise.all(Object.entries(externalData).map(send)));
  return {
    plain: withoutUndefined({ ...rest, externalData: files }),
    extras: { onProgress, signal } as CallExtras,
  };
}

/** An object that lives in the worker. */
abstract class Remote {
  /** @internal */
  readonly connection: Connection;
  /** @internal */
  readonly ref: number;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(connection: Connection, ref: number) {
    this.connection = connection;
    this.ref = ref;
  }

  /** Gives the memory in the worker back. */
  async dispose(): Promise<void> {
    await this.connection.call('dispose', [this.ref]);
  }
}

makeDisposable(Remote as unknown as { prototype: object }, function (this: Remote) {
  this.dispose().catch(() => {});
});

/** A {@link Model} in a worker: the same methods, but all are asynchronous. */
export class WorkerModel extends Remote {
  info(): Promise<ModelInfo> {
    return this.connection.call('info', [this.ref]);
  }

  summary(): Promise<string> {
    return this.connection.call('summary', [this.ref]);
  }

  toText(options: { maxConstantElements?: number } = {}): Promise<string> {
    return this.connection.call('toText', [this.ref, options]);
  }

  toDot(): Promise<string> {
    return this.connection.call('toDot', [this.ref]);
  }

  toOnnx(): Promise<Uint8Array<ArrayBuffer>> {
    return this.connection.call('toOnnx', [this.ref]);
  }

  optimize(options: OptimizeOptions = {}): Promise<OptimizeReport> {
    return this.connection.call('optimize', [this.ref, options]);
  }

  toPlan(options: PlanOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.connection.call('modelToPlan', [this.ref, options]);
  }
}

/** A {@link QuantizedModel} in a worker. */
export class WorkerQuantizedModel extends Remote {
  /** How every operator slot was quantized. */
  readonly config: QuantizationRecord;

  /** @internal */
  constructor(connection: Connection, ref: number, config: QuantizationRecord) {
    super(connection, ref);
    this.config = config;
  }

  toOnnx(options: ExportOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.connection.call('toOnnx', [this.ref, options]);
  }
}

/** An {@link InferenceSession} in a worker. */
export class WorkerSession extends Remote {
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];

  /** @internal */
  constructor(
    connection: Connection,
    ref: number,
    inputs: readonly ValueMetadata[],
    outputs: readonly ValueMetadata[],
  ) {
    super(connection, ref);
    this.inputMetadata = inputs;
    this.outputMetadata = outputs;
    this.inputNames = inputs.map(({ name }) => name);
    this.outputNames = outputs.map(({ name }) => name);
  }

  /** As {@link InferenceSession.run}; the calling thread stays free. */
  async run(
    feeds: Feeds,
    fetches?: readonly string[],
    options: RunOptions = {},
  ): Promise<Record<string, Tensor>> {
    const args = [this.ref, packFeeds(feeds), fetches && [...fetches]];
    return unpackFeeds(await this.connection.call<PackedFeeds>('run', args, options));
  }

  plan(): Promise<Plan | undefined> {
    return this.connection.call('plan', [this.ref]);
  }

  profile(): Promise<StepProfile[]> {
    return this.connection.call('profile', [this.ref]);
  }

  toPlan(): Promise<Uint8Array<ArrayBuffer>> {
    return this.connection.call('toPlan', [this.ref]);
  }

  release(): Promise<void> {
    return this.dispose();
  }
}

/** A worker with an engine of its own. Made by {@link createWorker}. */
export class RequantWorker {
  readonly #connection: Connection;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** As the function {@link engineInfo}, of the worker's engine. */
  engineInfo(): Promise<EngineInfo> {
    return this.#connection.call('engineInfo', []);
  }

  /** As the function {@link loadModel}. */
  async loadModel(source: Source, options: LoadOptions = {}): Promise<WorkerModel> {
    const { plain, extras } = await splitLoadOptions(options);
    const from = await sendable(source, options.signal);
    const args = [from, plain, options.onProgress !== undefined];
    const { ref } = await this.#connection.call<{ ref: number }>('loadModel', args, extras);
    return new WorkerModel(this.#connection, ref);
  }

  /** As the function {@link parseModel}. */
  async parseModel(text: string): Promise<WorkerModel> {
    const { ref } = await this.#connection.call<{ ref: number }>('parseModel', [text]);
    return new WorkerModel(this.#connection, ref);
  }

  /** As {@link InferenceSession.create}. */
  async createSession(
    source: Source | WorkerModel | WorkerQuantizedModel,
    options: SessionOptions = {},
  ): Promise<WorkerSession> {
    const { plain, extras } = await splitLoadOptions(options);
    const from =
      source instanceof Remote
        ? { ref: this.#own(source) }
        : await sendable(source, options.signal);
    const { ref, inputMetadata, outputMetadata } = await this.#connection.call<{
      ref: number;
      inputMetadata: readonly ValueMetadata[];
      outputMetadata: readonly ValueMetadata[];
    }>('createSession', [from, plain, options.onProgress !== undefined], extras);
    return new WorkerSession(this.#connection, ref, inputMetadata, outputMetadata);
  }

  /** As the function {@link quantize}; the calibration samples are sent one at a time. */
  async quantize(model: WorkerModel, options: QuantizeOptions): Promise<WorkerQuantizedModel> {
    const { calibration, onProgress, signal, ...plain } = options;
    checkIterable(calibration, 'options.calibration');
    throwIfAborted(signal);
    const { ref, config } = await this.#connection.call<{
      ref: number;
      config: QuantizationRecord;
    }>('quantize', [this.#own(model), plain, lengthOf(calibration)], {
      signal,
      onProgress,
      source: calibration,
      pack: packFeeds,
    });
    return new WorkerQuantizedModel(this.#connection, ref, config);
  }

  /** As the function {@link compare}; the samples are sent one at a time. */
  async compare(
    model: WorkerModel,
    candidate: WorkerModel | WorkerQuantizedModel,
    options: CompareOptions,
  ): Promise<CompareReport> {
    const { dataset, onProgress, signal, ...plain } = options;
    checkIterable(dataset, 'options.dataset');
    throwIfAborted(signal);
    return this.#connection.call(
      'compare',
      [this.#own(model), this.#own(candidate), plain, lengthOf(dataset)],
      {
        signal,
        onProgress,
        source: dataset,
        pack: ({ feeds, label }: CompareSample) => ({ feeds: packFeeds(feeds), label }),
      },
    );
  }

  /**
   * As the function {@link tune}: the worker's engine is measured, and records for it are kept in the same
   * cache as those of the page.
   */
  async tune(model: WorkerModel | WorkerQuantizedModel, options: TuneOptions): Promise<TuneResult> {
    const { feeds, onProgress, signal, ...plain } = options;
    if (!feeds) throw invalidArgument('feeds are missing', 'options.feeds');
    throwIfAborted(signal);
    const args = [this.#own(model), packFeeds(feeds), plain];
    return this.#connection.call('tune', args, { signal, onProgress });
  }

  /** Ends the worker with everything in it; running calls fail with DISPOSED. */
  terminate(): Promise<void> {
    return this.#connection.terminate();
  }

  #own(object: unknown): number {
    if (object instanceof Remote && object.connection === this.#connection) return object.ref;
    throw invalidArgument(`${show(object)} does not belong to this worker`, 'model');
  }
}

makeDisposable(RequantWorker, function (this: RequantWorker) {
  this.terminate().catch(() => {});
});

/**
 * Starts a worker (a module Worker in browsers, worker_threads in Node) with an engine of its own,
 * so that loading, quantizing and running leave the calling thread free. It has the present settings
 * of `env.wasm`. In Node it keeps the process alive only while a call is running.
 *
 * @example
 * const worker = await createWorker();
 * const session = await worker.createSession('model.onnx');
 * const outputs = await session.run(feeds);
 * await worker.terminate();
 */
export async function createWorker(): Promise<RequantWorker> {
  const connection = new Connection();
  await connection.open();
  const { simd, numThreads, wasmPaths, wasmBinary, toolsBinary } = env.wasm;
  const paths =
    typeof wasmPaths === 'string' || wasmPaths instanceof URL
      ? absolute(wasmPaths)
      : wasmPaths &&
        Object.fromEntries(Object.entries(wasmPaths).map(([file, path]) => [file, absolute(path)]));
  await connection.call('setEnv', [
    withoutUndefined({ simd, numThreads, wasmPaths: paths, wasmBinary, toolsBinary }),
  ]);
  return new RequantWorker(connection);
}

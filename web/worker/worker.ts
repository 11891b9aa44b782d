/// <reference lib="esnext.disposable" preserve="true" />

// createWorker(), and the calls of a worker.

import type { CompareOptions, CompareSample } from '../analyze/compare.js';
import type { CompareReport } from '../analyze/compare_report.js';
import { checkIterable, lengthOf, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { withoutUndefined } from '../base/options.js';
import type { SearchReport } from '../base/search_report.js';
import type { Source } from '../base/source.js';
import type { EngineInfo } from '../engine/engine_info.js';
import { env } from '../engine/env.js';
import { disposedOf, makeDisposable, whenForgotten } from '../engine/heap.js';
import { prefetchMain } from '../engine/load_core.js';
import type { GenerateCOptions, GeneratedC } from '../export/generate.js';
import type { LoadOptions } from '../model/load_options.js';
import type { FloatOperator, WeightLayer } from '../model/model.js';
import type { QuantizationRecord } from '../quantize/record.js';
import type { DynamicOptions, WeightsOptions } from '../quantize/weights.js';
import type { QuantizeOptions } from '../search/search_options.js';
import type { ValueMetadata } from '../session/plan.js';
import type { SessionOptions } from '../session/session_options.js';
import { epochsOf } from '../train/epochs.js';
import type { TrainOptions } from '../train/train_options.js';
import type { TuneOptions, TuneResult } from '../tune/tune.js';
import { PageFunctions, keptOf, packSample } from './page_functions.js';
import { WorkerModel, WorkerQuantizedModel, WorkerSession } from './remote.js';
import { Remote } from './remote_object.js';
import {
  checkExtras,
  moduleFor,
  sendable,
  sendableSettings,
  splitLoadOptions,
} from './sendable.js';
import { type CallExtras, Connection } from './worker_connection.js';
import { packFeeds } from './worker_protocol.js';

function ending(connection: Connection): () => void {
  return () => void connection.terminate().catch(() => {});
}

/** A quantized model in the worker. */
interface QuantizedParts {
  ref: number;
  config: QuantizationRecord;
  search?: SearchReport;
}

interface FloatParts {
  ref: number;
  floatOperators: readonly FloatOperator[];
  warnings: readonly string[];
  weightLayers: readonly WeightLayer[];
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
    const { quantize, ...others } = options;
    const { plain, extras } = await splitLoadOptions(others);
    // Samples are sent one at a time, the rest with the options.
    const calibrated = typeof quantize === 'object' ? quantize : undefined;
    const { calibration, ...rest } = calibrated ?? {};
    if (calibrated) checkIterable(calibration, 'options.quantize.calibration');
    const how = calibrated ? rest : quantize;
    const samples = calibrated && withoutUndefined({ length: lengthOf(calibration!) });
    const used = source instanceof Remote ? [source] : [];
    const from =
      source instanceof Remote
        ? { ref: this.#own(source) }
        : await sendable(source, options.signal);
    const { ref, inputMetadata, outputMetadata } = await this.#call<{
      ref: number;
      inputMetadata: readonly ValueMetadata[];
      outputMetadata: readonly ValueMetadata[];
    }>(
      'createSession',
      [
        from,
        withoutUndefined({ ...plain, quantize: how }),
        options.onProgress !== undefined,
        samples,
      ],
      calibration ? { ...extras, source: calibration, pack: packFeeds } : extras,
      used,
    );
    const { taps = [] } = options;
    return new WorkerSession(this, ref, inputMetadata, outputMetadata, taps);
  }

  /**
   * As the function {@link quantize}; the calibration samples are sent one at a time, those of `validation` once
   * and together. The worker does not wait for `onCheckpoint`. Functions of metrics are called on this thread.
   */
  async quantize(model: WorkerModel, options: QuantizeOptions): Promise<WorkerQuantizedModel> {
    checkExtras(options);
    const { calibration, onProgress, signal, ...rest } = options;
    checkIterable(calibration, 'options.calibration');
    throwIfAborted(signal);
    const functions = new PageFunctions();
    const { plain, kept, progress } = await keptOf(rest, functions, onProgress);
    const { floor, ...others } = plain;
    const given = floor?.metric
      ? { floor: { ...floor, metric: functions.plain(floor.metric) } }
      : { floor };
    const { ref, config, search } = await this.#call<QuantizedParts>(
      'quantize',
      [this.#own(model), withoutUndefined({ ...others, ...given }), lengthOf(calibration), kept],
      {
        signal,
        onProgress: progress,
        source: calibration,
        pack: packFeeds,
        answer: (name, args) => functions.answer(name, args),
      },
      [model],
    );
    return new WorkerQuantizedModel(this, ref, config, search);
  }

  /** As the function {@link quantizeWeights}; calibration samples are sent one at a time. */
  async quantizeWeights(model: WorkerModel, options: WeightsOptions = {}): Promise<WorkerModel> {
    const { calibration, onProgress, signal, ...rest } = options;
    if (calibration === undefined) return this.#weightsOf('quantizeWeights', model, [rest]);
    checkIterable(calibration, 'options.calibration');
    throwIfAborted(signal);
    const samples = withoutUndefined({ length: lengthOf(calibration) });
    const extras = { signal, onProgress, source: calibration, pack: packFeeds };
    return this.#weightsOf('quantizeWeights', model, [rest, samples], extras);
  }

  /** As the function {@link quantizeDynamic}. */
  quantizeDynamic(model: WorkerModel, options: DynamicOptions = {}): Promise<WorkerModel> {
    return this.#weightsOf('quantizeDynamic', model, [options]);
  }

  /** As the function {@link generateC}; patterns with functions cannot be sent. */
  generateC(
    model: WorkerModel | WorkerQuantizedModel,
    options: GenerateCOptions = {},
  ): Promise<GeneratedC> {
    return this.#call('generateC', [this.#own(model), options], {}, [model]);
  }

  /** As the function {@link compare}; the samples are sent one at a time. */
  async compare(
    model: WorkerModel,
    candidate: WorkerModel | WorkerQuantizedModel,
    options: CompareOptions,
  ): Promise<CompareReport> {
    checkExtras(options);
    const { dataset, onProgress, signal, metric, ...rest } = options;
    checkIterable(dataset, 'options.dataset');
    throwIfAborted(signal);
    const functions = new PageFunctions();
    const plain = withoutUndefined({ ...rest, metric: functions.plain(metric) });
    return this.#call(
      'compare',
      [this.#own(model), this.#own(candidate), plain, lengthOf(dataset)],
      {
        signal,
        onProgress,
        source: dataset,
        pack: (sample: CompareSample) => {
          functions.note(sample, 2); // the worker measures a sample before it asks for the next one
          return packSample(sample);
        },
        answer: (name, args) => functions.answer(name, args),
      },
      [model, candidate],
    );
  }

  /**
   * As the function {@link train}; the samples of every epoch are sent one at a time, those of `validation` once
   * and together. Training does not wait for `onCheckpoint`.
   */
  train(model: WorkerQuantizedModel, options: TrainOptions): Promise<WorkerQuantizedModel>;
  /** As {@link train} with a float model. */
  train(model: WorkerModel, options: TrainOptions): Promise<WorkerModel>;
  async train(
    model: WorkerQuantizedModel | WorkerModel,
    options: TrainOptions,
  ): Promise<WorkerQuantizedModel | WorkerModel> {
    checkExtras(options);
    const { dataset, onProgress, signal, ...rest } = options;
    checkIterable(dataset, 'options.dataset');
    if (typeof rest.schedule === 'function') {
      throw invalidArgument(
        'a function cannot be sent to a worker',
        'options.schedule',
        "Use 'cosine' or 'constant'.",
      );
    }
    throwIfAborted(signal);
    const functions = new PageFunctions();
    const { plain, kept, progress } = await keptOf(rest, functions, onProgress);
    const made = await this.#call<QuantizedParts | FloatParts>(
      'train',
      [this.#own(model), plain, lengthOf(dataset), kept],
      {
        signal,
        onProgress: progress,
        source: epochsOf(dataset),
        pack: (sample: CompareSample | null) => sample && packSample(sample),
        answer: (name, args) => functions.answer(name, args),
      },
      [model],
    );
    return 'config' in made
      ? new WorkerQuantizedModel(this, made.ref, made.config)
      : this.#modelOf(made);
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

  async #weightsOf(method: string, model: WorkerModel, args: unknown[] = [], extras = {}) {
    const made = await this.#call<FloatParts>(method, [this.#own(model), ...args], extras, [model]);
    return this.#modelOf(made);
  }

  #modelOf({ ref, floatOperators, warnings, weightLayers }: FloatParts): WorkerModel {
    return new WorkerModel(this, ref, floatOperators, warnings, weightLayers);
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
 * loading, quantizing and running leave the calling thread free. It gets the present settings of `env.wasm`, `env.logLevel` and `env.debug`.
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
    const { logLevel, debug } = env;
    await connection.call('setEnv', [await sendableSettings(settings), { logLevel, debug }]);
  } catch (error) {
    await connection.terminate();
    throw error;
  }
  return new RequantWorker(connection);
}

/// <reference lib="esnext.disposable" preserve="true" />

// Models and sessions that live in a worker.

import { saveBytes } from '../base/save.js';
import type { SearchReport } from '../base/search_report.js';
import type { Tensor } from '../base/tensor.js';
import type { Feeds } from '../engine/tensors.js';
import type { NodeDetails } from '../export/node_details.js';
import type {
  FloatOperator,
  OptimizeOptions,
  OptimizeReport,
  PlanOptions,
  WeightLayer,
} from '../model/model.js';
import type { ModelInfo } from '../model/model_info.js';
import { type OnnxFiles, type SaveOptions, dataFileOf } from '../model/onnx_files.js';
import type { TfliteFile, TfliteOptions } from '../model/tflite.js';
import type { ExportOptions } from '../quantize/quantized_model.js';
import type { QuantizationRecord } from '../quantize/record.js';
import {
  type Fetches,
  type RunOptions,
  type Targets,
  fillTargets,
  runArguments,
} from '../session/fetches.js';
import type { Plan, StepProfile, ValueMetadata } from '../session/plan.js';
import type { StateOptions } from '../session/state.js';
import type { StatePair } from '../session/state_pairs.js';
import { type Owner, Remote } from './remote_object.js';
import { WorkerState } from './remote_state.js';
import { tensorsOf } from './remote_tensor.js';
import { type PackedFeeds, packFeeds, unpackFeeds } from './worker_protocol.js';

/** A {@link Model} in a worker, with the same members as asynchronous methods. */
export class WorkerModel extends Remote {
  /** As {@link Model.floatOperators}. */
  readonly floatOperators: readonly FloatOperator[];
  /** As {@link Model.warnings}. */
  readonly warnings: readonly string[];
  /** As {@link Model.weightLayers}. */
  readonly weightLayers: readonly WeightLayer[];

  /** @internal */
  constructor(
    worker: Owner,
    ref: number,
    floatOperators: readonly FloatOperator[] = [],
    warnings: readonly string[] = [],
    weightLayers: readonly WeightLayer[] = [],
  ) {
    super(worker, ref);
    this.floatOperators = floatOperators;
    this.warnings = warnings;
    this.weightLayers = weightLayers;
  }

  /** As the function {@link nodeDetails}. */
  nodeDetails(): Promise<readonly NodeDetails[]> {
    return this.call('nodeDetails');
  }

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

  /** As {@link Model.toOnnxFiles}. */
  toOnnxFiles(dataName: string): Promise<OnnxFiles> {
    return this.call('toOnnxFiles', [dataName]);
  }

  /** As {@link Model.toTflite}. */
  toTflite(options: TfliteOptions = {}): Promise<TfliteFile> {
    return this.call('toTflite', [options]);
  }

  /** As {@link Model.save}; this thread writes the files. */
  async save(name: string, options: SaveOptions = {}): Promise<void> {
    const data = dataFileOf(name, options);
    if (!data) return saveBytes(name, await this.toOnnx());
    const { bytes, externalData } = await this.toOnnxFiles(data.name);
    await saveBytes(name, bytes);
    await saveBytes(data.path, externalData[data.name]!);
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
  /** As {@link QuantizedModel.search}. */
  readonly search?: SearchReport;

  /** @internal */
  constructor(worker: Owner, ref: number, config: QuantizationRecord, search?: SearchReport) {
    super(worker, ref);
    this.config = config;
    if (search) this.search = search;
  }

  /** As {@link QuantizedModel.requantize}; the new model is in the worker. */
  async requantize(record: QuantizationRecord = this.config): Promise<WorkerQuantizedModel> {
    const { ref, config } = await this.call<{ ref: number; config: QuantizationRecord }>(
      'requantize',
      [record],
    );
    return new WorkerQuantizedModel(this.worker, ref, config);
  }

  /** As {@link QuantizedModel.toOnnx}. */
  toOnnx(options: ExportOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('toOnnx', [options]);
  }

  /** As {@link QuantizedModel.toTflite}. */
  toTflite(options: TfliteOptions = {}): Promise<TfliteFile> {
    return this.call('toTflite', [options]);
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
    worker: Owner,
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
    const { targets, options } = runArguments(second, third, this.#fetchable);
    return this.runTargets(feeds, targets, options.signal);
  }

  /** @internal Runs with arguments that are checked. */
  async runTargets(
    feeds: Feeds,
    targets: Targets | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, Tensor>> {
    const placed = tensorsOf(this.worker);
    const args = [packFeeds(feeds, placed), targets && [...targets.keys()]];
    const outputs = await this.call<PackedFeeds>('run', args, {
      signal,
      uses: Object.values(feeds),
    });
    return fillTargets(unpackFeeds(outputs, placed), targets);
  }

  /** As {@link InferenceSession.state}; what is remembered stays in the worker. */
  async state(
    pairs: 'auto' | Readonly<Record<string, string>> | readonly StatePair[] = 'auto',
    options: StateOptions = {},
  ): Promise<WorkerState> {
    const { ref, presents } = await this.call<{ ref: number; presents: string[] }>('state', [
      pairs,
      options,
    ]);
    const outputs = this.#fetchable.filter((name) => !presents.includes(name));
    return new WorkerState(this.worker, ref, outputs);
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

/// <reference lib="esnext.disposable" preserve="true" />

import type { Analysis } from '../analyze/analysis.js';
import { Breather, checkIterable, items, lengthOf, throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkOneOf, checkOptions } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import type { TensorType } from '../base/tensor.js';
import type { Core, CoreCalibrator, CoreModel, CoreQuantized, Failure } from '../core.js';
import { type Feeds, Handle, call, makeDisposable, takeBlob, withFeeds } from '../engine/heap.js';
import { Model, type RequantizeMode, arrived, loadToolsFor } from '../model/model.js';
import { createCalibrator, finishCalibrator } from './calibrator.js';
import {
  type OperatorConfig,
  type QuantizeConfig,
  type TensorConfig,
  checkMaxSamples,
} from './config.js';

/** Calibration samples: feeds for one run of the float model each. */
export type Samples = Iterable<Feeds> | AsyncIterable<Feeds>;

/** How far the quantization is. */
export interface QuantizeProgress {
  /** Samples are shown to the float model, then the result is made (accuracy recovery included). */
  phase: 'calibrate' | 'finish';
  /** Of 'finish': the recovery method at work, or 'round'. */
  method?: string;
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
}

/** Options of {@link quantize}. */
export interface QuantizeOptions {
  /**
   * Typical inputs. The iterable is consumed once; when a second pass over the samples is needed
   * (for histograms), they are kept in memory until then. With a `length` (as arrays have), progress
   * has a total.
   */
  calibration: Samples;
  /** Use at most so many samples. Default all. */
  maxSamples?: number;
  onProgress?: (progress: QuantizeProgress) => void;
  signal?: AbortSignal;
  config?: QuantizeConfig;
  /** Also find out what every operator costs: `quantized.config.analysis`. Default false. */
  analyze?: boolean;
}

/** How one input or output slot of an operator was quantized. */
export interface TensorRecord {
  /** Name of the float value. */
  value: string;
  /** Such as "ACTIVATED", "BAKED", "OVERLAPPED", "FP32"; what follows is missing for float ones. */
  state: string;
  /** Such as "PER_CHANNEL|LINEAR|SYMMETRICAL". */
  policy?: string;
  /** Such as "HALF_EVEN". */
  rounding?: string;
  bits?: number;
  quantMin?: number;
  quantMax?: number;
  /** Of a small float. */
  format?: 'e4m3' | 'e5m2';
  /** Of the stored integers. */
  dtype?: TensorType;
  /** Of the channels, with a scale for each. */
  axis?: number;
  scale?: number[];
  /** 0 where there is a scale for each channel. */
  offset?: number[] | number;
  /** How the range was found; missing for constants. */
  observer?: string;
  /** Of the observer 'auto': how it was chosen. */
  detail?: string;
  range?: [number | null, number | null];
  /** The slot that decided for this one. */
  dominator?: { node: string; slot: string };
}

/** How one operator was quantized. */
export interface OperatorRecord {
  name: string;
  type: string;
  quantized: boolean;
  /** Its grid has no integer operator: computed in float on that grid. */
  simulated?: boolean;
  /** A layer that writes its accumulators as floats. */
  floatOutput?: boolean;
  /** Why it stays float. */
  reason?: string;
  /** It is in a body of If, Loop or Scan: the name says in which ("if/then_branch/product"). */
  inBody?: boolean;
  /** The activation that it computes as well. */
  activation?: string;
  /** The operator that computes it. */
  computedBy?: string;
  inputs: (TensorRecord | null)[];
  outputs: (TensorRecord | null)[];
}

/**
 * What a recovery method gained. Of methods that learn: signal to noise of the outputs against the float
 * network on the kept samples, in dB; of others that of what `detail` names, averaged over the layers.
 */
export interface RecoveryRecord {
  method: string;
  /** null: not measured. */
  beforeDb: number | null;
  afterDb: number | null;
  detail: string;
}

/** Everything the quantizer decided. */
export interface QuantizationRecord {
  operators: OperatorRecord[];
  recovery: RecoveryRecord[];
  warnings: string[];
  /** With `analyze: true`. */
  analysis?: Analysis;
}

function checkRecord(record: unknown): void {
  const operators = (record as Partial<QuantizationRecord> | null | undefined)?.operators;
  const whole = (operator: Partial<OperatorRecord> | null) =>
    typeof operator?.name === 'string' &&
    Array.isArray(operator.inputs) &&
    Array.isArray(operator.outputs);
  if (Array.isArray(operators) && operators.every(whole)) return;
  throw invalidArgument(
    `${show(record)} is no record of a quantization`,
    'record',
    'Give config of a quantized model.',
  );
}

/**
 * The scales of a record by value name, as {@link QuantizeConfig.scales} takes them.
 *
 * @throws RequantError INVALID_ARGUMENT for what is no record.
 */
export function scalesOf(
  record: QuantizationRecord,
): Record<string, { scale: number[]; offset: number[] }> {
  checkRecord(record);
  const scales: Record<string, { scale: number[]; offset: number[] }> = {};
  for (const { inputs, outputs } of record.operators) {
    for (const slot of [...inputs, ...outputs]) {
      if (!slot?.scale || slot.state.startsWith('PASSIVE')) continue;
      const offset = typeof slot.offset === 'number' ? slot.scale.map(() => 0) : slot.offset;
      scales[slot.value] ??= { scale: slot.scale, offset: offset ?? [] };
    }
  }
  return scales;
}

function settingsOf(slot: TensorRecord | null | undefined): TensorConfig | undefined {
  if (!slot?.bits || !slot.policy || slot.quantMin === undefined || slot.quantMax === undefined) {
    return undefined;
  }
  const symmetric = /\bSYMMETRICAL\b/.test(slot.policy);
  return {
    bits: slot.bits,
    symmetric,
    powerOf2: slot.policy.includes('POWER_OF_2'),
    rounding: slot.rounding as NonNullable<TensorConfig['rounding']>,
    ...(slot.format ? { format: slot.format } : {}),
    ...(slot.axis === undefined || slot.state === 'BAKED'
      ? {}
      : { perChannel: true, axis: slot.axis }),
    ...(symmetric ? { fullRange: slot.quantMin < -slot.quantMax } : { signed: slot.quantMin < 0 }),
  };
}

/**
 * A config that makes the decisions of a record again, without calibrating: bits, policies and scales
 * of every operator. What recovery changed in weights and biases is not in a record: the config has
 * `recover: []`, and results differ by what recovery did.
 *
 * @throws RequantError INVALID_ARGUMENT for what is no record.
 */
export function configOf(record: QuantizationRecord): QuantizeConfig {
  checkRecord(record);
  const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const operators: Record<string, OperatorConfig | null> = {};
  for (const { name, quantized, inBody, floatOutput, inputs, outputs } of record.operators) {
    if (inBody && quantized) {
      operators[escape(name)] = {}; // the node that holds the body is null
      continue;
    }
    if (!quantized) {
      operators[escape(name)] = null;
      continue;
    }
    const weights = inputs.find((slot) => slot?.state === 'BAKED');
    const moving = (slot: TensorRecord | null) => slot?.range !== undefined && slot !== weights;
    const activations = settingsOf(outputs.find(moving) ?? inputs.find(moving));
    const own = settingsOf(weights);
    operators[escape(name)] = {
      ...(activations ? { activations } : {}),
      ...(own?.symmetric
        ? { weights: { ...own, perChannel: weights!.policy!.includes('PER_CHANNEL') } }
        : {}),
      ...(floatOutput ? { floatOutput } : {}),
    };
  }
  return { operators, scales: scalesOf(record), recover: [], floatOutputs: false };
}

/**
 * `'qdq'`: float operators between QuantizeLinear and DequantizeLinear; `'qoperator'`: integer operators;
 * `'qonnx'`: float operators behind Quant nodes of QONNX, which say 2 to 8 bits as they are.
 */
export type OnnxFormat = 'qdq' | 'qoperator' | 'qonnx';

/** Options of {@link QuantizedModel.toOnnx}. */
export interface ExportOptions {
  /** Default 'qdq'. */
  format?: OnnxFormat;
  /** Of 'qdq': what has 4 bits is written as int4 and uint4, which needs opset 21. Default false. */
  int4?: boolean;
  /** The same, and what has 2 bits as int2 and uint2, which needs opset 25. Default false. */
  int2?: boolean;
}

/** A model quantized by {@link quantize}; `dispose()` gives its memory back. */
export class QuantizedModel {
  /** @internal */
  readonly handle: Handle<CoreQuantized>;
  #integer: Model | undefined;
  #config: QuantizationRecord | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(core: Core, object: CoreQuantized) {
    this.handle = new Handle(core, object, 'quantized model');
  }

  /** How every operator slot was quantized. */
  get config(): QuantizationRecord {
    this.#config ??= this.handle.json<QuantizationRecord>((quantized) => quantized.record());
    return this.#config;
  }

  /** The integer graph that sessions run; disposed of together with this object. */
  get integerModel(): Model {
    // After dispose() this throws DISPOSED.
    const { object } = this.handle;
    this.#integer ??= this.#model(() => object.integer(), 'fixed');
    return this.#integer;
  }

  /** The optimized float graph it was made from; the caller disposes of it. */
  floatModel(): Model {
    return this.#model((quantized) => quantized.floatModel(), 'float');
  }

  #model(
    method: (quantized: CoreQuantized) => CoreModel | Failure,
    requantize: RequantizeMode,
  ): Model {
    return new Model(this.handle.core, this.handle.call(method), requantize);
  }

  /**
   * The bytes of an ONNX file for other engines. Default format: 'qdq'.
   *
   * @throws RequantError UNSUPPORTED for what the format cannot say, simulated operators among it;
   * INVALID_ARGUMENT for an unknown option or format.
   */
  toOnnx(options: ExportOptions = {}): Uint8Array<ArrayBuffer> {
    checkOptions(options, { format: 'string', int4: 'boolean', int2: 'boolean' }, 'options');
    const { format = 'qdq', int4 = false, int2 = false } = options;
    const narrowest = int2 ? 2 : int4 ? 4 : 8;
    checkOneOf(format, ['qdq', 'qoperator', 'qonnx'], 'options.format');
    if (format !== 'qdq' && narrowest < 8) {
      const key = int2 ? 'int2' : 'int4';
      throw invalidArgument(`${key} is of the format 'qdq', not '${format}'`, `options.${key}`);
    }
    const { core } = this.handle;
    const model = this.handle.call((quantized) =>
      format === 'qdq'
        ? quantized.qdq(narrowest)
        : format === 'qonnx'
          ? quantized.qonnx()
          : quantized.qoperator(),
    );
    try {
      return takeBlob(
        core,
        call(core, () => model.onnx()),
      );
    } finally {
      model.delete();
    }
  }

  /**
   * Writes the ONNX file: to a path in Node, as a download of that name in a page.
   *
   * @throws RequantError as {@link toOnnx}; SAVE_FAILED, and UNSUPPORTED in a Worker of a page.
   */
  save(name: string, options: ExportOptions = {}): Promise<void> {
    return saveBytes(name, this.toOnnx(options));
  }

  /** Gives the memory back; sessions made from it go on working. */
  dispose(): void {
    this.#integer?.dispose();
    this.handle.dispose();
  }
}

makeDisposable(QuantizedModel, function (this: QuantizedModel) {
  this.dispose();
});

function add(calibrator: Handle<CoreCalibrator>, pass: number, feeds: Feeds, index: number): void {
  try {
    withFeeds(calibrator.core, feeds, (coreFeeds) =>
      calibrator.call((object) => object.add(pass, ...coreFeeds)),
    );
  } catch (error) {
    if (!(error instanceof RequantError)) throw error;
    const { code, node, value, hint, message } = error;
    throw new RequantError(code, `calibration sample ${index}: ${message}`, {
      cause: error,
      ...(node ? { node } : {}),
      ...(value ? { value } : {}),
      ...(hint ? { hint } : {}),
    });
  }
}

/**
 * Quantizes a float model after training: shows it the calibration samples, chooses scales, and
 * recovers accuracy. The model itself stays as it is. Works on the calling thread in slices of about
 * 30 ms, so that events, progress and `signal` get their turn; {@link createWorker} moves it to
 * another thread. The same model, samples and options make the same file in every browser.
 *
 * @param given The model, or a promise of one, during which the engine's tools are fetched:
 * `quantize(loadModel(url), options)`.
 * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value in the config, for empty
 * calibration data and for NaN or infinity in it; ABORTED.
 * @example
 * const quantized = await quantize(model, { calibration: samples });
 * await quantized.save('model.int8.onnx', { format: 'qdq' });
 */
export async function quantize(
  given: Model | PromiseLike<Model>,
  options: QuantizeOptions,
): Promise<QuantizedModel> {
  const model = await arrived(given);
  if (!(model instanceof Model)) {
    throw invalidArgument(
      `quantize needs a Model, not ${show(model)}`,
      'model',
      'Use loadModel().',
    );
  }
  checkOptions(
    options,
    {
      calibration: 'any',
      maxSamples: 'number',
      onProgress: 'function',
      signal: 'signal',
      config: 'object',
      analyze: 'boolean',
    },
    'options',
  );
  const { calibration, maxSamples, onProgress, signal } = options;
  checkIterable(calibration, 'options.calibration');
  checkMaxSamples(maxSamples);
  throwIfAborted(signal);

  await loadToolsFor(model);
  const calibrator = createCalibrator(model, options);
  try {
    const passes = calibrator.call((object) => object.passes());
    const given = options.config?.scales !== undefined;
    const breather = new Breather(signal);
    const kept: Feeds[] = [];
    const limit = maxSamples ?? Infinity;
    let count = 0;
    const known = lengthOf(calibration);
    const length = known === undefined ? undefined : Math.min(known, limit);
    const report = (done: number, samples: number | undefined) =>
      onProgress?.({
        phase: 'calibrate',
        done,
        ...(samples === undefined ? {} : { total: samples * passes }),
      });

    report(0, length);
    for await (const feeds of items(calibration, signal)) {
      add(calibrator, 0, feeds, count);
      count += 1;
      if (passes > 1) kept.push(feeds);
      report(count, length);
      await breather.breathe();
      if (count >= limit) break;
    }
    // With scales from elsewhere there may be nothing to calibrate; the core knows.
    if (count === 0 && !given) {
      throw invalidArgument(
        'there are no calibration samples',
        'options.calibration',
        'Give at least one; 64 to 256 typical inputs are a good number.',
      );
    }
    for (let pass = 1; pass < passes; pass++) {
      for (const [index, feeds] of kept.entries()) {
        add(calibrator, pass, feeds, index);
        report(pass * count + index + 1, count);
        await breather.breathe();
      }
    }

    const { core } = calibrator;
    return new QuantizedModel(core, await finishCalibrator(calibrator, breather, onProgress));
  } finally {
    calibrator.dispose();
  }
}

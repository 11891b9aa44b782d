// The quantizer's decisions and measurements as JSON, and configs that repeat the decisions.

import { invalidArgument, show } from '../base/errors.js';
import type { TensorType } from '../base/tensor.js';
import type { MetricUnit } from '../metrics/unit.js';
import type { OperatorConfig, QuantizeConfig } from './config.js';
import type { SlotConfig, TensorConfig } from './tensor_options.js';

/**
 * How one input or output slot of an operator was quantized. {@link QuantizedModel.requantize} takes changes of
 * `scale`, `offset`, `quantMin`, `quantMax`, `bits`, `rounding`, `policy`, `range` and `state`.
 */
export interface TensorRecord {
  /** Name of the float value. */
  value: string;
  /** Such as "ACTIVATED", "BAKED", "OVERLAPPED", "FP32"; a float slot lacks the members below. */
  state: string;
  /** Such as "PER_CHANNEL|LINEAR|SYMMETRICAL". */
  policy?: string;
  /** Such as "HALF_EVEN". */
  rounding?: string;
  bits?: number;
  quantMin?: number;
  quantMax?: number;
  /** The format of a small float. */
  format?: 'e4m3' | 'e5m2';
  /** Type of the stored integers. */
  dtype?: TensorType;
  /** Axis of the channels, each of which has a scale. */
  axis?: number;
  scale?: number[];
  /** 0 where every channel has a scale. */
  offset?: number[] | number;
  /** Another name of `offset`, for changes alone. */
  zeroPoint?: number[] | number;
  /** Of codes -1 and 1: 1 where numbers from `scale` on are 1, missing where those from 0 on are. */
  threshold?: number;
  /** How the range was found; missing for constants. */
  observer?: string;
  /** For the observer 'auto': how it was chosen. */
  detail?: string;
  range?: [number | null, number | null];
  /** The slot whose quantization this one shares. */
  dominator?: { node: string; slot: string };
}

/** How one operator was quantized. */
export interface OperatorRecord {
  name: string;
  type: string;
  quantized: boolean;
  /** Whether it is computed in float on its grid, which no integer operator has. */
  simulated?: boolean;
  /** Whether it is a layer that writes its accumulators as floats. */
  floatOutput?: boolean;
  /** The reason why it stays float. */
  reason?: string;
  /** Whether it is in a body of If, Loop or Scan, which the name tells ("if/then_branch/product"). */
  inBody?: boolean;
  /** The activation that it computes as well. */
  activation?: string;
  /** The operator that computes it. */
  computedBy?: string;
  inputs: (TensorRecord | null)[];
  outputs: (TensorRecord | null)[];
}

/**
 * The gain of a recovery method, as a signal to noise ratio in dB: for methods that learn, of the outputs
 * against the float network on the kept samples; for others, of what `detail` names, averaged over the
 * layers.
 */
export interface RecoveryRecord {
  method: string;
  /** null: not measured. */
  beforeDb: number | null;
  afterDb: number | null;
  detail: string;
}

/** All decisions of the quantizer. */
export interface QuantizationRecord {
  operators: OperatorRecord[];
  recovery: RecoveryRecord[];
  warnings: string[];
  /** Present with `analyze: true`. */
  analysis?: Analysis;
}

/** @internal Throws INVALID_ARGUMENT for a value that is no record. */
export function checkRecord(record: unknown): void {
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
 * @throws RequantError INVALID_ARGUMENT for a value that is no record.
 */
export function scalesOf(
  record: QuantizationRecord,
): Record<string, { scale: number[]; offset: number[] }> {
  checkRecord(record);
  const scales: Record<string, { scale: number[]; offset: number[] }> = {};
  for (const { inputs, outputs } of record.operators) {
    for (const slot of [...inputs, ...outputs]) {
      if (!slot?.scale || slot.state.startsWith('PASSIVE')) continue;
      const zeros = slot.scale.map(() => 0);
      const offset = typeof slot.offset === 'number' ? zeros : (slot.offset ?? []);
      // Signs have no zero point, and a threshold instead.
      scales[slot.value] ??= {
        scale: slot.scale,
        offset: slot.threshold === undefined ? offset : [slot.threshold],
      };
    }
  }
  return scales;
}

/** The codes that bits, symmetric, fullRange and signed say. */
function codesOf({ bits, symmetric, fullRange, signed }: TensorConfig): [number, number] {
  const half = 2 ** (bits! - 1);
  if (bits === 1 && symmetric) return [-1, 1];
  if (symmetric) return [fullRange ? -half : 1 - half, half - 1];
  return signed || bits === 32 ? [-half, half - 1] : [0, 2 * half - 1];
}

function settingsOf(slot: TensorRecord | null | undefined): TensorConfig | undefined {
  if (!slot?.bits || !slot.policy || slot.quantMin === undefined || slot.quantMax === undefined) {
    return undefined;
  }
  const { bits, policy, quantMin, quantMax, dtype } = slot;
  const symmetric = /\bSYMMETRICAL\b/.test(policy);
  const settings: TensorConfig = {
    bits,
    symmetric,
    powerOf2: policy.includes('POWER_OF_2'),
    rounding: slot.rounding as NonNullable<TensorConfig['rounding']>,
    ...(slot.format ? { format: slot.format } : {}),
    ...(slot.axis === undefined || slot.state === 'BAKED'
      ? {}
      : { perChannel: true, axis: slot.axis }),
    ...(symmetric
      ? { fullRange: bits > 1 && quantMin === -(2 ** (bits - 1)) }
      : { signed: dtype === 'int8' || dtype === 'int16' || quantMin < 0 }),
  };
  if (slot.format) return settings;
  const [low, high] = codesOf(settings);
  if (quantMin !== low) settings.quantMin = quantMin;
  if (quantMax !== high) settings.quantMax = quantMax;
  return settings;
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** The grids of values that slots read or write on different ones. */
function valuesOfManyGrids(record: QuantizationRecord): Set<string> {
  const grids = new Map<string, string>();
  const many = new Set<string>();
  for (const { inputs, outputs } of record.operators) {
    for (const slot of [...inputs, ...outputs]) {
      if (!slot?.scale || slot.state.startsWith('PASSIVE')) continue;
      const grid = JSON.stringify([slot.scale, slot.offset, slot.threshold]);
      if ((grids.get(slot.value) ?? grid) !== grid) many.add(slot.value);
      grids.set(slot.value, grid);
    }
  }
  return many;
}

/** What a slot must say so that it does not take it from the settings of its operator. */
function withoutInherited(
  { quantMin, quantMax }: TensorRecord,
  settings: TensorConfig,
  base: TensorConfig = {},
): TensorConfig {
  return {
    ...(base.quantMin === undefined || settings.format ? {} : { quantMin }),
    ...(base.quantMax === undefined || settings.format ? {} : { quantMax }),
    ...(base.perChannel && !settings.perChannel ? { perChannel: false } : {}),
    ...(base.format && !settings.format ? { format: 'int' as const } : {}),
  };
}

/** What slots have that the settings of their operator do not say. */
function slotsOf(
  slots: readonly (TensorRecord | null)[],
  weights: TensorRecord | null | undefined,
  base: TensorConfig | undefined,
  many: ReadonlySet<string>,
): Record<number, SlotConfig> {
  const own: Record<number, SlotConfig> = {};
  slots.forEach((slot, index) => {
    if (!slot?.scale || slot === weights || slot.state.startsWith('PASSIVE')) return;
    const settings = settingsOf(slot);
    const config: SlotConfig =
      settings && !same(settings, base)
        ? { ...settings, ...withoutInherited(slot, settings, base) }
        : {};
    // The scales of constant operands follow from their numbers otherwise.
    if (many.has(slot.value) || slot.state === 'BAKED') {
      const { scale, offset = 0, threshold } = slot;
      const zeroPoint = threshold ?? offset;
      config.scale = scale;
      config.zeroPoint = typeof zeroPoint === 'number' ? scale.map(() => zeroPoint) : zeroPoint;
    }
    if (Object.keys(config).length > 0) own[index] = config;
  });
  return own;
}

/**
 * A config that repeats the decisions of a record without calibration: bits, policies, codes and scales of every
 * operator, and of single slots where they differ. A record does not have the changes that recovery made to
 * weights and biases. The config therefore has `recover: []`, and its results differ by what recovery did.
 *
 * @throws RequantError INVALID_ARGUMENT for a value that is no record.
 */
export function configOf(record: QuantizationRecord): QuantizeConfig {
  checkRecord(record);
  const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const operators: Record<string, OperatorConfig | null> = {};
  const many = valuesOfManyGrids(record);
  for (const operator of record.operators) {
    const { name, quantized, inBody, floatOutput, inputs, outputs } = operator;
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
    // What one operator computes together with another has the grid of the last of them.
    const inside = operator.activation !== undefined;
    const [read, written] = [
      slotsOf(inputs, weights, activations, many),
      inside ? {} : slotsOf(outputs, weights, activations, many),
    ];
    operators[escape(name)] = {
      ...(activations ? { activations } : {}),
      ...(own ? { weights: { ...own, perChannel: weights!.policy!.includes('PER_CHANNEL') } } : {}),
      ...(Object.keys(read).length > 0 ? { inputs: read } : {}),
      ...(Object.keys(written).length > 0 ? { outputs: written } : {}),
      ...(floatOutput ? { floatOutput } : {}),
    };
  }
  const scales = scalesOf(record);
  for (const value of many) delete scales[value];
  return { operators, scales, recover: [], floatOutputs: false };
}

/** The costs of one operator. Ratios in dB are null where there is no error. */
export interface OperatorAnalysis {
  name: string;
  type: string;
  /** Names of the value that it reads first and of the value that it writes. */
  input: string;
  value: string;
  /** Signal to noise ratio with exact inputs. */
  aloneSnr: number | null;
  /** Signal to noise ratio with everything quantized. */
  snr: number | null;
  /** For a layer: the number of weights. */
  weights?: number;
  /**
   * Largest magnitude of the output channels divided by their median, and how many channels are near the
   * largest.
   */
  weightSpread?: number;
  weightOutliers?: number;
  /** Relative noise of the network's outputs when only this layer is quantized, by bits of its weights. */
  noise?: Record<string, number>;
  /**
   * With the option `metric`: its value when only this operator is quantized, and for a layer by the bits of its
   * weights.
   */
  metric?: { alone: number; weights?: Record<string, number> };
}

/** The distribution of one value. */
export interface ValueAnalysis {
  name: string;
  min: number;
  max: number;
  /** The calibrated range. */
  range: [number, number];
  bits: number;
  scale: number;
  /** Shares of the elements that lie outside the grid, and that become 0. */
  clipped: number;
  zeros: number;
  channels: number;
  channelSpread: number;
  channelOutliers: number;
  histogram: { from: number; to: number; counts: number[] };
}

/** The content of {@link QuantizationRecord.analysis}, made with `analyze: true`. */
export interface Analysis {
  /** The number of calibration samples on which errors were measured: the first ones, at most eight. */
  samples: number;
  /** Signal to noise ratio of the outputs in dB, everything quantized. */
  snr: number | null;
  operators: OperatorAnalysis[];
  values: ValueAnalysis[];
  /** With the option `metric`: its values on the validation samples. */
  metric?: {
    name: string;
    better: 'higher' | 'lower';
    unit: MetricUnit;
    samples: number;
    float: number;
    quantized: number;
  };
}

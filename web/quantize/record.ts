// What the quantizer decided and measured, as JSON, and configs that repeat its decisions.

import { invalidArgument, show } from '../base/errors.js';
import type { TensorType } from '../base/tensor.js';
import type { OperatorConfig, QuantizeConfig, TensorConfig } from './config.js';

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

/** What one operator costs. Ratios in dB are null where there is no error. */
export interface OperatorAnalysis {
  name: string;
  type: string;
  /** Names of the value that it reads first and of the value that it writes. */
  input: string;
  value: string;
  /** Signal to noise with exact inputs. */
  aloneSnr: number | null;
  /** Signal to noise with everything quantized. */
  snr: number | null;
  /** Of a layer: the number of weights. */
  weights?: number;
  /** Largest magnitude of the output channels over their median, and how many are near the largest. */
  weightSpread?: number;
  weightOutliers?: number;
  /** Relative noise of the network's outputs when only this layer is quantized, by bits of its weights. */
  noise?: Record<string, number>;
}

/** What one value looks like. */
export interface ValueAnalysis {
  name: string;
  min: number;
  max: number;
  /** As calibrated. */
  range: [number, number];
  bits: number;
  scale: number;
  /** Shares of the elements that do not fit the grid, and that become 0. */
  clipped: number;
  zeros: number;
  channels: number;
  channelSpread: number;
  channelOutliers: number;
  histogram: { from: number; to: number; counts: number[] };
}

/** {@link QuantizationRecord.analysis}, made with `analyze: true`. */
export interface Analysis {
  /** How many of the calibration samples errors were measured on: the first ones, at most eight. */
  samples: number;
  /** Signal to noise of the outputs in dB, everything quantized. */
  snr: number | null;
  operators: OperatorAnalysis[];
  values: ValueAnalysis[];
}

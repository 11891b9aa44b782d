// Changes single layers of a quantization. Only their integers are made again, with the ranges of the first calibration.

import type {
  QuantizationRecord,
  QuantizeConfig,
  TensorRecord,
  WorkerQuantizedModel,
} from 'requant';
import { type Recipe, escape } from '../choose/recipes.js';
import type { Width } from '../state/store.js';
import type { Base } from './engine.js';

type Widths = Readonly<Record<string, Width>>;

/** Methods that keep operators in float search for a long time; their decisions are in the record. */
const WITHOUT_SEARCH = ['round_weights', 'bias_correction'] as const;

function changedNames(before: Widths, after: Widths): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => before[name] !== after[name]);
}

/** The least and the greatest code of so many bits, on a grid like that of the slot. */
function codesOf({ policy = '', bits = 8, quantMin = 0 }: TensorRecord, width: number) {
  const half = 2 ** (width - 1);
  const symmetric = /\bSYMMETRICAL\b/.test(policy);
  if (!symmetric && quantMin >= 0) return [0, 2 * half - 1] as const;
  const whole = !symmetric || quantMin === -(2 ** (bits - 1));
  return [whole ? -half : 1 - half, half - 1] as const;
}

const weightsOf = ({ inputs }: QuantizationRecord['operators'][number]) =>
  inputs.slice(1).find((slot) => slot?.state === 'BAKED');

const recipeBits = ({ config }: Recipe): number => config?.weights?.bits ?? 8;

/** The record with other bits for layers; undefined where that needs more than their weights. */
function editedRecord(base: Base, recipe: Recipe, widths: Widths): QuantizationRecord | undefined {
  const record = structuredClone(base.model.config);
  for (const name of changedNames(base.widths, widths)) {
    const width = widths[name] ?? recipeBits(recipe);
    const operator = record.operators.find((one) => one.name === name);
    const slot = operator && weightsOf(operator);
    if (width === 32 || base.widths[name] === 32 || !operator?.quantized || !slot) return undefined;
    [slot.quantMin, slot.quantMax] = codesOf(slot, width);
    slot.bits = width;
    delete slot.scale;
    delete slot.offset;
  }
  return record;
}

/** The base with other bits for layers, or undefined where the engine cannot do that to a finished model. */
export async function withOtherBits(
  base: Base,
  recipe: Recipe,
  widths: Widths,
): Promise<WorkerQuantizedModel | undefined> {
  if (changedNames(base.widths, widths).length === 0) return base.model;
  const record = editedRecord(base, recipe, widths);
  if (!record) return undefined;
  return base.model.requantize(record).catch((error: { code?: string }) => {
    if (error.code === 'INVALID_ARGUMENT' || error.code === 'INVALID_QUANTIZATION')
      return undefined;
    throw error;
  });
}

/**
 * A config that keeps the ranges and decisions of the base, with layers in float or of other bits; undefined for
 * recipes that learn, whose results are not in a record, and for layers that the base has in float.
 */
export async function keepingDecisions(
  base: Base,
  recipe: Recipe,
  widths: Widths,
): Promise<QuantizeConfig | undefined> {
  if (recipe.config?.recover || recipe.epochs) return undefined;
  const { configOf } = await import('requant');
  const config = configOf(base.model.config);
  const operators = { ...config.operators };
  const scales = { ...config.scales };
  for (const name of changedNames(base.widths, widths)) {
    const key = escape(name);
    const width = widths[name] ?? recipeBits(recipe);
    const own = operators[key];
    const record = base.model.config.operators.find((one) => one.name === name);
    const slot = record && weightsOf(record);
    if (!own || !slot) return undefined;
    operators[key] = width === 32 ? null : { ...own, weights: { ...own.weights, bits: width } };
    delete scales[slot.value];
  }
  return { ...config, operators, scales, recover: [...WITHOUT_SEARCH] };
}

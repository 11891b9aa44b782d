// The options of activations and weights. src/quant/options.inc has the rows of the core, which reads them by name.

import { invalidArgument } from '../base/errors.js';
import { MOST_INT, checkInteger, checkKind, withoutUndefined } from '../base/options.js';
import { type ConfigOf, checkSchema, choice, flag, integer, number } from '../base/schema.js';

/** @internal The options of one kind of tensor, with their meaning. */
export const tensorOptions = {
  /**
   * Default 8. Activations of 9 to 16 bits are integers of 16 bits. Activations of more than 16 bits and weights of
   * more than 8 are simulated in float, and toOnnx() cannot write them. One bit is bipolar (-1, 1) where `symmetric`
   * is true, as for weights, and unipolar (0, 1) where it is false.
   */
  bits: integer(1, 32),
  /**
   * Whether zero points are 0 and integers signed. Default false for activations, true for weights and small
   * floats. Affine weights (false) have the zero point that their range asks for.
   */
  symmetric: flag,
  /**
   * Whether every channel has a scale: for weights the output channels (default true), for activations those
   * of `axis`, which are simulated in float.
   */
  perChannel: flag,
  /** The channel axis of activations (only) with `perChannel`. Default 1. */
  axis: integer(0),
  /**
   * How the range is found. Default 'minmax', which one bit takes as 'mse'; weights take all but 'moving_average' and 'isotone'. 'auto' tries
   * several ways and keeps the one of least output error; given for all activations, it also adds
   * 'float_start', 'float_end' and 'empirical_bias' to `recover`.
   */
  observer: choice(
    'minmax',
    'moving_average',
    'percentile',
    'kl',
    'mse',
    'aciq',
    'isotone',
    'auto',
  ),
  /** For the observer 'percentile': the share of all values inside the range, in percent. Default 99.99. */
  percentile: number('above 0 and at most 100', (value) => value > 0 && value <= 100),
  /** For the observer 'moving_average' (activations only): the weight of the past. Default 0.95. */
  momentum: number('at least 0 and below 1', (value) => value >= 0 && value < 1),
  /**
   * For the observer 'moving_average' (activations only): the number of samples after which the range is
   * frozen. Default 0: never.
   */
  stopUpdateAfter: integer(0),
  /** Whether scales are rounded up to powers of two. Default false. */
  powerOf2: flag,
  /** How values are rounded. Default 'HALF_EVEN'; for activations the others are simulated in float. */
  rounding: choice(
    'HALF_EVEN',
    'HALF_UP',
    'HALF_DOWN',
    'HALF_TOWARDS_ZERO',
    'HALF_FAR_FROM_ZERO',
    'UP',
  ),
  /** How the scale follows from the range. Default 'onnx'; 'cambricon' is symmetric. */
  formula: choice('onnx', 'ppq', 'google', 'cambricon'),
  /** Integers (default), or a simulated small float of 8 bits around 0. */
  format: choice('int', 'e4m3', 'e5m2'),
  /** Whether symmetric integers use the lowest code as well, [-128, 127]. Default false. */
  fullRange: flag,
  /** Whether asymmetric integers are int8. Default false: uint8. */
  signed: flag,
  /**
   * The lowest code, one of those that `bits`, `symmetric` and `signed` allow. Default: the lowest of these. Codes
   * below it are cut off. Symmetric codes contain 0; those of weights are as many below 0 as above, or one more.
   */
  quantMin: integer(-(2 ** 31)),
  /** The highest code, in the same way: `{ quantMin: 0, quantMax: 127 }` keeps activations in 7 of 8 bits. */
  quantMax: integer(-(2 ** 31)),
};

/** How one kind of tensor is quantized. */
export type TensorConfig = ConfigOf<typeof tensorOptions>;

/** How one input or output of an operator is quantized. */
export interface SlotConfig extends TensorConfig {
  /** In `operators` only: the scale, or those of the channels, which is not calibrated then. */
  scale?: number | readonly number[];
  /** Beside `scale`: its zero point. Default 0. */
  zeroPoint?: number | readonly number[];
}

/** What is said of single inputs or outputs, by index. An array may have holes (null, undefined). */
export type SlotConfigs =
  Readonly<Record<number, SlotConfig>> | readonly (SlotConfig | null | undefined)[];

/**
 * How the range of a tensor is found. `'auto'` tries several ways and keeps the one of least output error;
 * given for all activations, it also changes defaults of {@link QuantizeConfig}.
 */
export type Observer = NonNullable<TensorConfig['observer']>;

/** Rounding to integers; ties as PPQ defines them. */
export type Rounding = NonNullable<TensorConfig['rounding']>;

const activationKeys = ['axis', 'momentum', 'stopUpdateAfter'] as const;
const activationObservers: readonly Observer[] = ['moving_average', 'isotone'];

const weightOptions = {
  ...tensorOptions,
  observer: choice(
    ...tensorOptions.observer.of.filter((one) => !activationObservers.includes(one)),
  ),
};

/** The core knows which codes a grid may have; it does not know what the caller calls them. */
function checkCodes({ quantMin, quantMax }: TensorConfig, name: string): void {
  if (quantMin === undefined || quantMax === undefined || quantMin < quantMax) return;
  throw invalidArgument(
    `${name}.quantMin is ${quantMin}, and quantMax ${quantMax}`,
    `${name}.quantMin`,
    'quantMin must be below quantMax.',
  );
}

/** @internal The options without those that are undefined. Throws INVALID_ARGUMENT naming the key. */
export function parseTensor(config: unknown, name: string, weights: boolean): TensorConfig {
  checkSchema(config, weights ? weightOptions : tensorOptions, name);
  const tensor = withoutUndefined(config as TensorConfig);
  const misplaced = weights && activationKeys.find((key) => tensor[key] !== undefined);
  if (misplaced) {
    throw invalidArgument(`${name}.${misplaced} is of activations only`, `${name}.${misplaced}`);
  }
  const { bits, symmetric, format = 'int' } = tensor;
  const contrary = bits !== undefined && bits !== 8 ? 'bits' : symmetric === false && 'symmetric';
  if (format !== 'int' && contrary) {
    throw invalidArgument(
      `${name}.${contrary} is ${tensor[contrary]}, but ${format} has 8 bits around 0`,
      `${name}.${contrary}`,
    );
  }
  checkCodes(tensor, name);
  return tensor;
}

/** @internal A number, or an array of them, as an array. Throws INVALID_ARGUMENT naming the number. */
export function numbers(value: unknown, name: string): number[] {
  const list: unknown[] =
    Array.isArray(value) || ArrayBuffer.isView(value)
      ? Array.from(value as unknown as ArrayLike<unknown>)
      : [value];
  list.forEach((number, index) => checkKind(number, 'number', `${name}[${index}]`));
  return list as number[];
}

/** @internal A slot's options, its scales and zero points as arrays. */
export type ParsedSlot = TensorConfig & { scale?: number[]; zeroPoint?: number[] };

/** @internal The options of one slot. `given`: it may have a scale. Throws INVALID_ARGUMENT naming the key. */
export function parseSlot(slot: SlotConfig, name: string, given: boolean): ParsedSlot {
  checkKind(slot, 'object', name);
  const { scale, zeroPoint, ...rest } = withoutUndefined(slot);
  const misplaced =
    !given && (scale === undefined ? zeroPoint !== undefined && 'zeroPoint' : 'scale');
  if (misplaced) {
    throw invalidArgument(
      `${name}.${misplaced} cannot be given here`,
      `${name}.${misplaced}`,
      'Scales are given to slots of operators by name.',
    );
  }
  if (scale === undefined && zeroPoint !== undefined) {
    throw invalidArgument(
      `${name} has a zero point without a scale`,
      `${name}.zeroPoint`,
      'Give both, or none.',
    );
  }
  const points = zeroPoint === undefined ? [] : numbers(zeroPoint, `${name}.zeroPoint`);
  points.forEach((point, at) =>
    checkInteger(point, -MOST_INT - 1, MOST_INT, `${name}.zeroPoint[${at}]`),
  );
  return {
    ...parseTensor(rest, name, false),
    ...(scale === undefined ? {} : { scale: numbers(scale, `${name}.scale`), zeroPoint: points }),
  };
}

/**
 * @internal Options of slots by index. `given`: scales may be given. Throws INVALID_ARGUMENT naming the key.
 */
export function parseSlots(
  slots: unknown,
  name: string,
  given: boolean,
): Record<string, ParsedSlot> {
  const entries = Array.isArray(slots)
    ? (slots as unknown[]).map((slot, index): [string, unknown] => [String(index), slot])
    : Object.entries(slots as object);
  const parsed: Record<string, ParsedSlot> = {};
  for (const [index, slot] of entries) {
    if (Array.isArray(slots) && (slot === null || slot === undefined)) continue;
    const own = `${name}[${index}]`;
    if (!/^\d{1,6}$/.test(index)) {
      throw invalidArgument(`${own} is no slot`, own, 'Slots are counted from 0.');
    }
    parsed[index] = parseSlot(slot as SlotConfig, own, given);
  }
  return parsed;
}

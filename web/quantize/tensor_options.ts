// The options of activations and weights. src/quant/options.inc has the rows of the core, which reads them by name.

import { invalidArgument } from '../base/errors.js';
import { withoutUndefined } from '../base/options.js';
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
};

/** How one kind of tensor is quantized. */
export type TensorConfig = ConfigOf<typeof tensorOptions>;

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
  return tensor;
}

// Checks the quantization config of the public API and converts it to the form of the core.

import { RequantError, invalidArgument } from '../base/errors.js';
import {
  MOST_INT,
  checkInteger,
  checkKind,
  checkOneOf,
  checkOptions,
  suggest,
  withoutUndefined,
} from '../base/options.js';
import type { CoreOperatorOptions, CoreQuantizeOptions, CoreTensorOptions } from '../core.js';

/**
 * How the range of a tensor is found. `'auto'` tries several ways and keeps the one of least output error;
 * given for all activations, it also changes defaults of {@link QuantizeConfig}.
 */
export type Observer =
  'minmax' | 'moving_average' | 'percentile' | 'kl' | 'mse' | 'isotone' | 'auto';

/** Methods that recover accuracy; see docs/quantization.md. */
export type Recovery =
  | 'equalize'
  | 'equalize_relu6'
  | 'channel_split'
  | 'equalize_activations'
  | 'round_weights'
  | 'bias_correction'
  | 'float_start'
  | 'float_sums'
  | 'float_end'
  | 'float_answers'
  | 'adaround'
  | 'learned_steps'
  | 'block_reconstruction'
  | 'empirical_bias';

/** Rounding to integers; ties as PPQ defines them. */
export type Rounding =
  'HALF_EVEN' | 'HALF_UP' | 'HALF_DOWN' | 'HALF_TOWARDS_ZERO' | 'HALF_FAR_FROM_ZERO' | 'UP';

/** How one kind of tensor is quantized. */
export interface TensorConfig {
  /**
   * 2 to 32. Default 8. Values of more than 8 bits are simulated in float, and toOnnx() cannot write them.
   */
  bits?: number;
  /**
   * Whether zero points are 0 and integers signed. Default false for activations, true for weights and small
   * floats.
   */
  symmetric?: boolean;
  /**
   * Whether every channel has a scale: for weights the output channels (default true), for activations those
   * of `axis`, which are simulated in float and must be symmetric.
   */
  perChannel?: boolean;
  /** The channel axis of activations (only) with `perChannel`. Default 1. */
  axis?: number;
  /** Default 'minmax'; weights take all but 'moving_average' and 'isotone'. */
  observer?: Observer;
  /** For the observer 'percentile': share of all values inside the range, in (0, 100]. */
  percentile?: number;
  /** For the observer 'moving_average': weight of the past, in [0, 1). */
  momentum?: number;
  /**
   * For the observer 'moving_average': the number of samples after which the range is frozen. Default 0:
   * never.
   */
  stopUpdateAfter?: number;
  /** Whether scales are rounded up to powers of two. Default false. */
  powerOf2?: boolean;
  /** Default 'HALF_EVEN'; for activations the others are simulated in float. */
  rounding?: Rounding;
  /** How the scale follows from the range. Default 'onnx'. */
  formula?: 'onnx' | 'ppq' | 'google' | 'cambricon';
  /** Integers (default), or a simulated small float of 8 bits. */
  format?: 'int' | 'e4m3' | 'e5m2';
  /** Whether symmetric integers use the lowest code as well, [-128, 127]. Default false. */
  fullRange?: boolean;
  /** Whether asymmetric activations (only) are int8. Default false: uint8. */
  signed?: boolean;
}

/** How an operator is quantized. */
export interface OperatorConfig {
  activations?: TensorConfig;
  weights?: TensorConfig;
  /**
   * In operatorTypes and operators: layers write their accumulators as floats, whoever reads them, except
   * layers that compute their activation as well. Default false.
   */
  floatOutput?: boolean;
}

/** The runtime whose expectations to meet; other settings override it. */
export type Target =
  'onnxruntime' | 'tflite' | 'tensorrt' | 'power-of-2' | 'megengine-int4' | 'reduce-range';

/** A scale from elsewhere, as other tools write it. */
export interface GivenScale {
  scale: number | readonly number[];
  /** Default 0. `offset` is a synonym. */
  zero_point?: number | readonly number[];
  offset?: number | readonly number[];
}

/** How a model is quantized. Every setting has a default. */
export interface QuantizeConfig extends Omit<OperatorConfig, 'floatOutput'> {
  /** The runtime whose settings everything else starts from. */
  target?: Target;
  /** Settings by operator type; null keeps all operators of that type in float. */
  operatorTypes?: Readonly<Record<string, OperatorConfig | null>>;
  /**
   * Settings by operator name, a regular expression that must match the whole name; null keeps the operator
   * in float. They override operatorTypes, key by key; of several that match, later ones win.
   */
  operators?: Readonly<Record<string, OperatorConfig | null>>;
  /**
   * Recovery methods; [] for none. Default 'round_weights' and 'bias_correction', and with 7 bits or more and
   * float outputs 'float_sums' and 'float_answers', on 4 to 8 samples; where `activations.observer` is 'auto'
   * also 'float_start', 'float_end' and 'empirical_bias', on 64.
   */
  recover?: readonly Recovery[];
  /**
   * Whether outputs that the model declares as floats keep the precision of floats: layers that make them
   * write their accumulators as floats, and other operators that make them stay in float. Default true, and
   * false for the targets 'tflite', 'power-of-2' and 'megengine-int4', whose devices write integers.
   */
  floatOutputs?: boolean;
  /**
   * How many samples to keep for methods that learn or choose. Default 256; without `recover` the default
   * methods choose on 8, unless this says otherwise.
   */
  recoverSamples?: number;
  /** Steps of the optimizer for each block. Default: the method's own number. */
  recoverSteps?: number;
  /**
   * Scales by value name, which are not calibrated then: from another tool, or from a record of ours by
   * {@link scalesOf}.
   */
  scales?: Readonly<Record<string, GivenScale>>;
}

/** The presets, as configs that can be read and copied. */
export const targets: Readonly<Record<Target, QuantizeConfig>> = {
  onnxruntime: {
    activations: { symmetric: false, signed: false },
    weights: { symmetric: true, perChannel: true },
  },
  tflite: {
    activations: { symmetric: false, signed: true },
    weights: { symmetric: true, perChannel: true },
    floatOutputs: false,
  },
  tensorrt: {
    activations: { symmetric: true, observer: 'kl' },
    weights: { symmetric: true, perChannel: true },
  },
  'power-of-2': {
    activations: { symmetric: true, powerOf2: true },
    weights: { symmetric: true, perChannel: false, powerOf2: true },
    floatOutputs: false,
  },
  'megengine-int4': {
    activations: { bits: 4, symmetric: false, observer: 'mse' },
    weights: { bits: 4, symmetric: true, perChannel: true, fullRange: true, observer: 'mse' },
    floatOutputs: false,
  },
  'reduce-range': { weights: { bits: 7, symmetric: true, perChannel: true } },
};

/** @internal A config in the form of the core, before the names of the operators are known. */
export interface ParsedConfig {
  options: CoreQuantizeOptions;
  patterns: { pattern: string; regex: RegExp; options: CoreOperatorOptions }[];
}

const observers: readonly Observer[] = [
  'minmax',
  'moving_average',
  'percentile',
  'kl',
  'mse',
  'isotone',
  'auto',
];
const activationObservers: readonly Observer[] = ['moving_average', 'isotone'];
const recoveries: readonly Recovery[] = [
  'equalize',
  'equalize_relu6',
  'channel_split',
  'equalize_activations',
  'round_weights',
  'bias_correction',
  'float_start',
  'float_sums',
  'float_end',
  'float_answers',
  'adaround',
  'learned_steps',
  'block_reconstruction',
  'empirical_bias',
];
const integerRecovery: readonly Recovery[] = ['round_weights', 'bias_correction'];
const defaultRecovery: readonly Recovery[] = [...integerRecovery, 'float_sums', 'float_answers'];
const autoRecovery: readonly Recovery[] = [
  ...integerRecovery,
  'float_start',
  'float_sums',
  'float_end',
  'float_answers',
  'empirical_bias',
];
const roundings: readonly Rounding[] = [
  'HALF_EVEN',
  'HALF_UP',
  'HALF_DOWN',
  'HALF_TOWARDS_ZERO',
  'HALF_FAR_FROM_ZERO',
  'UP',
];

const tensorKinds = {
  bits: 'integer',
  symmetric: 'boolean',
  perChannel: 'boolean',
  axis: 'integer',
  observer: 'string',
  percentile: 'number',
  momentum: 'number',
  stopUpdateAfter: 'integer',
  powerOf2: 'boolean',
  rounding: 'string',
  formula: 'string',
  format: 'string',
  fullRange: 'boolean',
  signed: 'boolean',
} as const;

const activationKeys = ['axis', 'momentum', 'stopUpdateAfter', 'signed'] as const;

function inRange(
  value: number | undefined,
  ok: (value: number) => boolean,
  range: string,
  name: string,
) {
  if (value !== undefined && !ok(value)) {
    throw invalidArgument(`${name} is ${value}`, name, `It must be ${range}.`);
  }
}

function parseTensor(config: unknown, name: string, weights: boolean): CoreTensorOptions {
  checkOptions(config, tensorKinds, name);
  const tensor = withoutUndefined(config as TensorConfig);
  const { bits, symmetric, observer, percentile, momentum, stopUpdateAfter, axis } = tensor;
  const misplaced = weights && activationKeys.find((key) => tensor[key] !== undefined);
  if (misplaced) {
    throw invalidArgument(`${name}.${misplaced} is of activations only`, `${name}.${misplaced}`);
  }
  checkInteger(bits, 2, 32, `${name}.bits`);
  inRange(
    percentile,
    (value) => value > 0 && value <= 100,
    'above 0 and at most 100',
    `${name}.percentile`,
  );
  inRange(
    momentum,
    (value) => value >= 0 && value < 1,
    'at least 0 and below 1',
    `${name}.momentum`,
  );
  checkInteger(stopUpdateAfter, 0, MOST_INT, `${name}.stopUpdateAfter`);
  checkInteger(axis, 0, MOST_INT, `${name}.axis`);
  if (observer !== undefined) {
    const known = weights
      ? observers.filter((one) => !activationObservers.includes(one))
      : observers;
    checkOneOf(observer, known, `${name}.observer`);
  }
  const choices: [unknown, readonly string[], string][] = [
    [tensor.rounding, roundings, 'rounding'],
    [tensor.formula, ['onnx', 'ppq', 'google', 'cambricon'], 'formula'],
    [tensor.format, ['int', 'e4m3', 'e5m2'], 'format'],
  ];
  for (const [value, known, key] of choices) {
    if (value !== undefined) checkOneOf(value, known, `${name}.${key}`);
  }
  const { format = 'int' } = tensor;
  const contrary = bits !== undefined && bits !== 8 ? 'bits' : symmetric === false && 'symmetric';
  if (format !== 'int' && contrary) {
    throw invalidArgument(
      `${name}.${contrary} is ${tensor[contrary]}, but ${format} has 8 bits around 0`,
      `${name}.${contrary}`,
    );
  }
  return { ...tensor };
}

function parseOperator(config: unknown, name: string): CoreOperatorOptions {
  if (config === null) return { quantize: false };
  checkOptions(config, { activations: 'object', weights: 'object', floatOutput: 'boolean' }, name);
  const { activations, weights, floatOutput } = config as OperatorConfig;
  return {
    quantize: true,
    ...(floatOutput === undefined ? {} : { floatOutput }),
    ...(activations ? { activations: parseTensor(activations, `${name}.activations`, false) } : {}),
    ...(weights ? { weights: parseTensor(weights, `${name}.weights`, true) } : {}),
  };
}

function numbers(value: unknown, name: string): number[] {
  const list: unknown[] =
    Array.isArray(value) || ArrayBuffer.isView(value)
      ? Array.from(value as unknown as ArrayLike<unknown>)
      : [value];
  list.forEach((number, index) => checkKind(number, 'number', `${name}[${index}]`));
  return list as number[];
}

function parseScales(
  scales: Readonly<Record<string, GivenScale>>,
): Record<string, { scale: number[]; offset: number[] }> {
  return Object.fromEntries(
    Object.entries(scales).map(([value, given]) => {
      const name = `config.scales[${JSON.stringify(value)}]`;
      checkOptions(given, { scale: 'any', zero_point: 'any', offset: 'any' }, name);
      if (given.zero_point !== undefined && given.offset !== undefined) {
        throw invalidArgument(`${name} has zero_point and offset`, `${name}.offset`, 'Give one.');
      }
      const key = given.zero_point === undefined ? 'offset' : 'zero_point';
      const offset = given[key] === undefined ? [] : numbers(given[key], `${name}.${key}`);
      offset.forEach((point, at) =>
        checkInteger(point, -MOST_INT - 1, MOST_INT, `${name}.${key}[${at}]`),
      );
      return [value, { scale: numbers(given.scale, `${name}.scale`), offset }];
    }),
  );
}

/**
 * @internal Parses a config; throws INVALID_ARGUMENT naming the key. `operatorNames` are the engine's
 * operators.
 */
export function parseConfig(
  config: QuantizeConfig = {},
  operatorNames?: readonly string[],
): ParsedConfig {
  checkOptions(
    config,
    {
      target: 'string',
      recoverSamples: 'integer',
      recoverSteps: 'integer',
      floatOutputs: 'boolean',
      scales: 'object',
      activations: 'object',
      weights: 'object',
      operatorTypes: 'object',
      operators: 'object',
      recover: 'strings',
    },
    'config',
  );
  const { activations, weights, operatorTypes = {}, operators = {}, recover } = config;
  const types: Record<string, CoreOperatorOptions> = {};
  for (const [type, value] of Object.entries(operatorTypes)) {
    const name = `config.operatorTypes.${type}`;
    if (operatorNames && !operatorNames.includes(type)) {
      throw invalidArgument(
        `there is no operator type "${type}"`,
        name,
        suggest(type, operatorNames),
      );
    }
    types[type] = parseOperator(value, name);
  }
  const patterns = Object.entries(operators).map(([pattern, value]) => {
    const name = `config.operators[${JSON.stringify(pattern)}]`;
    let regex: RegExp;
    try {
      regex = new RegExp(`^(?:${pattern})$`);
    } catch (error) {
      throw new RequantError(
        'INVALID_ARGUMENT',
        `${name} is no regular expression: ${(error as Error).message}`,
        { value: name, cause: error },
      );
    }
    return { pattern, regex, options: parseOperator(value, name) };
  });
  recover?.forEach((method, index) => checkOneOf(method, recoveries, `config.recover[${index}]`));
  const { target, recoverSamples, recoverSteps } = config;
  if (target !== undefined) checkOneOf(target, Object.keys(targets), 'config.target');
  checkInteger(recoverSamples, 1, MOST_INT, 'config.recoverSamples');
  checkInteger(recoverSteps, 1, MOST_INT, 'config.recoverSteps');
  const own = parseOperator(withoutUndefined({ activations, weights }), 'config');
  const preset: QuantizeConfig = target === undefined ? {} : targets[target];
  const ofTarget = withoutUndefined({ activations: preset.activations, weights: preset.weights });
  const global = merge(parseOperator(ofTarget, 'config.target'), own);
  // The observer 'auto' asks for the least error, so methods that lower it need not be named.
  const auto = global.activations?.observer === 'auto';
  const floatOutputs = config.floatOutputs ?? preset.floatOutputs ?? true;
  // Fewer bits are for memory and speed, and a target without floats has none.
  const plain = [global.activations, global.weights].every((tensor) => (tensor?.bits ?? 8) >= 7);
  const methods =
    recover ?? (auto ? autoRecovery : plain && floatOutputs ? defaultRecovery : integerRecovery);
  return {
    options: {
      global,
      types,
      operators: {},
      recover: [...methods],
      floatOutputs,
      // Methods that are named, or given a number of samples, run thoroughly.
      quickChoices: !auto && !recover && recoverSamples === undefined,
      recoverNamed: recover !== undefined,
      ...(recoverSamples === undefined ? {} : { recoverSamples }),
      ...(recoverSteps === undefined ? {} : { recoverSteps }),
      ...(config.scales ? { scales: parseScales(config.scales) } : {}),
    },
    patterns,
  };
}

function merge(a: CoreOperatorOptions | undefined, b: CoreOperatorOptions): CoreOperatorOptions {
  if (!a) return b;
  return {
    ...a,
    ...b,
    ...(a.activations || b.activations
      ? { activations: { ...a.activations, ...b.activations } }
      : {}),
    ...(a.weights || b.weights ? { weights: { ...a.weights, ...b.weights } } : {}),
  };
}

/**
 * @internal The options with every pattern applied. Throws INVALID_ARGUMENT for a pattern without a match.
 */
export function resolveOperators(
  { options, patterns }: ParsedConfig,
  operators: readonly { name: string; type: string }[],
): CoreQuantizeOptions {
  const nodes = operators.map(({ name }) => name);
  const types = new Map(operators.map(({ name, type }) => [name, type]));
  const resolved: Record<string, CoreOperatorOptions> = {};
  for (const { pattern, regex, options: operator } of patterns) {
    const matching = nodes.filter((node) => node === pattern || regex.test(node));
    if (matching.length === 0) {
      const name = `config.operators[${JSON.stringify(pattern)}]`;
      throw invalidArgument(`${name} matches no operator`, name, suggest(pattern, nodes));
    }
    for (const node of matching) {
      resolved[node] = { ...merge(resolved[node], operator), type: types.get(node)! };
    }
  }
  return { ...options, operators: resolved };
}

/** @internal */
export function checkMaxSamples(maxSamples: unknown): void {
  if (maxSamples === undefined || maxSamples === Infinity) return;
  checkKind(maxSamples, 'integer', 'options.maxSamples');
  if ((maxSamples as number) < 1) {
    throw invalidArgument(
      `options.maxSamples is ${String(maxSamples)}`,
      'options.maxSamples',
      'It must be at least 1.',
    );
  }
}

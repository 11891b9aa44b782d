// The quantization config of the public API: checked, and put into the form of the core.

import type { CoreOperatorOptions, CoreQuantizeOptions, CoreTensorOptions } from './core.js';
import { RequantError, invalidArgument } from './errors.js';
import { checkKind, checkOneOf, checkOptions, suggest, withoutUndefined } from './options.js';

/** How the range of a tensor is found. */
export type Observer = 'minmax' | 'moving_average' | 'percentile' | 'mse';

/** Ways to recover accuracy after calibration. */
export type Recovery = 'round_weights' | 'bias_correction';

/** How one kind of tensor is quantized. */
export interface TensorConfig {
  /** 2 to 8. Default 8. */
  bits?: number;
  /** Zero point 0 and signed integers. Default false for activations, true for weights. */
  symmetric?: boolean;
  /** A scale for each output channel; weights only. Default true. */
  perChannel?: boolean;
  /** Default 'minmax'; weights know all but 'moving_average'. */
  observer?: Observer;
  /** Of the observer 'percentile': share of all values inside the range, in (0, 100]. */
  percentile?: number;
  /** Of the observer 'moving_average': weight of the past, in [0, 1). */
  momentum?: number;
  /** Round scales up to powers of two. Default false. */
  powerOf2?: boolean;
}

/** How an operator is quantized. */
export interface OperatorConfig {
  activations?: TensorConfig;
  weights?: TensorConfig;
}

/** How a model is quantized. Everything has a default. */
export interface QuantizeConfig extends OperatorConfig {
  /** By operator type; null keeps all operators of that type in float. */
  operatorTypes?: Readonly<Record<string, OperatorConfig | null>>;
  /**
   * By operator name, as a regular expression that must match the whole name; null keeps the
   * operator in float. Wins over operatorTypes as a whole (what it leaves out is as for all
   * operators); of several that match, later ones win.
   */
  operators?: Readonly<Record<string, OperatorConfig | null>>;
  /** Default both; [] for none. */
  recover?: readonly Recovery[];
}

/** @internal A config in the core's terms, before the names of the operators are known. */
export interface ParsedConfig {
  options: CoreQuantizeOptions;
  patterns: { pattern: string; regex: RegExp; options: CoreOperatorOptions }[];
}

const observers: readonly Observer[] = ['minmax', 'moving_average', 'percentile', 'mse'];
const recoveries: readonly Recovery[] = ['round_weights', 'bias_correction'];

const tensorKinds = {
  bits: 'integer',
  symmetric: 'boolean',
  perChannel: 'boolean',
  observer: 'string',
  percentile: 'number',
  momentum: 'number',
  powerOf2: 'boolean',
} as const;

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
  const { bits, perChannel, observer, percentile, momentum } = tensor;
  inRange(bits, (value) => value >= 2 && value <= 8, 'an integer from 2 to 8', `${name}.bits`);
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
  if (observer !== undefined) {
    const known = weights ? observers.filter((one) => one !== 'moving_average') : observers;
    checkOneOf(observer, known, `${name}.observer`);
  }
  if (perChannel && !weights) {
    throw invalidArgument(
      `${name}.perChannel is for weights only`,
      `${name}.perChannel`,
      'Activations have one scale per tensor.',
    );
  }
  return { ...tensor };
}

function parseOperator(config: unknown, name: string): CoreOperatorOptions {
  if (config === null) return { quantize: false };
  checkOptions(config, { activations: 'object', weights: 'object' }, name);
  const { activations, weights } = config as OperatorConfig;
  return {
    quantize: true,
    ...(activations ? { activations: parseTensor(activations, `${name}.activations`, false) } : {}),
    ...(weights ? { weights: parseTensor(weights, `${name}.weights`, true) } : {}),
  };
}

/** @internal Throws INVALID_ARGUMENT naming the key. `operatorNames`: the engine's operators. */
export function parseConfig(
  config: QuantizeConfig = {},
  operatorNames?: readonly string[],
): ParsedConfig {
  checkOptions(
    config,
    {
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
  const global = parseOperator(withoutUndefined({ activations, weights }), 'config');
  return {
    options: { global, types, operators: {}, ...(recover ? { recover: [...recover] } : {}) },
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

/** @internal The options with every pattern applied. INVALID_ARGUMENT for one without a match. */
export function resolveOperators(
  { options, patterns }: ParsedConfig,
  nodes: readonly string[],
): CoreQuantizeOptions {
  const resolved: Record<string, CoreOperatorOptions> = {};
  for (const { pattern, regex, options: operator } of patterns) {
    const matching = nodes.filter((node) => node === pattern || regex.test(node));
    if (matching.length === 0) {
      const name = `config.operators[${JSON.stringify(pattern)}]`;
      throw invalidArgument(`${name} matches no operator`, name, suggest(pattern, nodes));
    }
    for (const node of matching) resolved[node] = merge(resolved[node], operator);
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

// Checks the quantization config of the public API and converts it to the form of the core.

import { RequantError, invalidArgument } from '../base/errors.js';
import {
  MOST_INT,
  checkInteger,
  checkKind,
  checkOptions,
  suggest,
  withoutUndefined,
} from '../base/options.js';
import { checkSchema } from '../base/schema.js';
import type { CoreQuantizeOptions } from '../core.js';
import {
  type GivenScale,
  type OperatorConfig,
  type QuantizeConfig,
  type Recovery,
  operatorOptions,
  quantizeOptions,
  targets,
} from './config.js';
import { type ParsedSlot, numbers, parseSlots, parseTensor } from './tensor_options.js';

/** @internal A config in the form of the core, before the names of the operators are known. */
export interface ParsedConfig {
  options: CoreQuantizeOptions;
  patterns: { pattern: string; regex: RegExp; options: ParsedOperator }[];
}

/** The settings of an operator; `quantize: false` keeps it in float. */
type ParsedOperator = Omit<OperatorConfig, 'inputs' | 'outputs'> & {
  quantize?: boolean;
  type?: string;
  inputs?: Record<string, ParsedSlot>;
  outputs?: Record<string, ParsedSlot>;
};

const integerRecovery: readonly Recovery[] = ['smooth_quant', 'round_weights', 'bias_correction'];
const defaultRecovery: readonly Recovery[] = [...integerRecovery, 'float_sums', 'float_answers'];
const fewBitsRecovery: readonly Recovery[] = ['sequential_rounding'];
const autoRecovery: readonly Recovery[] = [
  ...integerRecovery,
  'float_start',
  'float_sums',
  'float_end',
  'float_answers',
  'empirical_bias',
];

/** `given`: whether it is the config of operators by name, whose slots may have scales. */
function parseOperator(config: unknown, name: string, given = false): ParsedOperator {
  if (config === null) return { quantize: false };
  checkSchema(config, operatorOptions, name);
  const { activations, weights, inputs, outputs, ...rest } = withoutUndefined(
    config as OperatorConfig,
  );
  const slots = (list: unknown, key: string) => {
    if (!Array.isArray(list)) checkKind(list, 'object', `${name}.${key}`);
    return { [key]: parseSlots(list, `${name}.${key}`, given) };
  };
  return {
    quantize: true,
    ...rest,
    ...(activations ? { activations: parseTensor(activations, `${name}.activations`, false) } : {}),
    ...(weights ? { weights: parseTensor(weights, `${name}.weights`, true) } : {}),
    ...(inputs ? slots(inputs, 'inputs') : {}),
    ...(outputs ? slots(outputs, 'outputs') : {}),
  };
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
  checkSchema(config, quantizeOptions, 'config');
  // The remaining options go to the core unchanged.
  const {
    target,
    activations,
    weights,
    operatorTypes = {},
    operators = {},
    integerNormalizations,
    narrowWeights,
    recover,
    scales,
    ...rest
  } = withoutUndefined(config);
  const types: Record<string, ParsedOperator> = {};
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
    return { pattern, regex, options: parseOperator(value, name, true) };
  });
  const own = parseOperator(
    withoutUndefined({ activations, weights, integerNormalizations, narrowWeights }),
    'config',
  );
  const preset: QuantizeConfig = target === undefined ? {} : targets[target];
  const ofTarget = withoutUndefined({ activations: preset.activations, weights: preset.weights });
  const global = merge(parseOperator(ofTarget, 'config.target'), own);
  // The observer 'auto' asks for the least error, so methods that lower it need not be named.
  const auto = global.activations?.observer === 'auto';
  const floatOutputs = rest.floatOutputs ?? preset.floatOutputs ?? true;
  // Fewer bits are for memory and speed, and a target without floats has none.
  const plain = [global.activations, global.weights].every((tensor) => (tensor?.bits ?? 8) >= 7);
  const methods = recover ?? [
    ...(auto ? autoRecovery : plain && floatOutputs ? defaultRecovery : integerRecovery),
    ...(plain ? [] : fewBitsRecovery),
  ];
  return {
    options: {
      ...rest,
      global,
      types,
      operators: {},
      recover: [...methods],
      floatOutputs,
      // Methods that are named, or given a number of samples, run thoroughly.
      quickChoices: plain && !auto && !recover && rest.recoverSamples === undefined,
      recoverNamed: recover !== undefined,
      ...(scales ? { scales: parseScales(scales) } : {}),
    },
    patterns,
  };
}

function merge(a: ParsedOperator | undefined, b: ParsedOperator): ParsedOperator {
  if (!a) return b;
  return {
    ...a,
    ...b,
    ...(a.activations || b.activations
      ? { activations: { ...a.activations, ...b.activations } }
      : {}),
    ...(a.weights || b.weights ? { weights: { ...a.weights, ...b.weights } } : {}),
    ...(a.inputs || b.inputs ? { inputs: mergeSlots(a.inputs, b.inputs) } : {}),
    ...(a.outputs || b.outputs ? { outputs: mergeSlots(a.outputs, b.outputs) } : {}),
  };
}

function mergeSlots(
  a: Record<string, ParsedSlot> = {},
  b: Record<string, ParsedSlot> = {},
): Record<string, ParsedSlot> {
  const merged = { ...a };
  for (const [slot, own] of Object.entries(b)) merged[slot] = { ...merged[slot], ...own };
  return merged;
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
  const resolved: Record<string, ParsedOperator> = {};
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

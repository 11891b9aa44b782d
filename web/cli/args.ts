// Describes command lines: parsing and help both follow from one description of every command.

import { parseArgs } from 'node:util';
import { RequantError } from '../base/errors.js';
import { suggest } from '../base/options.js';
import { type TensorType, tensorTypes } from '../base/tensor.js';
import { type DataFormat, type OpenOptions, dataFormats } from '../dataset/node.js';
import { oneLine } from '../report/format.js';

/** A command line that is wrong: exit code 2. */
export class UsageError extends Error {}

/** The work is done and written, but the result is not good enough: exit code 1. */
export class CheckFailed extends Error {}

/** One option of a command. */
export interface OptionSpec {
  type: 'string' | 'boolean';
  short?: string;
  multiple?: boolean;
  /** Name of the value in the help, such as FILE. */
  value?: string;
  help: string;
}

/** The arguments of a command. */
export interface CommandSpec {
  name: string;
  summary: string;
  /** Names of the positional arguments. */
  positionals: string[];
  options: Record<string, OptionSpec>;
  /** More lines at the end of the help. */
  notes?: string;
}

/** Options that every command has. */
export const commonOptions: Record<string, OptionSpec> = {
  plugin: { type: 'string', value: 'FILE', help: 'a module that adds passes and operators' },
  json: { type: 'boolean', help: 'write JSON for machines to standard output' },
  simd: { type: 'string', value: 'V', help: "engine: 'auto' (default), 'relaxed' or 'simd128'" },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
};

/** The option of the commands that compute; {@link env} takes its value. */
export const threadsOption: Record<string, OptionSpec> = {
  threads: { type: 'string', value: 'N', help: "threads, or 'auto'; default 1" },
};

/** Options of the commands that read samples. */
export const dataOptions: Record<string, OptionSpec> = {
  data: { type: 'string', short: 'd', value: 'PATH', help: 'samples: a file or a folder' },
  labels: { type: 'string', value: 'FILE', help: 'labels: IDX, .npy, JSON or text' },
  'data-format': {
    type: 'string',
    value: 'F',
    help: dataFormats.join(', '),
  },
  'max-samples': { type: 'string', value: 'N', help: 'use at most N samples' },
  shape: { type: 'string', value: 'A,B,..', help: 'of one sample, for raw numbers and pixels' },
  type: { type: 'string', value: 'T', help: 'of raw numbers, such as float32' },
  scale: {
    type: 'string',
    value: 'S',
    help: 'pixels: (pixel * scale - mean) / std; default 1/255',
  },
  mean: { type: 'string', value: 'A,B,C', help: 'pixels: one number or one per channel' },
  std: { type: 'string', value: 'A,B,C', help: 'pixels: one number or one per channel' },
  layout: { type: 'string', value: 'L', help: "the model's: nchw or nhwc; default: by its input" },
  resize: {
    type: 'string',
    value: 'N',
    help: 'pictures: shorter side before the middle is cut out',
  },
};

export type Values = Record<string, string | boolean | (string | boolean)[] | undefined>;

/** Reads a command's arguments. Throws UsageError. */
export function readArgs(
  spec: CommandSpec,
  args: readonly string[],
): { values: Values; positionals: string[] } {
  const options: Record<
    string,
    { type: 'string' | 'boolean'; short?: string; multiple?: boolean }
  > = {};
  for (const [name, { type, short, multiple }] of Object.entries(spec.options)) {
    options[name] = { type, ...(short ? { short } : {}), ...(multiple ? { multiple } : {}) };
  }
  let parsed: { values: Values; positionals: string[] };
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true }) as {
      values: Values;
      positionals: string[];
    };
  } catch (error) {
    const message = (error as Error).message;
    const unknown = /Unknown option '(--?[^']+)'/.exec(message);
    if (!unknown) throw new UsageError(message);
    const known = Object.keys(spec.options).map((name) => `--${name}`);
    throw new UsageError(`unknown option ${unknown[1]}. ${suggest(unknown[1]!, known)}`);
  }
  if (parsed.values['help'] || parsed.values['list']) return parsed;
  const missing = spec.positionals[parsed.positionals.length];
  if (missing !== undefined) throw new UsageError(`${missing} is missing`);
  const extra = parsed.positionals[spec.positionals.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  return parsed;
}

/** The help text of a command. */
export function commandHelp(spec: CommandSpec): string {
  const rows = Object.entries(spec.options).map(([name, { short, value, help }]) => {
    const left = `  ${short ? `-${short}, ` : '    '}--${name}${value ? ` ${value}` : ''}`;
    return left.length < 27 ? `${left.padEnd(28)}${help}` : `${left}\n${' '.repeat(28)}${help}`;
  });
  return [
    `Usage: requant ${spec.name} ${[...spec.positionals, '[options]'].join(' ')}`,
    '',
    spec.summary,
    '',
    'Options:',
    ...rows,
    ...(spec.notes ? ['', spec.notes] : []),
  ].join('\n');
}

/** The value of a string option, or undefined. */
export function text(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}

/** The value of a string option that must be given. */
export function required(values: Values, name: string): string {
  const value = text(values, name);
  if (value === undefined) throw new UsageError(`--${name} is missing`);
  return value;
}

/** The value of an integer option within a range. */
export function integer(
  values: Values,
  name: string,
  lowest = 1,
  highest = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const value = text(values, name);
  if (value === undefined) return undefined;
  const number = /^-?\d+$/.test(value) ? Number(value) : NaN;
  if (!(number >= lowest && number <= highest)) {
    const range =
      highest < Number.MAX_SAFE_INTEGER ? `${lowest} to ${highest}` : `at least ${lowest}`;
    throw new UsageError(`--${name} is "${value}", it must be a whole number, ${range}`);
  }
  return number;
}

/** The value of an option that takes one of several words. */
export function oneOf<T extends string>(
  values: Values,
  name: string,
  known: readonly T[],
): T | undefined {
  const value = text(values, name);
  if (value === undefined) return undefined;
  if (!(known as readonly string[]).includes(value)) {
    throw new UsageError(`--${name} is "${value}". ${suggest(value, known)}`);
  }
  return value as T;
}

/** A number, also as a fraction such as 1/255. */
function parseNumber(value: string, name: string): number {
  const match = /^\s*([-+.\deE]+)\s*(?:\/\s*([-+.\deE]+)\s*)?$/.exec(value);
  const number = match ? Number(match[1]) / (match[2] === undefined ? 1 : Number(match[2])) : NaN;
  if (!Number.isFinite(number)) throw new UsageError(`--${name}: "${value}" is no number`);
  return number;
}

/** The value of a number option within a range. */
export function real(
  values: Values,
  name: string,
  lowest: number,
  highest: number,
): number | undefined {
  const value = text(values, name);
  if (value === undefined) return undefined;
  const number = parseNumber(value, name);
  if (number >= lowest && number <= highest) return number;
  throw new UsageError(`--${name} is "${value}", it must be from ${lowest} to ${highest}`);
}

/** The value of an option that takes numbers separated by commas. */
export function numbers(values: Values, name: string): number[] | undefined {
  const value = text(values, name);
  return value?.split(',').map((part) => parseNumber(part, name));
}

/** The value of an option that takes words separated by commas. */
export function words(values: Values, name: string): string[] | undefined {
  return text(values, name)
    ?.split(',')
    .map((word) => word.trim())
    .filter(Boolean);
}

/** The values of {@link dataOptions} in the form that openDataset takes. */
export function openOptions(values: Values): OpenOptions {
  const shape = numbers(values, 'shape');
  if (shape && !shape.every((dim) => Number.isInteger(dim) && dim > 0)) {
    throw new UsageError('--shape must be positive whole numbers');
  }
  const options: Record<string, unknown> = {
    format: oneOf<DataFormat>(values, 'data-format', dataFormats),
    labels: text(values, 'labels'),
    shape,
    type: oneOf<TensorType>(values, 'type', tensorTypes),
    scale: numbers(values, 'scale')?.[0],
    mean: numbers(values, 'mean'),
    std: numbers(values, 'std'),
    layout: oneOf(values, 'layout', ['nchw', 'nhwc']),
    resize: integer(values, 'resize'),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** Describes an error for a terminal: what, where and remedy, each on one line whatever names contain. */
export function describeError(error: unknown): string {
  if (error instanceof RequantError) {
    return [
      oneLine(error.message),
      ...(error.node ? [`  node:  ${oneLine(error.node)}`] : []),
      ...(error.value && error.value !== error.node ? [`  value: ${oneLine(error.value)}`] : []),
      ...(error.hint ? [`  hint:  ${oneLine(error.hint)}`] : []),
    ].join('\n');
  }
  return oneLine(error instanceof Error ? error.message : String(error));
}

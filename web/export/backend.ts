// Backends: what else may run parts of a model, and what they get and give.

import { invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import type { Model } from '../model/model.js';
import type { NodeDetails } from './node_details.js';
import type { CheckedPattern, Pattern } from './pattern.js';
import { checkPattern } from './patterns.js';

/** Operators of a part that match a pattern of its backend, which runs them as one. */
export interface Composite {
  /** The name of the pattern; of a pattern without a name its text, such as `'Conv+Relu|Clip?'`. */
  pattern: string;
  /** The operators, first to last. */
  nodes: readonly NodeDetails[];
  /** Names of the values that they read and do not compute, without constants, in the order of reading. */
  inputs: readonly string[];
  /** Name of the value that the last one computes; nobody else reads the others. */
  output: string;
  /** Names of all values that the last one computes; of most operators `output` alone. */
  outputs: readonly string[];
}

/** A part of a model. */
export interface Part {
  /** "part0", "part1", ..., in an order in which the parts can run. */
  name: string;
  /** The backend's name; null: this engine. */
  backend: string | null;
  /** Its operators as a model; values keep the names of the whole model. */
  model: Model;
  /** Multiply-adds, where open dimensions count as 1. */
  macs: number;
  /** What matched patterns of the backend; the other operators are single ones that it takes. */
  composites: readonly Composite[];
}

/** Runs a part on its backend: feeds by the names of its inputs, outputs by theirs. */
export type PartRunner = (
  feeds: Readonly<Record<string, Tensor>>,
) => Record<string, Tensor> | Promise<Record<string, Tensor>>;

/** A part that a backend has made ready to run: a function, or an object with one. */
export type CompiledPart = PartRunner | { run: PartRunner; dispose?: () => void };

/** A backend that may run parts of a model: WebNN, a GPU, another engine, the C of {@link generateC}. */
export interface Backend {
  name: string;
  /**
   * The operators that the backend takes: types (`'Conv'`, or with their domain `'com.microsoft::QGemm'`), a
   * function that decides, or `'c'` for those that {@link generateC} has a form for. Default none but those
   * of patterns.
   */
  operators?: readonly string[] | ((node: NodeDetails) => boolean) | 'c';
  /**
   * Operators that the backend runs as one, such as `['Conv', 'Add', 'Relu']`, tried in this order before
   * single operators. Nobody else may read a result of any but the last. Members may have alternatives and
   * conditions, may be missing, and name the values that connect them ({@link PatternNode}).
   */
  patterns?: readonly Pattern[];
  /** The most operators of a part. Default any number. */
  maxOperators?: number;
  /** The least multiply-adds of a part: smaller ones stay with this engine. Default 0. */
  minMacs?: number;
  /** Whether neighbors become one part; otherwise each composite and each single operator is one. Default true. */
  join?: boolean;
  /** Makes a part ready to run. `createSession` of the partition may name another function for a backend. */
  compile?: (part: Part) => CompiledPart | Promise<CompiledPart>;
  /** The backend's own form of what `compile` made, which `save` of the partition writes. */
  serialize?: (compiled: CompiledPart, part: Part) => Uint8Array | Promise<Uint8Array>;
  /**
   * Makes a part ready to run from its own form. If it gives null, because the form is that of another version
   * or machine, `compile` runs instead.
   */
  deserialize?: (
    blob: Uint8Array,
    part: Part,
  ) => CompiledPart | null | Promise<CompiledPart | null>;
}

/** @internal A backend that is checked. */
export interface CheckedBackend extends Backend {
  checkedPatterns: readonly CheckedPattern[];
}

function checkBackend(backend: unknown, place: string): CheckedBackend {
  const kinds = {
    name: 'string',
    operators: 'any',
    patterns: 'any',
    maxOperators: 'integer',
    minMacs: 'integer',
    join: 'boolean',
    compile: 'function',
    serialize: 'function',
    deserialize: 'function',
  } as const;
  checkOptions(backend, kinds, place);
  const given = backend as Backend;
  const { name, operators, patterns = [], maxOperators = 0, minMacs = 0 } = given;
  if (typeof name !== 'string' || name === '') {
    throw invalidArgument(`${place} has no name`, `${place}.name`);
  }
  const isList =
    Array.isArray(operators) &&
    operators.every((item: unknown) => typeof item === 'string' && item !== '');
  const known = operators === undefined || operators === 'c' || typeof operators === 'function';
  if (!known && !isList) {
    throw invalidArgument(
      `${place}.operators is ${show(operators)}`,
      `${place}.operators`,
      "Give a list of operator types, a function, or 'c'.",
    );
  }
  if (!Array.isArray(patterns)) {
    throw invalidArgument(`${place}.patterns is ${show(patterns)}`, `${place}.patterns`);
  }
  checkInteger(maxOperators, 0, MOST_INT, `${place}.maxOperators`);
  checkInteger(minMacs, 0, Number.MAX_SAFE_INTEGER, `${place}.minMacs`);
  const checkedPatterns = patterns.map((pattern, i) =>
    checkPattern(pattern, `${place}.patterns[${i}]`),
  );
  return { ...given, checkedPatterns };
}

/** @internal Throws INVALID_ARGUMENT for what is no list of backends with different names. */
export function checkBackends(backends: unknown, place: string): CheckedBackend[] {
  if (!Array.isArray(backends)) {
    throw invalidArgument(`${place} is ${show(backends)}`, place);
  }
  const list = backends.map((backend, i) => checkBackend(backend, `${place}[${i}]`));
  const names = list.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw invalidArgument(`two backends are called "${twice}"`, place);
  return list;
}

/** @internal Names of the values that operators read and do not compute, without constants. */
export function inputsOf(nodes: readonly NodeDetails[]): string[] {
  const computed = new Set(nodes.flatMap(({ outputs }) => outputs));
  const read = nodes
    .flatMap(({ inputValues }) => inputValues)
    .flatMap((value) => (value === null || value.constant ? [] : [value.name]));
  return [...new Set(read)].filter((name) => !computed.has(name));
}

/** @internal */
export function makeComposite(pattern: string, nodes: readonly NodeDetails[]): Composite {
  const outputs = nodes.at(-1)!.outputs.filter((name) => name !== '');
  return { pattern, nodes, inputs: inputsOf(nodes), output: outputs[0]!, outputs };
}

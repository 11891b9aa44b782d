// Types of the values that the core and functions of users exchange: passes, operators and hooks
// (bindings/own_values.h). There is no such module; core.d.ts has the functions.

/** What a function of the user's returns to the core instead of its result when it failed. */
export interface UserFailure {
  error: { message: string; hint: string | undefined };
}

/** A tensor in the core's memory, valid until the function that gets it returns. */
export interface CoreTensor {
  type: string;
  dims: number[];
  pointer: number;
  size: number;
}

/** A tensor that the core takes over, with its memory. */
export interface CoreGivenTensor {
  type: string;
  dims: number[];
  pointer: number;
}

/** A dimension is a number, a name or null; null: unknown rank. */
export interface CoreType {
  type: string;
  dims: readonly (number | string | null)[] | null;
}

export type CoreAttributes = Record<string, number | string | number[] | string[]>;

export interface CorePattern {
  kind: 'operator' | 'value' | 'constant' | 'absent';
  op?: string;
  domain?: string;
  name?: string;
  commutes?: boolean;
  inputs?: CorePattern[];
}

export interface CoreNode {
  name: string;
  op: string;
  domain: string;
  attributes: CoreAttributes;
  inputs: (string | null)[];
  outputs: (string | null)[];
}

export interface CoreMatch {
  root: CoreNode;
  nodes: Record<string, CoreNode>;
  values: Record<string, CoreType & { name: string; constant?: CoreTensor }>;
}

export type CoreAttribute =
  | { integer: number }
  | { real: number }
  | { text: string }
  | { integers: number[] }
  | { reals: number[] }
  | { texts: string[] };

/** A value by name, an output of a new operator, a new constant, or an input that is left out. */
export type CoreOperand =
  { value: string } | { node: number; output: number } | { constant: number } | null;

export interface CoreNewOperator {
  op: string;
  domain: string;
  /** Empty: one after the root of the match. */
  name: string;
  /** The name of the operator whose attributes it takes over; empty: none. */
  like: string;
  inputs: CoreOperand[];
  outputs: number;
  attributes: Record<string, CoreAttribute>;
}

export interface CoreReplacement {
  nodes: CoreNewOperator[];
  constants: CoreGivenTensor[];
  results: CoreOperand[];
}

export interface CorePassDefinition {
  name: string;
  summary: string;
  before: string;
  after: string;
  bound: number;
  limit: number;
  byDefault: boolean;
  pattern: CorePattern;
  rewrite(match: CoreMatch): CoreReplacement | null | UserFailure;
}

export interface CoreOperatorDefinition {
  name: string;
  domain: string;
  minInputs: number;
  maxInputs: number;
  maxOutputs: number;
  quantize: string;
  infer(inputs: (CoreType | undefined)[], attributes: CoreAttributes): CoreType[] | UserFailure;
  run(
    inputs: (CoreTensor | undefined)[],
    attributes: CoreAttributes,
  ): CoreGivenTensor[] | UserFailure;
}

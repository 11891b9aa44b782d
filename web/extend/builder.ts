// What the rewrite of a user's pass builds.

import { invalidArgument, show } from '../base/errors.js';
import { checkInteger, checkKind, checkOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import type { Core } from '../core.js';
import type {
  CoreAttribute,
  CoreGivenTensor,
  CoreNewOperator,
  CoreOperand,
  CoreReplacement,
} from '../core_own.js';
import { free } from '../engine/heap.js';
import { type OperatorAttributes, toCore } from './core_values.js';

/** An operator that a pattern found. */
export interface MatchedNode {
  readonly name: string;
  readonly op: string;
  readonly domain: string;
  readonly attributes: OperatorAttributes;
  /** Names of values; null: left out. */
  readonly inputs: readonly (string | null)[];
  readonly outputs: readonly (string | null)[];
}

/** A value that a pattern found. */
export interface MatchedValue {
  readonly name: string;
  readonly type: string;
  /** Null: not even the rank is known. */
  readonly dims: readonly (number | string | null)[] | null;
  /** The numbers of a constant. */
  readonly tensor?: Tensor;
}

/** A value that a rewrite makes. */
export class NewValue {
  /** @internal */
  readonly operand: CoreOperand;
  /** @internal */
  constructor(operand: CoreOperand) {
    this.operand = operand;
  }
}

/** An attribute of a new operator that is a float, or a list of floats, though it may be whole. */
export class FloatAttribute {
  /** @internal */
  constructor(readonly value: number | readonly number[]) {}
}

/** A value of the graph (by itself or by name), or one that the rewrite makes; null leaves an input out. */
export type Operand = MatchedValue | NewValue | string | null;

/** An attribute of a new operator. Whole numbers are integers unless `builder.float()` says otherwise. */
export type NewAttribute = number | string | readonly number[] | readonly string[] | FloatAttribute;

/** Options of {@link PassBuilder.add}. */
export interface NewOperatorOptions {
  attributes?: Readonly<Record<string, NewAttribute>>;
  /** Takes over the attributes of this operator; `attributes` are set behind them. */
  like?: MatchedNode;
  /** Default: ONNX. */
  domain?: string;
  /** The number of outputs; default 1. */
  outputs?: number;
  /** The name of the operator; default one after the root of the match. */
  name?: string;
}

function attributeOf(value: unknown, name: string): CoreAttribute {
  if (value instanceof FloatAttribute) {
    const { value: given } = value;
    return typeof given === 'number' ? { real: given } : { reals: [...given] };
  }
  if (typeof value === 'string') return { text: value };
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) ? { integer: value } : { real: value };
  }
  if (Array.isArray(value)) {
    const list = value as unknown[];
    if (list.every((item) => Number.isSafeInteger(item))) return { integers: list as number[] };
    if (list.every((item) => typeof item === 'number')) return { reals: list };
    if (list.every((item) => typeof item === 'string')) return { texts: list };
  }
  throw invalidArgument(
    `attribute "${name}" is ${show(value)}`,
    name,
    'It must be a number, a string or a list of either.',
  );
}

/** Makes the operators that replace a match. */
export class PassBuilder {
  readonly #core: Core;
  readonly #nodes: CoreNewOperator[] = [];
  readonly #constants: CoreGivenTensor[] = [];

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Adds an operator and returns its first output; {@link output} gives the others. */
  add(op: string, inputs: readonly Operand[], options: NewOperatorOptions = {}): NewValue {
    checkKind(op, 'string', 'op');
    if (!Array.isArray(inputs)) throw invalidArgument(`inputs is ${show(inputs)}`, 'inputs');
    checkOptions(
      options,
      {
        attributes: 'object',
        like: 'object',
        domain: 'string',
        outputs: 'integer',
        name: 'string',
      },
      'options',
    );
    const { attributes = {}, like, domain = '', outputs = 1, name = '' } = options;
    checkInteger(outputs, 1, 100, 'options.outputs');
    this.#nodes.push({
      op,
      domain,
      name,
      outputs,
      like: like?.name ?? '',
      inputs: (inputs as readonly Operand[]).map((operand) => this.operandOf(operand)),
      attributes: Object.fromEntries(
        Object.entries(attributes).map(([key, value]) => [key, attributeOf(value, key)]),
      ),
    });
    return new NewValue({ node: this.#nodes.length - 1, output: 0 });
  }

  /** Another output of the operator that made a value. */
  output(value: NewValue, index: number): NewValue {
    const { operand } = value;
    if (operand === null || !('node' in operand)) {
      throw invalidArgument('only operators have outputs', 'value');
    }
    checkInteger(index, 0, 100, 'index');
    return new NewValue({ node: operand.node, output: index });
  }

  /** A constant. */
  constant(tensor: Tensor): NewValue {
    this.#constants.push(toCore(this.#core, tensor, 'tensor'));
    return new NewValue({ constant: this.#constants.length - 1 });
  }

  /** An attribute that is a float, or a list of floats. */
  float(value: number | readonly number[]): FloatAttribute {
    return new FloatAttribute(value);
  }

  /** @internal */
  operandOf(operand: unknown): CoreOperand {
    if (operand === null || operand === undefined) return null;
    if (operand instanceof NewValue) return operand.operand;
    if (typeof operand === 'string') return { value: operand };
    const { name } = operand as MatchedValue;
    if (typeof name === 'string') return { value: name };
    throw invalidArgument(`${show(operand)} is no value`, 'inputs');
  }

  /** @internal What takes the place of the outputs of the match's root. */
  finish(results: readonly unknown[]): CoreReplacement {
    return {
      nodes: this.#nodes,
      constants: this.#constants,
      results: results.map((result) => this.operandOf(result)),
    };
  }

  /** @internal Gives memory back that the core does not take over. */
  drop(): void {
    for (const { pointer } of this.#constants) free(this.#core, pointer);
  }
}

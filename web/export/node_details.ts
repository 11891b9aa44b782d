// Operators of a graph with everything that a pattern may ask of them.

import { invalidArgument, show } from '../base/errors.js';
import { call } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import type { NodeInfo } from '../model/model_info.js';

/** A value that an operator reads or writes. */
export interface ValueDetails {
  name: string;
  /** Element type, such as 'float32'. */
  type: string;
  /** A number, the name of a symbolic dimension, or null for an unknown one; null: an unknown rank. */
  dims: readonly (number | string | null)[] | null;
  /** Whether its numbers are part of the model. */
  constant: boolean;
  /** The numbers of constants of at most 16 elements. */
  data?: readonly number[];
}

/** The value of an operator's attribute; null for a body of control flow. */
export type AttributeValue =
  number | string | readonly number[] | readonly string[] | { type: string; dims: number[] } | null;

/** One operator with its attributes and the types of its values. */
export interface NodeDetails extends NodeInfo {
  /** The attributes that the model gives; those with default values may be missing. */
  attributes: Readonly<Record<string, AttributeValue>>;
  /** By input slot; null where an optional input is left out. */
  inputValues: readonly (ValueDetails | null)[];
  outputValues: readonly (ValueDetails | null)[];
}

/** @internal The operators of a graph in its order, and how they hang together. */
export interface GraphDetails {
  nodes: readonly NodeDetails[];
  /** The place of the only operator that reads the only result; -1 for others, and for outputs of the graph. */
  next: readonly number[];
  /** Names of the graph's outputs. */
  returned: ReadonlySet<string>;
}

const MOST_NUMBERS = 16;

type Described = Pick<ValueDetails, 'type' | 'dims' | 'data'>;

/** @internal Reads the operators of a model whose tools are loaded. */
export function describeModel(model: Model): GraphDetails {
  const { core, object } = model.handle;
  const graph = JSON.parse(call(core, () => core.describe(object, MOST_NUMBERS))) as {
    outputs: string[];
    nodes: (NodeInfo & { attributes: Record<string, AttributeValue> })[];
    values: Record<string, Described>;
    constants: Record<string, Described>;
  };
  const constants = new Map(Object.entries(graph.constants));
  const values = new Map(Object.entries(graph.values));
  const valueOf = (name: string): ValueDetails | null => {
    const constant = constants.get(name);
    const described = constant ?? values.get(name);
    return described ? { ...described, name, constant: constant !== undefined } : null;
  };
  const readers = new Map<string, Set<number>>();
  for (const [place, { inputs }] of graph.nodes.entries()) {
    for (const name of inputs) readers.set(name, (readers.get(name) ?? new Set()).add(place));
  }
  const returned = new Set(graph.outputs);
  return {
    nodes: graph.nodes.map((node) => ({
      ...node,
      inputValues: node.inputs.map(valueOf),
      outputValues: node.outputs.map(valueOf),
    })),
    next: graph.nodes.map(({ outputs }) => {
      const [result, ...more] = outputs;
      if (!result || more.some((name) => name !== '') || returned.has(result)) return -1;
      const [reader = -1, ...others] = readers.get(result) ?? [];
      return others.length > 0 ? -1 : reader;
    }),
    returned,
  };
}

/**
 * The operators of a model in its order, with their attributes and the types of the values that they read and
 * write. Bodies of If, Loop and Scan are null among the attributes.
 *
 * @throws RequantError INVALID_ARGUMENT for a value that is no model.
 */
export async function nodeDetails(model: Model): Promise<readonly NodeDetails[]> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`this needs a Model, not ${show(model)}`, 'model', 'Use loadModel().');
  }
  await loadToolsFor(model);
  return describeModel(model).nodes;
}

/** @internal The type of an operator, with the domain if it is not ONNX's own. */
export const qualifiedOp = ({ op, domain }: NodeInfo): string =>
  domain === '' ? op : `${domain}::${op}`;

// Patterns of operators that something else computes as one: chains with alternatives, members that may be
// missing, and conditions.

import { invalidArgument, show } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { type GraphDetails, type NodeDetails, qualifiedOp } from './node_details.js';

/** A member of a pattern. */
export interface PatternNode {
  /** The operator's type (`'Conv'`, or with its domain `'com.microsoft::QGemm'`), or a list of alternatives. */
  op: string | readonly string[];
  /** Whether the pattern also matches without it; it is taken where it is there. Default false. */
  optional?: boolean;
  /**
   * A further condition: gets the operator, with its attributes, shapes, types and which of its inputs are
   * constant, and the operators of the chain before it.
   */
  if?: (node: NodeDetails, before: readonly NodeDetails[]) => boolean;
}

/** A chain of operators; a text stands for `{ op: text }`. */
export type PatternChain = readonly (string | PatternNode)[];

/** A chain of operators, with or without a name. */
export type Pattern = PatternChain | { name: string; nodes: PatternChain };

/** @internal A pattern that is checked. */
export interface CheckedPattern {
  name: string;
  nodes: readonly {
    ops: readonly string[];
    optional: boolean;
    if: PatternNode['if'] | undefined;
  }[];
}

/** Patterns are searched along every chain, so their length is limited. */
const MOST_NODES = 64;

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '';

function checkNode(node: unknown, place: string): CheckedPattern['nodes'][number] {
  if (isName(node)) return { ops: [node], optional: false, if: undefined };
  if (typeof node === 'string') throw invalidArgument(`${place} is ${show(node)}`, place);
  checkOptions(node, { op: 'any', optional: 'boolean', if: 'function' }, place);
  const { op, optional = false, if: condition } = node as PatternNode;
  const ops: readonly unknown[] = Array.isArray(op) ? op : [op];
  if (ops.length === 0 || !ops.every(isName)) {
    throw invalidArgument(
      `${place}.op is ${show(op)}`,
      `${place}.op`,
      'Give the type of an operator, or a list of them.',
    );
  }
  return { ops, optional, if: condition };
}

/** The text form of a pattern: alternatives between bars, "?" behind what may be missing. */
const textOf = (nodes: CheckedPattern['nodes']): string =>
  nodes.map(({ ops, optional }) => `${ops.join('|')}${optional ? '?' : ''}`).join('+');

/** @internal Throws INVALID_ARGUMENT for what is no pattern. */
export function checkPattern(pattern: unknown, place: string): CheckedPattern {
  const named = typeof pattern === 'object' && pattern !== null && !Array.isArray(pattern);
  if (named) checkOptions(pattern, { name: 'string', nodes: 'any' }, place);
  const list = named ? (pattern as { nodes?: unknown }).nodes : pattern;
  if (!Array.isArray(list) || list.length === 0 || list.length > MOST_NODES) {
    throw invalidArgument(
      `${place} is no list of operators: ${show(list)}`,
      place,
      `Give a list of 1 to ${MOST_NODES} types of operators or { op, optional, if }.`,
    );
  }
  const nodes = list.map((node, i) => checkNode(node, `${place}[${i}]`));
  if (nodes.every(({ optional }) => optional)) {
    throw invalidArgument(`${place} has no operator that must be there`, place);
  }
  const name = named ? (pattern as { name?: unknown }).name : textOf(nodes);
  if (!isName(name)) throw invalidArgument(`${place} has no name`, `${place}.name`);
  return { name, nodes };
}

/**
 * @internal Reads the text form: operators between "+", alternatives between "|", "?" behind what may be
 * missing, as in `Conv+Add?+Relu|Clip?`.
 */
export function parsePattern(text: string): PatternNode[] {
  return text.split('+').map((member) => {
    const optional = member.endsWith('?');
    const ops = (optional ? member.slice(0, -1) : member).split('|').map((op) => op.trim());
    return { op: ops, optional };
  });
}

/**
 * @internal The chains from one operator on that match, as places in the list of operators, the longest
 * first.
 */
function chainsFrom(graph: GraphDetails, first: number, pattern: CheckedPattern): number[][] {
  // Each operator has one successor at most, so that a chain is known by its length, and so is what remains
  // to be done by the length and the place in the pattern.
  const lengths = new Set<number>();
  const tried = new Set<number>();
  const chain = [first];
  const placeAt = (length: number): number => {
    while (chain.length <= length) {
      const last = chain.at(-1)!;
      chain.push(last < 0 ? -1 : graph.next[last]!);
    }
    return chain[length]!;
  };
  const search = (member: number, length: number): void => {
    if (member === pattern.nodes.length) {
      if (length > 0) lengths.add(length);
      return;
    }
    const state = member * (MOST_NODES + 1) + length;
    if (tried.has(state)) return;
    tried.add(state);
    const { ops, optional, if: condition } = pattern.nodes[member]!;
    const node = graph.nodes[placeAt(length)];
    const before = chain.slice(0, length).map((place) => graph.nodes[place]!);
    if (
      node &&
      ops.includes(qualifiedOp(node)) &&
      (condition === undefined || condition(node, before))
    ) {
      search(member + 1, length + 1);
    }
    if (optional) search(member + 1, length);
  };
  search(0, 0);
  return [...lengths].sort((a, b) => b - a).map((length) => chain.slice(0, length));
}

/** @internal All chains that match, by their first operator; of one operator the longest first. */
export function matchPattern(graph: GraphDetails, pattern: CheckedPattern): number[][] {
  return graph.nodes.flatMap((_, first) => chainsFrom(graph, first, pattern));
}

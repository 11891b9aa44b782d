// Patterns of operators that something else computes as one, with alternatives, members that may be missing,
// and conditions: chains, and patterns with branches (branches.ts).

import { invalidArgument, show } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { MOST_OPTIONAL, hasBranches, matchBranches, unconnected } from './branches.js';
import { type GraphDetails, qualifiedOp } from './node_details.js';
import type { CheckedPattern, PatternNode } from './pattern.js';

/** Patterns are searched along every chain, so their length is limited. */
const MOST_NODES = 64;
/** A branch may be looked for in many places. */
const MOST_WITH_BRANCHES = 16;

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '';

function checkNode(node: unknown, place: string): CheckedPattern['nodes'][number] {
  const plain = { optional: false, inputs: undefined, outputs: undefined, if: undefined };
  if (isName(node)) return { ops: [node], ...plain };
  if (typeof node === 'string') throw invalidArgument(`${place} is ${show(node)}`, place);
  const kinds = {
    op: 'any',
    optional: 'boolean',
    inputs: 'any',
    outputs: 'any',
    if: 'function',
  } as const;
  checkOptions(node, kinds, place);
  const { op, optional = false, inputs, outputs, if: condition } = node as PatternNode;
  const ops: readonly unknown[] = Array.isArray(op) ? op : [op];
  if (ops.length === 0 || !ops.every(isName)) {
    throw invalidArgument(
      `${place}.op is ${show(op)}`,
      `${place}.op`,
      'Give the type of an operator, or a list of them.',
    );
  }
  checkNames(inputs, `${place}.inputs`);
  checkNames(outputs, `${place}.outputs`);
  return { ops, optional, inputs, outputs, if: condition };
}

function checkNames(names: unknown, place: string): void {
  if (names === undefined) return;
  const list: readonly unknown[] = Array.isArray(names) ? names : [];
  if (list.length > 0 && list.every((name) => name === null || isName(name))) return;
  throw invalidArgument(
    `${place} is ${show(names)}`,
    place,
    'Give a list of names, with null for values without one.',
  );
}

/** Throws INVALID_ARGUMENT for names that make no pattern. */
function checkBranches(pattern: CheckedPattern, place: string): void {
  const { nodes } = pattern;
  if (nodes.length > MOST_WITH_BRANCHES) {
    throw invalidArgument(
      `${place} has ${nodes.length} members and names values`,
      place,
      `A pattern with branches has at most ${MOST_WITH_BRANCHES} members.`,
    );
  }
  if (nodes.filter(({ optional }) => optional).length > MOST_OPTIONAL) {
    throw invalidArgument(
      `more than ${MOST_OPTIONAL} members of ${place} may be missing`,
      place,
      'Give several patterns instead.',
    );
  }
  const made = nodes.flatMap(({ outputs = [] }) => outputs.filter((name) => name !== null));
  const twice = made.find((name, i) => made.indexOf(name) !== i);
  if (twice !== undefined) {
    throw invalidArgument(`two members of ${place} compute "${twice}"`, place);
  }
  const alone = unconnected(pattern);
  if (alone >= 0) {
    throw invalidArgument(
      `no value connects ${place}[${alone}] with the other members`,
      `${place}[${alone}]`,
      'Name a value that it shares with another member in `inputs` or `outputs`.',
    );
  }
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
  const checked = { name, nodes };
  if (hasBranches(checked)) checkBranches(checked, place);
  return checked;
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

/** @internal All places where a pattern matches, by its first operator; of one operator the longest first. */
export function matchPattern(graph: GraphDetails, pattern: CheckedPattern): number[][] {
  if (hasBranches(pattern)) return matchBranches(graph, pattern);
  return graph.nodes.flatMap((_, first) => chainsFrom(graph, first, pattern));
}

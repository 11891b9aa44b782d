// Patterns with branches: operators that read several results of others, or make several. Their members name
// values; every member with the same name means one value.

import { type GraphDetails, type NodeDetails, qualifiedOp } from './node_details.js';
import type { CheckedPattern } from './pattern.js';

type Member = CheckedPattern['nodes'][number];

/** Operators of two operands that may change places. */
const COMMUTATIVE = new Set([
  'Add',
  'Mul',
  'Max',
  'Min',
  'Sum',
  'Mean',
  'And',
  'Or',
  'Xor',
  'Equal',
  'BitwiseAnd',
  'BitwiseOr',
  'BitwiseXor',
]);

/** The most members of such a pattern that may be missing: every selection of them is searched. */
export const MOST_OPTIONAL = 6;

/** @internal Whether a member names values, so that the pattern is no chain. */
export const hasBranches = ({ nodes }: CheckedPattern): boolean =>
  nodes.some(({ inputs, outputs }) => inputs !== undefined || outputs !== undefined);

/** A member with the names of all of its values; null: any value. */
interface Place {
  ops: readonly string[];
  if: Member['if'];
  inputs: readonly (string | null)[];
  outputs: readonly (string | null)[];
  /** Whether `inputs` are all: a member without `inputs` may read others beside the one of the member before. */
  position: 'given' | 'any';
}

/** The forms of a pattern: with all members that may be missing, then with fewer. */
function formsOf(members: readonly Member[]): Place[][] {
  const missing = members.flatMap(({ optional }, at) => (optional ? [at] : []));
  const forms: { left: number; places: Place[] }[] = [];
  for (let out = 0; out < 2 ** missing.length; out++) {
    const isMissing = (at: number): boolean =>
      missing.includes(at) && ((out >> missing.indexOf(at)) & 1) === 1;
    // A missing member's result is what it would have read.
    const stands = new Map<string, string>();
    const nameOf = (name: string): string => {
      const other = stands.get(name);
      return other === undefined ? name : nameOf(other);
    };
    let before: string | null = null;
    const places: Place[] = [];
    for (const [at, { ops, if: condition, inputs, outputs }] of members.entries()) {
      const first: string | null = inputs?.find((name) => name !== null) ?? before;
      if (isMissing(at)) {
        const result = outputs?.[0];
        if (result && first !== null && result !== first) stands.set(result, first);
        before = first;
        continue;
      }
      const made = outputs ?? [`#${at}`];
      places.push({
        ops,
        if: condition,
        inputs: inputs ?? (before === null ? [] : [before]),
        outputs: made,
        position: inputs ? 'given' : 'any',
      });
      before = made.find((name) => name !== null) ?? null;
    }
    const named = places.map((place) => ({
      ...place,
      inputs: place.inputs.map((name) => name && nameOf(name)),
    }));
    if (named.length > 0) forms.push({ left: named.length, places: named });
  }
  return forms.sort((a, b) => b.left - a.left).map(({ places }) => places);
}

/** The ways in which a member's names may lie on an operator's inputs. */
function* arrangements(place: Place, { op, inputs }: NodeDetails): Generator<(string | null)[]> {
  if (place.position === 'any') {
    const [name] = place.inputs;
    if (name === undefined) {
      yield [];
      return;
    }
    for (const at of inputs.keys()) yield [...Array<null>(at).fill(null), name!];
    return;
  }
  if (place.inputs.length > inputs.length) return;
  yield [...place.inputs];
  if (COMMUTATIVE.has(op) && inputs.length === 2) {
    const [a = null, b = null] = place.inputs;
    if (a !== b) yield [b, a];
  }
}

class Search {
  readonly #graph: GraphDetails;
  readonly #readers = new Map<string, number[]>();
  readonly #makers = new Map<string, number>();

  constructor(graph: GraphDetails) {
    this.#graph = graph;
    for (const [at, { inputs, outputs }] of graph.nodes.entries()) {
      for (const name of new Set(inputs)) {
        const readers = this.#readers.get(name) ?? [];
        readers.push(at);
        this.#readers.set(name, readers);
      }
      for (const name of outputs) this.#makers.set(name, at);
    }
  }

  /** The operators that may be a member, from what is known of its values; null: nothing is known. */
  #candidates(place: Place, bound: ReadonlyMap<string, string>): readonly number[] | null {
    for (const name of place.outputs) {
      const value = name === null ? undefined : bound.get(name);
      if (value !== undefined) {
        const maker = this.#makers.get(value);
        return maker === undefined ? [] : [maker];
      }
    }
    for (const name of place.inputs) {
      const value = name === null ? undefined : bound.get(name);
      if (value !== undefined) return this.#readers.get(value) ?? [];
    }
    return null;
  }

  /** `bound` with the values that the names get, or null if one of them is another value already. */
  static #bind(
    names: readonly (string | null)[],
    values: readonly string[],
    bound: ReadonlyMap<string, string>,
  ): Map<string, string> | null {
    const made = new Map(bound);
    for (const [at, name] of names.entries()) {
      if (name === null) continue;
      const value = values[at];
      if (!value || (made.get(name) ?? value) !== value) return null;
      made.set(name, value);
    }
    return made;
  }

  /** Calls `found` with the operators of the members, by the order of the members, until it returns true. */
  #extend(
    places: readonly Place[],
    at: readonly (number | null)[],
    bound: ReadonlyMap<string, string>,
    found: (nodes: number[]) => boolean,
  ): boolean {
    const open = places.flatMap((_, member) => (at[member] === null ? [member] : []));
    if (open.length === 0) return found(at as number[]);
    for (const member of open) {
      const place = places[member]!;
      const candidates = this.#candidates(place, bound);
      if (candidates === null) continue;
      return candidates.some((node) => this.#place(places, at, bound, member, node, found));
    }
    return false; // checkBranches() lets no such pattern through
  }

  #place(
    places: readonly Place[],
    at: readonly (number | null)[],
    bound: ReadonlyMap<string, string>,
    member: number,
    node: number,
    found: (nodes: number[]) => boolean,
  ): boolean {
    const place = places[member]!;
    const details = this.#graph.nodes[node]!;
    if (at.includes(node) || !place.ops.includes(qualifiedOp(details))) return false;
    const made = Search.#bind(place.outputs, details.outputs, bound);
    if (made === null) return false;
    const next = at.map((taken, i) => (i === member ? node : taken));
    for (const names of arrangements(place, details)) {
      const read = Search.#bind(names, details.inputs, made);
      if (read !== null && this.#extend(places, next, read, found)) return true;
    }
    return false;
  }

  /** Whether nobody else reads what operators compute, but for the last of them. */
  #isWhole(nodes: readonly number[]): boolean {
    const inside = new Set(nodes);
    return nodes
      .slice(0, -1)
      .every((node) =>
        this.#graph.nodes[node]!.outputs.every(
          (name) =>
            name === '' ||
            (!this.#graph.returned.has(name) &&
              (this.#readers.get(name) ?? []).every((reader) => inside.has(reader))),
        ),
      );
  }

  /** The matches whose first member is an operator: of each form the first one, as ascending places. */
  from(first: number, forms: readonly (readonly Place[])[]): number[][] {
    const matches: number[][] = [];
    for (const places of forms) {
      const none = places.map(() => null);
      this.#place(places, none, new Map(), 0, first, (nodes) => {
        const sorted = [...nodes].sort((a, b) => a - b);
        if (!this.#isWhole(sorted)) return false;
        const details = nodes.map((node) => this.#graph.nodes[node]!);
        const holds = places.every(
          ({ if: condition }, i) => !condition || condition(details[i]!, details.slice(0, i)),
        );
        if (holds) matches.push(sorted);
        return holds;
      });
    }
    return matches;
  }
}

/**
 * @internal The first member of a pattern that no value connects with those before it or behind it, in any of
 * the pattern's forms; -1: all are connected.
 */
export function unconnected({ nodes }: CheckedPattern): number {
  for (const places of formsOf(nodes)) {
    const known = new Set<string>();
    const open = new Set(places.keys());
    const take = (member: number): void => {
      open.delete(member);
      for (const name of [...places[member]!.inputs, ...places[member]!.outputs]) {
        if (name !== null) known.add(name);
      }
    };
    take(0);
    for (;;) {
      const next = [...open].find((member) =>
        [...places[member]!.inputs, ...places[member]!.outputs].some(
          (name) => name !== null && known.has(name),
        ),
      );
      if (next === undefined) break;
      take(next);
    }
    const [left] = open;
    if (left !== undefined) return nodes.findIndex(({ ops }) => ops === places[left]!.ops);
  }
  return -1;
}

/** @internal All places of a graph where a pattern with branches matches, by its first member; the longest first. */
export function matchBranches(graph: GraphDetails, { nodes }: CheckedPattern): number[][] {
  const search = new Search(graph);
  const forms = formsOf(nodes);
  return graph.nodes.flatMap((_, first) => search.from(first, forms));
}

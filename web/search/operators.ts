// Measures operators one by one: how much worse the model becomes if only this operator is quantized.

import type { BitFormat } from '../base/search_report.js';
import type { OperatorConfig, QuantizeConfig } from '../quantize/config.js';
import type { QuantizationRecord } from '../quantize/record.js';
import { bitsOf, patternOf } from './recoveries.js';

/** Operators that are computed as one, under the name of the first. */
export interface OperatorGroup {
  name: string;
  /** All of their names. */
  members: string[];
  /** The number of weights. */
  weights: number;
  /** Names of the groups that write what it reads, or read what it writes. */
  neighbors: string[];
}

const meet = (a: ReadonlySet<string>, b: ReadonlySet<string>) => [...a].some((one) => b.has(one));

/** The operators of a record that are quantized. */
export function groupsOf(record: QuantizationRecord): OperatorGroup[] {
  const weightsOf = new Map(record.analysis?.operators.map(({ name, weights }) => [name, weights]));
  const groups = record.operators
    .filter(({ quantized, computedBy, inBody }) => quantized && !computedBy && !inBody)
    .map((head) => {
      const parts = [head, ...record.operators.filter((one) => one.computedBy === head.name)];
      const values = (slots: 'inputs' | 'outputs') =>
        parts.flatMap((one) => one[slots].flatMap((slot) => (slot ? [slot.value] : [])));
      return { parts, reads: new Set(values('inputs')), writes: new Set(values('outputs')) };
    });
  return groups.map((group) => {
    const { parts, reads, writes } = group;
    const name = parts[0]!.name;
    const others = groups.filter(
      (one) => one !== group && (meet(reads, one.writes) || meet(writes, one.reads)),
    );
    return {
      name,
      members: parts.map((one) => one.name),
      weights: weightsOf.get(name) ?? 0,
      neighbors: others.map((one) => one.parts[0]!.name),
    };
  });
}

/** The cost of quantizing one operator alone. */
export interface OperatorCost {
  /** By how much the metric is worse, in its own unit; 0 where it is not. */
  loss: number;
  /** Relative noise of the outputs. */
  noise: number;
  /**
   * Whether it cannot be quantized alone, as functions of one value behind float operators: its cost is that of
   * the worst neighbor, with which it changes.
   */
  follows?: boolean;
}

/** Matches all operators. */
const EVERY = '(?:.*)';

/** The config with which only these operators are quantized, with these settings. */
export function onlyThese(
  config: QuantizeConfig,
  members: readonly string[],
  settings: OperatorConfig = {},
): QuantizeConfig {
  const own = Object.fromEntries(members.map((name) => [patternOf(name), settings]));
  return { ...config, operators: { ...config.operators, [EVERY]: null, ...own } };
}

/** An operator with the cost by which it is ranked. */
interface Ranked extends OperatorCost {
  group: OperatorGroup;
  index: number;
  /** The number of weights that count for its price. */
  weights: number;
}

const worse = (a: OperatorCost, b: OperatorCost) =>
  a.loss > b.loss || (a.loss === b.loss && a.noise > b.noise);

/** The costs of all operators; those that follow get that of their worst neighbor, by chains of such ones. */
function ranked(groups: readonly OperatorGroup[], costs: readonly OperatorCost[]): Ranked[] {
  const all = groups.map((group, index): Ranked => {
    const { loss, noise, follows = false } = costs[index]!;
    return { group, index, weights: group.weights, loss, noise, follows };
  });
  const byName = new Map(all.map((one) => [one.group.name, one]));
  const following = all.filter(({ follows }) => follows);
  // Every round hands costs on by one more operator.
  for (let changed = true; changed;) {
    changed = false;
    for (const one of following) {
      for (const name of one.group.neighbors) {
        const other = byName.get(name)!;
        if (!worse(other, one)) continue;
        [one.loss, one.noise, one.weights] = [other.loss, other.noise, other.weights];
        changed = true;
      }
    }
  }
  return all;
}

/**
 * The operators in the order in which they should get the bits of `to`: first those that lose most; of equal
 * losses those of most noise, for each byte where the file grows. Where only weights get other bits, operators
 * without weights are left out.
 */
export function inOrder(
  groups: readonly OperatorGroup[],
  costs: readonly OperatorCost[],
  from: BitFormat,
  to: BitFormat | 'float',
): OperatorGroup[] {
  const more = (to === 'float' ? 32 : bitsOf(to).weights) - bitsOf(from).weights;
  const price = ({ weights }: Ranked) => (more > 0 ? Math.max(1, weights * more) : 1);
  const weightsOnly = to !== 'float' && bitsOf(to).activations === bitsOf(from).activations;
  return ranked(groups, costs)
    .filter(({ group }) => !weightsOnly || group.weights > 0)
    .sort(
      (a, b) =>
        compare(b.loss, a.loss) ||
        compare(b.noise / price(b), a.noise / price(a)) ||
        a.index - b.index,
    )
    .map(({ group }) => group);
}

// The difference of two infinities is no number.
const compare = (a: number, b: number) => (a === b ? 0 : a - b);

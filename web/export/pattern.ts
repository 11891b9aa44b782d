// The types of a pattern: as a user writes it, and checked (patterns.ts).

import type { NodeDetails } from './node_details.js';

/** A member of a pattern. */
export interface PatternNode {
  /** The operator's type (`'Conv'`, or with its domain `'com.microsoft::QGemm'`), or a list of alternatives. */
  op: string | readonly string[];
  /** Whether the pattern also matches without it; it is taken where it is there. Default false. */
  optional?: boolean;
  /**
   * Names of the values that the operator reads, by input; null for any value. All members that give the same
   * name mean the same value, whether a member computes it or it comes from outside. Operands of Add, Mul and
   * their like may change places. Default: one input is the result of the member before.
   */
  inputs?: readonly (string | null)[];
  /** Names of the values that the operator computes, by output; null for one without a name. */
  outputs?: readonly (string | null)[];
  /**
   * A further condition: gets the operator, with its attributes, shapes, types and which of its inputs are
   * constant, and the operators of the members before it.
   */
  if?: (node: NodeDetails, before: readonly NodeDetails[]) => boolean;
}

/**
 * Operators, each of which reads what the one before computes, or the values that it names; a text stands for
 * `{ op: text }`.
 */
export type PatternChain = readonly (string | PatternNode)[];

/** Operators with or without a name for all of them. */
export type Pattern = PatternChain | { name: string; nodes: PatternChain };

/** @internal A pattern that is checked. */
export interface CheckedPattern {
  name: string;
  nodes: readonly {
    ops: readonly string[];
    optional: boolean;
    inputs: PatternNode['inputs'];
    outputs: PatternNode['outputs'];
    if: PatternNode['if'];
  }[];
}

// registerPass(): passes of the user's own, by pattern and rewrite.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkKind, checkOneOf, checkOptions } from '../base/options.js';
import type { Core } from '../core.js';
import type { CoreMatch, CorePattern, CoreReplacement, UserFailure } from '../core_own.js';
import { call } from '../engine/heap.js';
import { addToCores, removeFromCores } from '../engine/load_core.js';
import { type MatchedNode, type MatchedValue, type Operand, PassBuilder } from './builder.js';
import { fromCore, guarded, refusePromise } from './core_values.js';

/** An operator to look for. */
export interface OperatorPattern {
  op: string;
  /** Default: ONNX. */
  domain?: string;
  /** Patterns of all inputs (null: left out); without them any inputs fit. */
  inputs?: readonly (PassPattern | null)[];
  /** Whether two inputs fit in either order. */
  commutes?: boolean;
  /** The key under which the match has the operator. */
  as?: string;
  /** Whether an operator of the right kind is one to rewrite; called once the whole pattern fits. */
  if?: (node: MatchedNode, match: PassMatch) => boolean;
}

/** What a pass looks for: an operator, any value, or a constant, by the key under which the match has it. */
export type PassPattern = OperatorPattern | { value: string } | { constant: string };

/** What a pattern found. */
export interface PassMatch {
  /** The operator whose outputs are replaced. */
  readonly root: MatchedNode;
  /** Operators by the `as` of their patterns. */
  readonly nodes: Readonly<Record<string, MatchedNode>>;
  /** Values by the names in the pattern; the same name is the same value everywhere. */
  readonly values: Readonly<Record<string, MatchedValue>>;
}

/** A pass of the user's own. */
export interface PassDefinition {
  /** The name by which `optimize({ passes, disable })` knows it. */
  name: string;
  /** A line for lists of passes. */
  summary?: string;
  /** The pass that it runs before or after; default: behind all others. */
  before?: string;
  after?: string;
  /** `'by name'` (default), or `'default'`: whenever passes run, in sessions, too. */
  runs?: 'by name' | 'default';
  /** The largest error of an output that it may make, relative to the largest value of the graph; default 0. */
  bound?: number;
  /** The most rewrites of one run; default 10000. */
  limit?: number;
  pattern: OperatorPattern;
  /**
   * Returns what replaces the first output of the match's root, a list for several outputs (null: that output
   * stays), or undefined to leave the match as it is.
   */
  rewrite: (
    match: PassMatch,
    builder: PassBuilder,
  ) => Operand | readonly (Operand | undefined)[] | undefined;
}

type Condition = (nodes: Record<string, MatchedNode>, match: PassMatch) => boolean;

/** Reads a pattern; collects the conditions of its operators under the keys that they have in the match. */
function readPattern(pattern: unknown, name: string, conditions: Condition[]): CorePattern {
  if (pattern === null) return { kind: 'absent' };
  checkKind(pattern, 'object', name);
  const given = pattern as Partial<OperatorPattern> & { value?: string; constant?: string };
  for (const kind of ['value', 'constant'] as const) {
    if (given[kind] === undefined) continue;
    checkOptions(pattern, { [kind]: 'string' }, name);
    return { kind, name: given[kind] };
  }
  checkOptions(
    pattern,
    { op: 'string', domain: 'string', inputs: 'any', commutes: 'boolean', as: 'string', if: 'any' },
    name,
  );
  const { op, domain = '', inputs, commutes = false, as, if: condition } = given;
  if (op === undefined) {
    throw invalidArgument(`${name} has no op`, name, 'Give op, value or constant.');
  }
  if (inputs !== undefined && !Array.isArray(inputs)) {
    throw invalidArgument(`${name}.inputs is ${show(inputs)}`, `${name}.inputs`);
  }
  if (condition !== undefined && typeof condition !== 'function') {
    throw invalidArgument(`${name}.if is ${show(condition)}`, `${name}.if`);
  }
  const key = as ?? `#${conditions.length}`;
  conditions.push((nodes, match) => condition === undefined || condition(nodes[key]!, match));
  return {
    kind: 'operator',
    op,
    domain,
    name: key,
    commutes,
    ...(inputs === undefined
      ? {}
      : {
          inputs: inputs.map((input, i) => readPattern(input, `${name}.inputs[${i}]`, conditions)),
        }),
  };
}

function matchOf(core: Core, { root, nodes, values }: CoreMatch): PassMatch {
  const named = Object.entries(nodes).filter(([key]) => !key.startsWith('#'));
  const converted = Object.entries(values).map(([key, { name, type, dims, constant }]) => {
    // Constants are copied when they are read.
    let tensor: MatchedValue['tensor'];
    const value: MatchedValue = {
      name,
      type,
      dims,
      get tensor() {
        return constant && (tensor ??= fromCore(core, constant));
      },
    };
    return [key, value];
  });
  return {
    root,
    nodes: Object.fromEntries(named),
    values: Object.fromEntries(converted) as PassMatch['values'],
  };
}

function rewriterOf(core: Core, { name, rewrite }: PassDefinition, conditions: Condition[]) {
  return (found: CoreMatch): CoreReplacement | null | UserFailure => {
    const builder = new PassBuilder(core);
    const result = guarded(() => {
      const match = matchOf(core, found);
      if (!conditions.every((condition) => condition(found.nodes, match))) return null;
      const made = rewrite(match, builder);
      if (made === undefined) return null;
      refusePromise(made, `rewrite of ${name}`);
      return builder.finish(Array.isArray(made) ? made : [made]);
    });
    if (result === null || 'error' in result) builder.drop();
    return result;
  };
}

const keyOf = (name: string) => `pass ${name}`;

/**
 * Adds a pass to all pipelines: the operators that fit its pattern are replaced by what its function builds.
 * The graph is checked after every rewrite (operators that exist, types of results, no cycles, names that are
 * unique), and a pass without an end is stopped. `optimize()` of a model then throws, names the pass and the
 * operator, and leaves the model as it was. Models in Workers do not have the pass.
 *
 * @throws RequantError INVALID_ARGUMENT for a definition that is wrong or a name that is taken.
 * @example
 * await registerPass({
 *   name: 'DoubleToSum',
 *   pattern: { op: 'Mul', commutes: true, inputs: [{ value: 'x' }, { constant: 'two' }] },
 *   rewrite: ({ values: { x, two } }, builder) =>
 *     two.tensor?.size === 1 && two.tensor.data[0] === 2 ? builder.add('Add', [x, x]) : undefined,
 * });
 * model.optimize({ passes: ['DoubleToSum'] });
 */
export async function registerPass(definition: PassDefinition): Promise<void> {
  checkOptions(
    definition,
    {
      name: 'string',
      summary: 'string',
      before: 'string',
      after: 'string',
      runs: 'string',
      bound: 'number',
      limit: 'integer',
      pattern: 'object',
      rewrite: 'any',
    },
    'definition',
  );
  const { name, summary = '', before = '', after = '', runs = 'by name' } = definition;
  const { bound = 0, limit = 10000, rewrite } = definition;
  if (!/^[A-Za-z]\w*$/.test(name ?? '')) {
    throw invalidArgument(
      `definition.name is ${show(name)}`,
      'definition.name',
      'It must be a word of letters, digits and _.',
    );
  }
  checkOneOf(runs, ['by name', 'default'], 'definition.runs');
  checkInteger(limit, 1, MOST_INT, 'definition.limit');
  if (typeof rewrite !== 'function') {
    throw invalidArgument(`definition.rewrite is ${show(rewrite)}`, 'definition.rewrite');
  }
  if (before !== '' && after !== '') {
    throw invalidArgument('a pass runs before or after another one', 'definition.before');
  }
  const conditions: Condition[] = [];
  const pattern = readPattern(definition.pattern, 'definition.pattern', conditions);
  if (pattern.kind !== 'operator') {
    throw invalidArgument('the root of a pattern is an operator', 'definition.pattern');
  }
  await addToCores(keyOf(name), (core) => {
    call(core, () =>
      core.addPass({
        name,
        summary,
        before,
        after,
        bound,
        limit,
        byDefault: runs === 'default',
        pattern,
        rewrite: rewriterOf(core, definition, conditions),
      }),
    );
  });
}

/**
 * Takes a pass of {@link registerPass} out of all pipelines.
 *
 * @throws RequantError INVALID_ARGUMENT for a name that none has.
 */
export function removePass(name: string): void {
  if (!removeFromCores(keyOf(name), (core) => core.removePass(name))) {
    throw new RequantError('INVALID_ARGUMENT', `there is no pass "${name}" of your own`, {
      value: name,
    });
  }
}

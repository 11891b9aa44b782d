// interpret(): a model by the references of its operators, with a hook on each of them.

import { invalidArgument, show } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import { call } from '../engine/heap.js';
import { type Feeds, ownFeeds, withFeeds } from '../engine/tensors.js';
import { loadTools } from '../engine/load_core.js';
import type { Model } from '../model/model.js';
import { type RequantizeMode, checkRequantize } from '../model/planning.js';
import type { MatchedNode } from './builder.js';
import { fromCore, guarded, refusePromise } from './core_values.js';

/** A value that an operator has just computed. */
export interface InterpretedValue {
  node: MatchedNode;
  /** The value's name. */
  name: string;
  tensor: Tensor;
  /** What the operator has read, by the names in `node.inputs`; constants of the model are left out. */
  inputs: Readonly<Record<string, Tensor>>;
}

/** Options of {@link interpret}. */
export interface InterpretOptions {
  /** Default: that of the model. */
  requantize?: RequantizeMode;
  /** Called for every value that an operator computes, in order; what it throws ends the run. */
  hook?: (value: InterpretedValue) => void;
}

/**
 * Runs a model by the plain references of its operators, the oracle of the engine's tests: slow, without plan,
 * fusion or optimization, so that every operator of the graph is there to be seen.
 *
 * @throws RequantError INVALID_ARGUMENT for feeds that do not fit, and for what the hook throws.
 */
export async function interpret(
  model: Model,
  feeds: Feeds,
  options: InterpretOptions = {},
): Promise<Record<string, Tensor>> {
  checkOptions(options, { requantize: 'string', hook: 'any' }, 'options');
  checkRequantize(options.requantize, 'options.requantize');
  const { requantize = model.requantize, hook } = options;
  if (hook !== undefined && typeof hook !== 'function') {
    throw invalidArgument(`options.hook is ${show(hook)}`, 'options.hook');
  }
  const { core } = model.handle;
  await loadTools(core);
  const results: Record<string, Tensor> = {};
  const own = ownFeeds(feeds);
  const known = new Map<string, Tensor>(hook ? Object.entries(own) : []);
  const observe = hook
    ? (node: MatchedNode, name: string, given: Parameters<typeof fromCore>[1]) =>
        guarded(() => {
          const tensor = fromCore(core, given);
          known.set(name, tensor);
          const read = node.inputs.filter((input) => input !== null && known.has(input));
          const inputs = Object.fromEntries(read.map((input) => [input, known.get(input!)!]));
          refusePromise(hook({ node, name, tensor, inputs }), 'options.hook');
          return null;
        })
    : undefined;
  withFeeds(core, own, (given) =>
    call(core, () =>
      core.interpret(model.handle.object, ...given, { requantize }, observe, (name, tensor) => {
        results[name] = fromCore(core, tensor);
      }),
    ),
  );
  return results;
}

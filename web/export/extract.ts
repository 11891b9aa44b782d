// Cuts a part out of a model.

import { invalidArgument } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { call } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { graphOf, typedCopy } from './partition.js';

/** Options of {@link extract}. */
export interface ExtractOptions {
  /**
   * Where the part begins: names of values, which become its inputs in this order, or of operators, which stand
   * for the values that they read and that are not constant. Default the inputs of the model.
   */
  from?: readonly string[];
  /** Where it ends: names of values, which become its outputs, or of operators, which stand for their results. */
  to: readonly string[];
  /** Shapes of the model's inputs, by name; the part is then for the shapes that follow. Default open ones stay. */
  shapes?: Readonly<Record<string, readonly number[]>>;
}

/**
 * The part of a model that computes `to` from `from`, as a model of its own with the same names. A quantized
 * model is cut as its integer graph.
 *
 * @throws RequantError INVALID_ARGUMENT for a name that the model does not have, for an input of the model that
 * `to` needs and `from` does not cut off, and for a value of `from` that `to` does not need.
 * @example
 * const block = await extract(model, { from: ['relu3'], to: ['relu6'] });
 */
export async function extract(
  model: Model | QuantizedModel,
  options: ExtractOptions,
): Promise<Model> {
  const graph = graphOf(model, 'extract');
  checkOptions(options, { from: 'strings', to: 'strings', shapes: 'object' }, 'options');
  const { from = [], to, shapes } = options;
  if (!Array.isArray(to) || to.length === 0) {
    throw invalidArgument('options.to names nothing', 'options.to', 'Name a value or an operator.');
  }
  await loadToolsFor(graph);
  const typed = typedCopy(graph, shapes);
  try {
    const { core, object } = typed.handle;
    return new Model(
      core,
      call(core, () => core.extract(object, [...from], [...to])),
      graph.requantize,
    );
  } finally {
    typed.dispose();
  }
}

// Divides models among backends: parts that another engine runs, and the parts of this engine.

import { invalidArgument, show } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import type { CoreComposite, CorePart } from '../core.js';
import { call } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { inputShapes } from '../model/model_info.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import {
  type Backend,
  type CheckedBackend,
  type Part,
  checkBackends,
  makeComposite,
} from './backend.js';
import { type GraphDetails, describeModel, qualifiedOp } from './node_details.js';
import { Partition } from './partitioned.js';
import { matchPattern } from './patterns.js';

/** Options of {@link partition}. */
export interface PartitionOptions {
  /** Backends in order of precedence. Operators that none takes stay with this engine. */
  backends: readonly Backend[];
  /**
   * Shapes of the inputs, by name: needed with `'c'` for those whose dimensions are not all known. The parts
   * are then for these shapes.
   */
  shapes?: Readonly<Record<string, readonly number[]>>;
}

function placesFor(model: Model, graph: GraphDetails, { operators = [] }: Backend): number[] {
  const { core, object } = model.handle;
  if (operators === 'c') {
    return call(core, () => core.nodesInC(object, { requantize: model.requantize }));
  }
  const takes =
    typeof operators === 'function'
      ? operators
      : (node: GraphDetails['nodes'][number]) => operators.includes(qualifiedOp(node));
  return graph.nodes.flatMap((node, place) => (takes(node) ? [place] : []));
}

const compositesFor = (graph: GraphDetails, { checkedPatterns }: CheckedBackend): CoreComposite[] =>
  checkedPatterns.flatMap((pattern, index) =>
    matchPattern(graph, pattern).map((nodes) => ({ pattern: index, nodes })),
  );

/** @internal A model for an engine that is given the whole model or a quantized one. */
export function graphOf(model: unknown, what: string): Model {
  const graph = model instanceof QuantizedModel ? model.integerModel : model;
  if (graph instanceof Model) return graph;
  throw invalidArgument(
    `${what} needs a model, not ${show(model)}`,
    'model',
    'Use loadModel() or quantize().',
  );
}

/**
 * @internal A copy of a model with the types of all values: for shapes of its inputs if some are given or
 * `fixed`. Its tools must be loaded.
 */
export function typedCopy(
  model: Model,
  shapes: Readonly<Record<string, readonly number[]>> | undefined,
  fixed = false,
): Model {
  const { core, object } = model.handle;
  const { inputs } = model.info;
  const needed = shapes !== undefined || fixed;
  const dims = needed ? inputShapes(inputs, shapes ?? {}) : [];
  const names = needed ? inputs.map(({ name }) => name) : [];
  return new Model(
    core,
    call(core, () => core.withTypes(object, names, dims)),
    model.requantize,
  );
}

/** The parts that the core has made, in the form that users see. */
function partsOf(
  made: readonly CorePart[],
  backends: readonly CheckedBackend[],
  graph: Model,
): Part[] {
  const parts = made.map(({ backend, macs, model }, i) => ({
    name: `part${i}`,
    backend: backends[backend]?.name ?? null,
    macs,
    model: new Model(graph.handle.core, model, graph.requantize),
  }));
  return parts.map((part, i) => {
    const { backend, composites } = made[i]!;
    const nodes = composites.length > 0 ? describeModel(part.model).nodes : [];
    return {
      ...part,
      composites: composites.map((composite) =>
        makeComposite(
          backends[backend]!.checkedPatterns[composite.pattern]!.name,
          composite.nodes.map((place) => nodes[place]!),
        ),
      ),
    };
  });
}

/**
 * Divides a model among backends and this engine. Operators that a backend takes are joined to as few parts
 * as possible, none of which waits for a later one. A quantized model is divided as its integer graph.
 *
 * @throws RequantError INVALID_ARGUMENT; what functions of backends throw.
 * @example
 * const parts = await partition(model, { backends: [{ name: 'webnn', operators: ['Conv', 'Relu', 'Add'] }] });
 * const session = await parts.createSession({ webnn: (part) => compileForWebNN(part.model.toOnnx()) });
 */
export async function partition(
  model: Model | QuantizedModel,
  options: PartitionOptions,
): Promise<Partition> {
  const graph = graphOf(model, 'partition');
  checkOptions(options, { backends: 'any', shapes: 'object' }, 'options');
  const { shapes } = options;
  const backends = checkBackends(options.backends, 'options.backends');
  await loadToolsFor(graph);
  const { core } = graph.handle;
  const typed = typedCopy(
    graph,
    shapes,
    backends.some(({ operators }) => operators === 'c'),
  );
  try {
    const details = describeModel(typed);
    const specs = backends.map((backend) => {
      const { maxOperators = 0, minMacs = 0, join = true } = backend;
      const composites = compositesFor(details, backend);
      return { takes: placesFor(typed, details, backend), composites, maxOperators, minMacs, join };
    });
    const made = call(core, () => core.partition(typed.handle.object, specs));
    return new Partition({
      parts: partsOf(made, backends, graph),
      backends,
      blobs: new Map(),
      inputs: graph.info.inputs,
      outputs: graph.info.outputs,
      requantize: graph.requantize,
    });
  } finally {
    typed.dispose();
  }
}

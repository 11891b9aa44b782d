/// <reference lib="esnext.disposable" preserve="true" />

// Divides models among backends: parts that another engine runs, and the parts of this engine.

import { invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkKind, checkOptions } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import type { CoreBackend, CorePart } from '../core.js';
import { type Feeds, call, makeDisposable } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { type NodeInfo, type ValueInfo, inputShapes } from '../model/model_info.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession } from '../session/session.js';
import type { SessionOptions } from '../session/session_options.js';

/** A backend that may run parts of a model: WebNN, a GPU, another engine, the C of {@link generateC}. */
export interface Backend {
  name: string;
  /**
   * The operators that the backend takes: types (`'Conv'`, or with their domain `'com.microsoft::QGemm'`), a
   * function that decides, or `'c'` for those that {@link generateC} has a form for. Default none but those
   * of patterns.
   */
  operators?: readonly string[] | ((node: NodeInfo) => boolean) | 'c';
  /**
   * Chains of operators that the backend runs as one, such as `['Conv', 'Add', 'Relu']`, tried in this order
   * before single operators. Only the next operator may read each result.
   */
  patterns?: readonly (readonly string[])[];
  /** The most operators of a part. Default any number. */
  maxOperators?: number;
  /** The least multiply-adds of a part: smaller ones stay with this engine. Default 0. */
  minMacs?: number;
}

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

/** A part of a model. */
export interface Part {
  /** "part0", "part1", ..., in an order in which the parts can run. */
  name: string;
  /** The backend's name; null: this engine. */
  backend: string | null;
  /** Its operators as a model; values keep the names of the whole model. */
  model: Model;
  /** Multiply-adds, where open dimensions count as 1. */
  macs: number;
}

/** Runs a part on its backend: feeds by the names of its inputs, outputs by theirs. */
export type PartRunner = (feeds: Feeds) => Record<string, Tensor> | Promise<Record<string, Tensor>>;

const defaults: Omit<CoreBackend, 'takes'> = { patterns: [], maxOperators: 0, minMacs: 0 };

const qualified = ({ op, domain }: NodeInfo): string => (domain === '' ? op : `${domain}::${op}`);

function checkBackend(backend: Backend, place: string): void {
  const kinds = {
    name: 'string',
    operators: 'any',
    patterns: 'any',
    maxOperators: 'integer',
    minMacs: 'integer',
  } as const;
  checkOptions(backend, kinds, place);
  const { name, operators, patterns = [], maxOperators = 0, minMacs = 0 } = backend;
  if (typeof name !== 'string' || name === '') {
    throw invalidArgument(`${place} has no name`, `${place}.name`);
  }
  const isList = (list: unknown): list is string[] =>
    Array.isArray(list) && list.every((item) => typeof item === 'string' && item !== '');
  const known = operators === undefined || operators === 'c' || typeof operators === 'function';
  if (!known && !isList(operators)) {
    throw invalidArgument(
      `${place}.operators is ${show(operators)}`,
      `${place}.operators`,
      "Give a list of operator types, a function, or 'c'.",
    );
  }
  if (!Array.isArray(patterns) || !patterns.every((list) => isList(list) && list.length > 0)) {
    throw invalidArgument(
      `${place}.patterns is no list of lists of operator types`,
      `${place}.patterns`,
    );
  }
  checkInteger(maxOperators, 0, MOST_INT, `${place}.maxOperators`);
  checkInteger(minMacs, 0, Number.MAX_SAFE_INTEGER, `${place}.minMacs`);
}

function placesFor(model: Model, { operators = [] }: Backend): number[] {
  const { core, object } = model.handle;
  if (operators === 'c') {
    return call(core, () => core.nodesInC(object, { requantize: model.requantize }));
  }
  const takes =
    typeof operators === 'function'
      ? operators
      : (node: NodeInfo) => operators.includes(qualified(node));
  return model.info.nodes.flatMap((node, place) => (takes(node) ? [place] : []));
}

/** A model in parts. `dispose()` gives their memory back; sessions do not need them. */
export class Partition {
  /** The parts in an order in which they can run. */
  readonly parts: readonly Part[];
  readonly #inputs: readonly ValueInfo[];
  readonly #outputs: readonly ValueInfo[];

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(parts: readonly Part[], model: Model) {
    this.parts = parts;
    this.#inputs = model.info.inputs;
    this.#outputs = model.info.outputs;
  }

  /**
   * Prepares every part to run: by `runners[backend](part)` on backends, by sessions of this engine with
   * `options` otherwise.
   *
   * @throws RequantError INVALID_ARGUMENT for a backend without a runner; what a runner or {@link
   * InferenceSession.create} throws.
   */
  async createSession(
    runners: Readonly<Record<string, (part: Part) => PartRunner | Promise<PartRunner>>>,
    options: SessionOptions = {},
  ): Promise<PartitionedSession> {
    const steps: Step[] = [];
    try {
      for (const part of this.parts) {
        const { inputs, outputs } = part.model.info;
        const names = {
          inputs: inputs.map(({ name }) => name),
          outputs: outputs.map(({ name }) => name),
        };
        if (part.backend === null) {
          const { requantize } = part.model;
          const session = await InferenceSession.create(part.model, { requantize, ...options });
          steps.push({ ...names, run: (feeds) => session.run(feeds), session });
          continue;
        }
        const make = Object.hasOwn(runners, part.backend) ? runners[part.backend] : undefined;
        if (typeof make !== 'function') {
          throw invalidArgument(
            `nothing runs the parts of backend "${part.backend}"`,
            `runners.${part.backend}`,
            'Give a function that makes a runner of a part.',
          );
        }
        steps.push({ ...names, run: await make(part), part: part.name });
      }
    } catch (error) {
      for (const { session } of steps) session?.dispose();
      throw error;
    }
    return new PartitionedSession(steps, this.#inputs, this.#outputs);
  }

  /** Gives the memory of all parts back. */
  dispose(): void {
    for (const { model } of this.parts) model.dispose();
  }
}

makeDisposable(Partition, function (this: Partition) {
  this.dispose();
});

interface Step {
  inputs: string[];
  outputs: string[];
  run: PartRunner;
  session?: InferenceSession;
  /** Name of a backend's part. */
  part?: string;
}

/** Runs the parts of a model one after another; {@link Partition.createSession} makes it. */
export class PartitionedSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly #steps: Step[];

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(steps: Step[], inputs: readonly ValueInfo[], outputs: readonly ValueInfo[]) {
    this.#steps = steps;
    this.inputNames = inputs.map(({ name }) => name);
    this.outputNames = outputs.map(({ name }) => name);
  }

  /**
   * @throws RequantError INVALID_ARGUMENT for feeds that are missing or unknown, and for a runner that leaves
   * out an output; what the parts throw.
   */
  async run(feeds: Feeds): Promise<Record<string, Tensor>> {
    checkKind(feeds, 'object', 'feeds');
    const unknown = Object.keys(feeds).find((name) => !this.inputNames.includes(name));
    if (unknown !== undefined) {
      throw invalidArgument(`the model has no input "${unknown}"`, unknown);
    }
    const missing = this.inputNames.find((name) => !Object.hasOwn(feeds, name));
    if (missing !== undefined) throw invalidArgument(`input "${missing}" is missing`, missing);
    const values = new Map<string, Feeds[string]>(Object.entries(feeds));
    for (const { inputs, outputs, run, part } of this.#steps) {
      const results = await run(
        Object.fromEntries(inputs.map((name) => [name, values.get(name)!])),
      );
      for (const name of outputs) {
        const tensor = results[name];
        if (tensor === undefined) {
          throw invalidArgument(`the runner of ${part} gave no "${name}"`, name);
        }
        values.set(name, tensor);
      }
    }
    return Object.fromEntries(
      this.outputNames.map((name) => {
        const { type, data, dims } = values.get(name) as Tensor;
        return [name, new Tensor(type, data, dims)];
      }),
    );
  }

  /** Gives the memory of the engine's parts back. */
  release(): Promise<void> {
    this.dispose();
    return Promise.resolve();
  }

  /** Does what {@link release} does, at once. */
  dispose(): void {
    for (const { session } of this.#steps) session?.dispose();
  }
}

makeDisposable(PartitionedSession, function (this: PartitionedSession) {
  this.dispose();
});

/**
 * Divides a model among backends and this engine. Operators that a backend takes are joined to as few parts
 * as possible, none of which waits for a later one. A quantized model is divided as its integer graph.
 *
 * @throws RequantError INVALID_ARGUMENT.
 * @example
 * const parts = await partition(model, { backends: [{ name: 'webnn', operators: ['Conv', 'Relu', 'Add'] }] });
 * const session = await parts.createSession({ webnn: (part) => compileForWebNN(part.model.toOnnx()) });
 */
export async function partition(
  model: Model | QuantizedModel,
  options: PartitionOptions,
): Promise<Partition> {
  const graph = model instanceof QuantizedModel ? model.integerModel : model;
  if (!(graph instanceof Model)) {
    throw invalidArgument(`partition needs a model, not ${show(model)}`, 'model');
  }
  checkOptions(options, { backends: 'any', shapes: 'object' }, 'options');
  const { backends, shapes } = options;
  if (!Array.isArray(backends)) {
    throw invalidArgument(`options.backends is ${show(backends)}`, 'options.backends');
  }
  const list = backends as readonly Backend[];
  for (const [i, backend] of list.entries()) checkBackend(backend, `options.backends[${i}]`);
  const names = list.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) {
    throw invalidArgument(`two backends are called "${twice}"`, 'options.backends');
  }
  await loadToolsFor(graph);
  const { core } = graph.handle;
  const { inputs } = graph.info;
  const needed = shapes !== undefined || list.some(({ operators }) => operators === 'c');
  const dims = needed ? inputShapes(inputs, shapes ?? {}) : [];
  const given = needed ? inputs.map(({ name }) => name) : [];
  const object = call(core, () => core.withTypes(graph.handle.object, given, dims));
  const typed = new Model(core, object, graph.requantize);
  let made: CorePart[];
  try {
    const specs = list.map((backend) => {
      const { patterns, maxOperators, minMacs } = { ...defaults, ...backend };
      return { takes: placesFor(typed, backend), patterns, maxOperators, minMacs };
    });
    made = call(core, () => core.partition(object, specs));
  } finally {
    typed.dispose();
  }
  const parts = made.map(({ backend, macs, model: part }, i) => ({
    name: `part${i}`,
    backend: names[backend] ?? null,
    macs,
    model: new Model(core, part, graph.requantize),
  }));
  return new Partition(parts, graph);
}

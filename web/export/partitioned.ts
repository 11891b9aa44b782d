/// <reference lib="esnext.disposable" preserve="true" />

// Divided models: their parts, sessions of them, and their form as bytes.

import { invalidArgument, show } from '../base/errors.js';
import { checkBytes, checkOptions } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import { makeDisposable } from '../engine/heap.js';
import { type Feeds, ownFeeds } from '../engine/tensors.js';
import { loadModel, loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import type { ValueInfo } from '../model/model_info.js';
import { type RequantizeMode, checkRequantize } from '../model/planning.js';
import { InferenceSession } from '../session/session.js';
import type { SessionOptions } from '../session/session_options.js';
import {
  type Backend,
  type CheckedBackend,
  type CompiledPart,
  type Part,
  type PartRunner,
  checkBackends,
  makeComposite,
} from './backend.js';
import { describeModel } from './node_details.js';
import { type SavedPart, damaged, readPartition, writePartition } from './partition_file.js';

/** @internal What a partition is made of. */
export interface PartitionContents {
  parts: readonly Part[];
  backends: readonly Backend[];
  /** The backends' own forms, by the name of the part. */
  blobs: ReadonlyMap<string, Uint8Array>;
  inputs: readonly ValueInfo[];
  outputs: readonly ValueInfo[];
  requantize: RequantizeMode;
}

/** Makes a part ready to run; {@link Partition.createSession} takes one for each backend. */
export type MakeRunner = (part: Part) => CompiledPart | Promise<CompiledPart>;

function checkCompiled(compiled: unknown, { backend, name }: Part): CompiledPart {
  const run =
    typeof compiled === 'object' && compiled !== null
      ? (compiled as { run?: unknown }).run
      : compiled;
  if (typeof run === 'function') return compiled as CompiledPart;
  throw invalidArgument(
    `backend "${backend}" made ${show(compiled)} of ${name}`,
    backend ?? name,
    'It must make a function from feeds to outputs, or an object with such a function, run.',
  );
}

const release = (compiled: CompiledPart): void => {
  if (typeof compiled === 'object') compiled.dispose?.();
};

/** A model in parts. `dispose()` gives their memory back; sessions do not need them. */
export class Partition {
  /** The parts in an order in which they can run. */
  readonly parts: readonly Part[];
  readonly #contents: PartitionContents;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(contents: PartitionContents) {
    this.parts = contents.parts;
    this.#contents = contents;
  }

  /** The own form of a part, or else what `compile` makes. */
  async #compile(part: Part, given?: MakeRunner): Promise<CompiledPart> {
    const { backends, blobs } = this.#contents;
    const backend = backends.find(({ name }) => name === part.backend);
    if (given === undefined) {
      const blob = blobs.get(part.name);
      const compiled = blob && (await backend?.deserialize?.(blob, part));
      if (compiled) return checkCompiled(compiled, part);
    }
    const make = given ?? backend?.compile;
    if (typeof make !== 'function') {
      throw invalidArgument(
        `nothing runs the parts of backend "${part.backend}"`,
        `runners.${part.backend}`,
        'Give a function that makes a runner of a part, or the backend a function compile.',
      );
    }
    return checkCompiled(await make(part), part);
  }

  /**
   * Prepares every part to run: on backends by `runners[backend](part)`, or else by the backend's own
   * `deserialize` or `compile`; otherwise by sessions of this engine with `options`.
   *
   * @throws RequantError INVALID_ARGUMENT for a backend that nothing runs; what a backend or {@link
   * InferenceSession.create} throws.
   */
  async createSession(
    runners: Readonly<Record<string, MakeRunner>> = {},
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
          steps.push({
            ...names,
            run: (feeds) => session.run(feeds),
            release: () => session.dispose(),
          });
          continue;
        }
        const given = Object.hasOwn(runners, part.backend) ? runners[part.backend] : undefined;
        const compiled = await this.#compile(part, given);
        steps.push({
          ...names,
          run: (feeds) => (typeof compiled === 'function' ? compiled(feeds) : compiled.run(feeds)),
          release: () => release(compiled),
          part: part.name,
        });
      }
    } catch (error) {
      for (const step of steps) step.release();
      throw error;
    }
    const { inputs, outputs } = this.#contents;
    return new PartitionedSession(steps, inputs, outputs);
  }

  /**
   * The parts as bytes, which {@link loadPartition} takes: their models, and the own forms of backends that
   * have `serialize`, which compile their parts for it.
   *
   * @throws RequantError INVALID_ARGUMENT for a `serialize` that gives no Uint8Array; what a backend throws.
   */
  async save(): Promise<Uint8Array<ArrayBuffer>> {
    const { inputs, outputs, requantize } = this.#contents;
    const parts: SavedPart[] = [];
    for (const part of this.parts) {
      const { backend, macs, model } = part;
      const composites = part.composites.map(({ pattern, nodes }) => ({
        pattern,
        nodes: nodes.map(({ name }) => name),
      }));
      const blob = await this.#blobOf(part);
      parts.push({ backend, macs, composites, model: model.toOnnx(), blob });
    }
    return writePartition({ requantize, inputs: [...inputs], outputs: [...outputs], parts });
  }

  async #blobOf(part: Part): Promise<Uint8Array | null> {
    const { backends, blobs } = this.#contents;
    const kept = blobs.get(part.name);
    if (kept) return kept;
    const serialize = backends.find(({ name }) => name === part.backend)?.serialize;
    if (serialize === undefined) return null;
    const compiled = await this.#compile(part);
    try {
      const blob = await serialize(compiled, part);
      checkBytes(blob, `the form of ${part.name} by backend "${part.backend}"`);
      return blob;
    } finally {
      release(compiled);
    }
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
  release: () => void;
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
  async run(given: Feeds): Promise<Record<string, Tensor>> {
    const feeds = ownFeeds(given);
    const unknown = Object.keys(feeds).find((name) => !this.inputNames.includes(name));
    if (unknown !== undefined) {
      throw invalidArgument(`the model has no input "${unknown}"`, unknown);
    }
    const missing = this.inputNames.find((name) => !Object.hasOwn(feeds, name));
    if (missing !== undefined) throw invalidArgument(`input "${missing}" is missing`, missing);
    const values = new Map<string, Tensor>(Object.entries(feeds));
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
        const { type, data, dims } = values.get(name)!;
        return [name, new Tensor(type, data, dims)];
      }),
    );
  }

  /** Gives the memory of the engine's parts back, and disposes of what backends made. */
  release(): Promise<void> {
    this.dispose();
    return Promise.resolve();
  }

  /** Does what {@link release} does, at once. */
  dispose(): void {
    for (const step of this.#steps) step.release();
  }
}

makeDisposable(PartitionedSession, function (this: PartitionedSession) {
  this.dispose();
});

/** Options of {@link loadPartition}. */
export interface LoadPartitionOptions {
  /** All backends that have parts; what their operators and patterns are does not matter any more. */
  backends: readonly Backend[];
}

/** The composites of a saved part, with the operators of its model. */
function readComposites(saved: SavedPart, model: Model): Part['composites'] {
  if (saved.composites.length === 0) return [];
  const { nodes } = describeModel(model);
  const byName = new Map(nodes.map((node) => [node.name, node]));
  return saved.composites.map(({ pattern, nodes: names }) => {
    const found = names.map((name) => byName.get(name));
    if (found.some((node) => node === undefined)) throw damaged();
    return makeComposite(
      pattern,
      found.map((node) => node!),
    );
  });
}

/**
 * Reads what {@link Partition.save} wrote. Sessions run parts by the backends' own forms, without compiling
 * again; parts without one are compiled from their model.
 *
 * @throws RequantError INVALID_PLAN for bytes that are none, cut off, damaged, or of another version;
 * INVALID_ARGUMENT for parts of a backend that is not among `backends`.
 * @example
 * const parts = await loadPartition(bytes, { backends: [{ name: 'webnn', operators: ['Conv'] }] });
 * const session = await parts.createSession({ webnn: (part) => compileForWebNN(part.model.toOnnx()) });
 */
export async function loadPartition(
  bytes: Uint8Array,
  options: LoadPartitionOptions,
): Promise<Partition> {
  checkOptions(options, { backends: 'any' }, 'options');
  const backends: CheckedBackend[] = checkBackends(options.backends, 'options.backends');
  const saved = readPartition(bytes);
  const { requantize } = saved;
  checkRequantize(requantize, 'bytes');
  const names = backends.map(({ name }) => name);
  for (const { backend } of saved.parts) {
    if (backend === null || names.includes(backend)) continue;
    throw invalidArgument(
      `the partition has parts of backend "${backend}", which is not there`,
      backend,
      'Name all its backends in options.backends.',
    );
  }
  const parts: Part[] = [];
  const blobs = new Map<string, Uint8Array>();
  try {
    for (const [i, part] of saved.parts.entries()) {
      const name = `part${i}`;
      const read = await loadModel(part.model);
      const { core } = read.handle;
      const model = new Model(
        core,
        read.handle.call((object) => object.copy()),
        requantize as RequantizeMode,
      );
      read.dispose();
      parts.push({ name, backend: part.backend, macs: part.macs, model, composites: [] });
      if (part.composites.length > 0) await loadToolsFor(model);
      parts[i] = { ...parts[i]!, composites: readComposites(part, model) };
      if (part.blob) blobs.set(name, part.blob);
    }
  } catch (error) {
    for (const { model } of parts) model.dispose();
    throw error;
  }
  return new Partition({
    parts,
    backends,
    blobs,
    inputs: saved.inputs,
    outputs: saved.outputs,
    requantize: requantize as RequantizeMode,
  });
}

// Runs feeds of one kind repeatedly: their memory in the core, and that of the results, stays.

import { RequantError } from '../base/errors.js';
import type { Core, CoreResult, CoreSession } from '../core.js';
import {
  type Handle,
  type Health,
  crashedEarlier,
  disposedOf,
  engineFailed,
  healthOf,
  whenForgotten,
} from '../engine/heap.js';
import { type OwnFeeds, lostData, viewOf } from '../engine/tensors.js';

/** @internal Feeds of certain names, types and shapes, ready to be run again and again. */
export class CoreRun {
  /** Where every run leaves its outputs. */
  readonly results: readonly CoreResult[];
  readonly #handle: Handle<CoreSession>;
  readonly #core: Core;
  readonly #health: Health;
  readonly #names: readonly string[];
  readonly #types: readonly string[];
  readonly #dims: readonly (readonly number[])[];
  readonly #sizes: readonly number[];
  readonly #inputs: readonly number[];
  #id: number;

  /** Plans for the feeds, whose data is not read yet. Throws what InferenceSession.bind throws. */
  constructor(handle: Handle<CoreSession>, feeds: OwnFeeds) {
    const tensors = Object.values(feeds);
    const names = Object.keys(feeds);
    const text = names.find((name) => feeds[name]!.type === 'string');
    if (text !== undefined) refuseTexts(`feed "${text}"`, text);
    const types = tensors.map(({ type }) => type);
    const dims = tensors.map((tensor) => [...tensor.dims]);
    const bound = handle.call((session) => session.bind(names, types, dims));
    this.#handle = handle;
    this.#core = handle.core;
    this.#health = healthOf(handle.core);
    this.#names = names;
    this.#types = types;
    this.#dims = dims;
    this.#sizes = tensors.map((tensor) => viewOf(tensor).byteLength);
    this.#id = bound.id;
    this.#inputs = bound.inputs.map((pointer) => pointer >>> 0);
    this.results = bound.results;
    whenForgotten(this, unbinding(new WeakRef(handle), this.#health, bound.id));
  }

  /** Whether feeds have the names (in this order), types and shapes that the run was made for. */
  fits(feeds: OwnFeeds): boolean {
    const names = Object.keys(feeds);
    return (
      names.length === this.#names.length &&
      names.every((name, at) => {
        const { type, dims } = feeds[name]!;
        const wanted = this.#dims[at]!;
        return (
          name === this.#names[at] &&
          type === this.#types[at] &&
          dims.length === wanted.length &&
          dims.every((dim, axis) => dim === wanted[axis])
        );
      })
    );
  }

  /** False after the run or its session was disposed of. */
  get alive(): boolean {
    return this.#id !== 0 && !this.#handle.disposed;
  }

  /** Copies the inputs' bytes into the core, in the order of the feeds, and computes the results. */
  run(inputs: readonly Uint8Array[]): void {
    if (this.#health.crashed) throw crashedEarlier();
    const core = this.#core;
    for (let at = 0; at < inputs.length; at++) {
      const bytes = inputs[at]!;
      if (bytes.length !== this.#sizes[at]) {
        throw lostData(`feed "${this.#names[at]!}"`, this.#names[at]!);
      }
      core.HEAPU8.set(bytes, this.#inputs[at]!);
    }
    if (failed(core, this.#id)) this.#runSlowly();
  }

  // Runs again and reports what went wrong. It is a method of its own, because a closure would cost every run
  // its context.
  #runSlowly(): void {
    this.#handle.call((session) => session.runBound(this.#id));
  }

  /** Gives the memory back; doing so again has no effect. */
  dispose(): void {
    if (this.#id === 0) return;
    disposedOf(this);
    unbind(this.#handle, this.#health, this.#id);
    this.#id = 0;
  }
}

/** Throws UNSUPPORTED: the memory of strings does not stay. */
export function refuseTexts(what: string, name: string): never {
  throw new RequantError('UNSUPPORTED', `the ${what} has strings, which cannot be bound`, {
    value: name,
    hint: 'Use InferenceSession.run instead.',
  });
}

function unbind(handle: Handle<CoreSession>, health: Health, id: number): void {
  if (!handle.disposed && !health.crashed) handle.object.unbind(id);
}

// Frees a run. It holds the session weakly: a session that was forgotten as well frees its runs and need not
// wait for them.
function unbinding(session: WeakRef<Handle<CoreSession>>, health: Health, id: number): () => void {
  return () => {
    const handle = session.deref();
    if (handle) unbind(handle, health, id);
  };
}

/** Whether the run failed in a way that the core survives. */
function failed(core: Core, id: number): boolean {
  try {
    return core._run_bound(id) !== 0;
  } catch (error) {
    // A trap; running again on the memory that it left would prove nothing.
    throw engineFailed(core, error);
  }
}

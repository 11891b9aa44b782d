/// <reference lib="esnext.disposable" preserve="true" />

import type { Core, CoreResult, CoreSession } from './core.js';
import { RequantError } from './errors.js';
import { type Feeds, type Handle, allocate, checkFeeds, makeDisposable, toTensor } from './heap.js';
import { type Tensor, bytesOf } from './tensor.js';

/** @internal Throws when the result does not fit into the tensor that should take it. */
export function checkTarget({ name, type, dims }: CoreResult, target: Tensor): void {
  if (target.type !== type) {
    throw new RequantError('TYPE_MISMATCH', `output "${name}" is ${type}, not ${target.type}`, {
      value: name,
    });
  }
  if (target.dims.length !== dims.length || target.dims.some((dim, axis) => dim !== dims[axis])) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `output "${name}" has shape [${dims.join(', ')}], not [${target.dims.join(', ')}]`,
      { value: name },
    );
  }
}

/** Repeated runs with tensors that stay; made by {@link InferenceSession.bind}. */
export class BoundRun {
  /** What every run fills, by name. */
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly #handle: Handle<CoreSession>;
  readonly #core: Core;
  #id = 0;
  #inputs: { bytes: Uint8Array; pointer: number }[] = [];
  #results: { bytes: Uint8Array; view: Uint8Array; pointer: number }[] = [];
  #heap: Uint8Array | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    handle: Handle<CoreSession>,
    feeds: Feeds,
    fetches: ReadonlyMap<string, Tensor | null> | undefined,
  ) {
    this.#handle = handle;
    const { core } = handle;
    this.#core = core;
    const outputs: Record<string, Tensor> = {};
    try {
      checkFeeds(feeds);
      for (const { data } of Object.values(feeds)) {
        const bytes = bytesOf(data);
        this.#inputs.push({ bytes, pointer: allocate(core, bytes.length) });
      }
      const tensors = Object.values(feeds);
      const { id, results } = handle.call((session) =>
        session.bind(
          Object.keys(feeds),
          tensors.map(({ type }) => type),
          tensors.map(({ dims }) => [...dims]),
          this.#inputs.map(({ pointer }) => pointer),
        ),
      );
      this.#id = id;
      for (const result of results) {
        if (fetches && !fetches.has(result.name)) continue;
        const target = fetches?.get(result.name) ?? toTensor(core, result);
        checkTarget(result, target);
        outputs[result.name] = target;
        const bytes = bytesOf(target.data);
        this.#results.push({ bytes, view: bytes, pointer: result.pointer >>> 0 });
      }
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.outputs = Object.freeze(outputs);
  }

  /**
   * Computes the outputs from what the feeds hold now.
   *
   * @throws RequantError DISPOSED after this or the session was disposed of.
   */
  run(): void {
    if (this.#id === 0 || this.#handle.disposed) {
      throw new RequantError('DISPOSED', 'the run is used after it was disposed of');
    }
    const core = this.#core;
    for (let at = 0; at < this.#inputs.length; at++) {
      const { bytes, pointer } = this.#inputs[at]!;
      core.HEAPU8.set(bytes, pointer);
    }
    if (failed(core, this.#id)) this.#runSlowly();
    if (this.#heap !== core.HEAPU8) {
      this.#heap = core.HEAPU8;
      for (const result of this.#results) {
        const { pointer, bytes } = result;
        result.view = this.#heap.subarray(pointer, pointer + bytes.length);
      }
    }
    for (let at = 0; at < this.#results.length; at++) {
      const { bytes, view } = this.#results[at]!;
      bytes.set(view);
    }
  }

  // Tells what went wrong. On its own, because a closure would cost every run its context.
  #runSlowly(): void {
    this.#handle.call((session) => session.runBound(this.#id));
  }

  /** Gives the memory back; the outputs stay the caller's. The session lives on. */
  dispose(): void {
    for (const { pointer } of this.#inputs) this.#core.free(pointer);
    this.#inputs = [];
    if (this.#id !== 0 && !this.#handle.disposed) this.#handle.object.unbind(this.#id);
    this.#id = 0;
  }
}

makeDisposable(BoundRun, function (this: BoundRun) {
  this.dispose();
});

function failed(core: Core, id: number): boolean {
  try {
    return core._run_bound(id) !== 0;
  } catch {
    return true; // a trap: it happens again, and is reported, by the slow way
  }
}

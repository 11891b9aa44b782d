/// <reference lib="esnext.disposable" preserve="true" />

import { RequantError } from '../base/errors.js';
import { type Tensor, bytesOf } from '../base/tensor.js';
import type { Core, CoreSession } from '../core.js';
import { type Feeds, type Handle, lostData, makeDisposable, toTensor } from '../engine/heap.js';
import { CoreRun } from './core_run.js';
import { checkTarget } from './fetches.js';

/** Repeated runs with tensors that stay; {@link InferenceSession.bind} makes it. */
export class BoundRun {
  /** The tensors that every run fills, by name. */
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly #core: Core;
  readonly #run: CoreRun;
  readonly #inputs: readonly Uint8Array[];
  #results: {
    name: string;
    bytes: Uint8Array;
    size: number;
    view: Uint8Array;
    pointer: number;
  }[] = [];
  #heap: Uint8Array | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    handle: Handle<CoreSession>,
    feeds: Feeds,
    fetches: ReadonlyMap<string, Tensor | null> | undefined,
  ) {
    const { core } = handle;
    this.#core = core;
    this.#run = new CoreRun(handle, feeds);
    this.#inputs = Object.values(feeds).map(({ data }) => bytesOf(data));
    const outputs: Record<string, Tensor> = {};
    try {
      for (const result of this.#run.results) {
        if (fetches && !fetches.has(result.name)) continue;
        const target = fetches?.get(result.name) ?? toTensor(core, result);
        checkTarget(result, target);
        outputs[result.name] = target;
        const bytes = bytesOf(target.data);
        this.#results.push({
          name: result.name,
          bytes,
          size: bytes.length,
          view: bytes,
          pointer: result.pointer >>> 0,
        });
      }
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.outputs = Object.freeze(outputs);
  }

  /**
   * Computes the outputs from the present contents of the feeds.
   *
   * @throws RequantError DISPOSED after this or the session was disposed of, INVALID_ARGUMENT for a tensor
   * whose buffer was transferred.
   */
  run(): void {
    if (!this.#run.alive) {
      throw new RequantError('DISPOSED', 'the run is used after it was disposed of');
    }
    this.#run.run(this.#inputs);
    if (this.#heap !== this.#core.HEAPU8) {
      this.#heap = this.#core.HEAPU8;
      for (const result of this.#results) {
        const { pointer, size } = result;
        result.view = this.#heap.subarray(pointer, pointer + size);
      }
    }
    for (let at = 0; at < this.#results.length; at++) {
      const { name, bytes, size, view } = this.#results[at]!;
      if (bytes.length !== size) throw lostData(`fetch "${name}"`, name);
      bytes.set(view);
    }
  }

  /** Gives the memory back; the outputs and the session stay usable. */
  dispose(): void {
    this.#run.dispose();
  }
}

makeDisposable(BoundRun, function (this: BoundRun) {
  this.dispose();
});

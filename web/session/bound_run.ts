/// <reference lib="esnext.disposable" preserve="true" />

import { RequantError } from '../base/errors.js';
import type { Tensor } from '../base/tensor.js';
import { placeOf } from '../base/tensor_place.js';
import type { Core, CoreSession } from '../core.js';
import { type Handle, makeDisposable } from '../engine/heap.js';
import { type OwnFeeds, lostData, toEngineTensor, toTensor, viewOf } from '../engine/tensors.js';
import { CoreRun, refuseTexts } from './core_run.js';
import { type Targets, checkTarget } from './fetches.js';

/** Repeated runs with tensors that stay; {@link InferenceSession.bind} makes it. */
export class BoundRun {
  /** The tensors that every run fills, by name. */
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly #core: Core;
  readonly #run: CoreRun;
  readonly #feeds: readonly Tensor[];
  readonly #inputs: Uint8Array[];
  /** Positions of feeds in an engine, whose memory may move. */
  readonly #placed: readonly number[];
  #results: {
    name: string;
    tensor: Tensor;
    placed: boolean;
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
    feeds: OwnFeeds,
    targets: Targets | undefined,
    staysInEngine: (name: string) => boolean,
  ) {
    const { core } = handle;
    this.#core = core;
    this.#run = new CoreRun(handle, feeds);
    this.#feeds = Object.values(feeds);
    this.#inputs = this.#feeds.map(viewOf);
    this.#placed = this.#feeds.flatMap((feed, at) => (placeOf(feed) ? [at] : []));
    const outputs: Record<string, Tensor> = {};
    try {
      for (const result of this.#run.results) {
        if (targets && !targets.has(result.name)) continue;
        if (result.type === 'string') refuseTexts(`output "${result.name}"`, result.name);
        const target = targets?.get(result.name);
        const make = staysInEngine(result.name) ? toEngineTensor : toTensor;
        const tensor = target?.tensor ?? make(core, result);
        if (target) checkTarget(result, tensor);
        outputs[result.name] = target?.given ?? tensor;
        const bytes = viewOf(tensor);
        this.#results.push({
          name: result.name,
          tensor,
          placed: placeOf(tensor) !== undefined,
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
   * whose buffer was transferred, DISPOSED for a tensor in the engine that was disposed of.
   */
  run(): void {
    if (!this.#run.alive) {
      throw new RequantError('DISPOSED', 'the run is used after it was disposed of');
    }
    for (const at of this.#placed) this.#inputs[at] = viewOf(this.#feeds[at]!);
    this.#run.run(this.#inputs);
    if (this.#heap !== this.#core.HEAPU8) {
      this.#heap = this.#core.HEAPU8;
      for (const result of this.#results) {
        const { pointer, size } = result;
        result.view = this.#heap.subarray(pointer, pointer + size);
      }
    }
    for (let at = 0; at < this.#results.length; at++) {
      const { name, tensor, placed, size, view } = this.#results[at]!;
      const bytes = placed ? viewOf(tensor) : this.#results[at]!.bytes;
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

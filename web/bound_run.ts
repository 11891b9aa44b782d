/// <reference lib="esnext.disposable" preserve="true" />

import type { Core, CoreResult, CoreSession } from './core.js';
import { CoreRun } from './core_run.js';
import { RequantError } from './errors.js';
import { type Feeds, type Handle, makeDisposable, toTensor } from './heap.js';
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
  readonly #core: Core;
  readonly #run: CoreRun;
  readonly #inputs: readonly Uint8Array[];
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
    if (!this.#run.alive) {
      throw new RequantError('DISPOSED', 'the run is used after it was disposed of');
    }
    this.#run.run(this.#inputs);
    if (this.#heap !== this.#core.HEAPU8) {
      this.#heap = this.#core.HEAPU8;
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

  /** Gives the memory back; the outputs stay the caller's. The session lives on. */
  dispose(): void {
    this.#run.dispose();
  }
}

makeDisposable(BoundRun, function (this: BoundRun) {
  this.dispose();
});

// The crossing between JavaScript and the wasm memory: calls, bytes, lifetimes.

import { RequantError, type RequantErrorCode, invalidArgument, show } from '../base/errors.js';
import { Tensor, type TensorType, bytesOf, tensorFromBytes } from '../base/tensor.js';
import type { Core, CoreBlob, CoreFeeds, CoreObject, CoreResult, Failure } from '../core.js';
import { forgetCore } from './load_core.js';

/** A trap may leave the core's memory in any state: nothing of it can be used any more. */
export interface Health {
  crashed: boolean;
}

const healths = new WeakMap<Core, Health>();

/** The core's one object of this kind, for those who look at it often. */
export function healthOf(core: Core): Health {
  let health = healths.get(core);
  if (!health) {
    health = { crashed: false };
    healths.set(core, health);
  }
  return health;
}

/** For whoever goes on using a core that crashed. */
export function crashedEarlier(): RequantError {
  return new RequantError('INTERNAL', 'the engine crashed earlier', {
    hint: 'Load the model again: that starts a new engine.',
  });
}

/** The error for what escaped from the core. After a trap it counts as crashed. */
export function engineFailed(core: Core, error: unknown): RequantError {
  // A wrong argument type leaves the memory as it is.
  if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
    healthOf(core).crashed = true;
    forgetCore(core);
  }
  const why = error instanceof Error ? error.message : String(error);
  return new RequantError('INTERNAL', `the engine failed: ${why}`, { cause: error });
}

function isFailure(result: unknown): result is Failure {
  return typeof result === 'object' && result !== null && 'requantError' in result;
}

/** Calls into the core: its failures become RequantErrors. */
export function call<T>(core: Core, action: () => T | Failure): Exclude<T, Failure> {
  if (healthOf(core).crashed) throw crashedEarlier();
  let result: T | Failure;
  try {
    result = action();
  } catch (error) {
    throw error instanceof RequantError ? error : engineFailed(core, error);
  }
  if (isFailure(result)) {
    const { code, message, node, value, hint } = result.requantError;
    throw new RequantError(code as RequantErrorCode, message, { node, value, hint });
  }
  return result as Exclude<T, Failure>;
}

/** Memory of `size` bytes in the core. */
export function allocate(core: Core, size: number): number {
  const pointer = call(core, () => core.allocate(Math.max(size, 1)));
  if (!pointer) {
    throw new RequantError('OUT_OF_MEMORY', `no memory for ${size} bytes`, {
      hint: 'Release sessions and models that are not needed any more.',
    });
  }
  return pointer >>> 0;
}

/** Gives memory back, unless the core has crashed: then it is gone as a whole. */
export function free(core: Core, pointer: number): void {
  if (!healthOf(core).crashed) core.free(pointer);
}

/** A copy of the bytes in the core's memory; the caller frees it or hands it over. */
export function copyIn(core: Core, bytes: Uint8Array): number {
  const pointer = allocate(core, bytes.length);
  core.HEAPU8.set(bytes, pointer);
  return pointer;
}

/** A copy of the core's memory. */
function copyOut(core: Core, pointer: number, size: number): Uint8Array<ArrayBuffer> {
  const start = pointer >>> 0;
  return core.HEAPU8.slice(start, start + size);
}

/** The core's memory from `pointer` on, into bytes that are there already. */
export function copyOutInto(core: Core, pointer: number, bytes: Uint8Array): void {
  const start = pointer >>> 0;
  bytes.set(core.HEAPU8.subarray(start, start + bytes.length));
}

/** The bytes of a blob, which is freed. */
export function takeBlob(core: Core, blob: CoreBlob): Uint8Array<ArrayBuffer> {
  try {
    return copyOut(core, blob.pointer, blob.size);
  } finally {
    blob.free();
    blob.delete();
  }
}

/** Tensors by the names of the model's inputs. */
export type Feeds = Readonly<Record<string, Tensor>>;

/** Throws INVALID_ARGUMENT when these are no feeds. */
export function checkFeeds(feeds: unknown): asserts feeds is Feeds {
  if (typeof feeds !== 'object' || feeds === null || feeds instanceof Tensor) {
    throw invalidArgument(
      `feeds must be an object of tensors by input name, not ${show(feeds)}`,
      'feeds',
    );
  }
  for (const [name, tensor] of Object.entries(feeds)) {
    if (!(tensor instanceof Tensor)) {
      throw invalidArgument(
        `the feed "${name}" must be a Tensor, not ${show(tensor)}`,
        name,
        "Make one with new Tensor('float32', data, dims); those of another engine, or of another copy of this package, are of other classes.",
      );
    }
    if (tensor.data.length !== tensor.size) throw lostData(`feed "${name}"`, name);
  }
}

/** For a tensor whose memory went to another thread. */
export function lostData(what: string, name: string): RequantError {
  return invalidArgument(
    `the ${what} has lost its data: its buffer was transferred`,
    name,
    'Transfer a copy, or make a new tensor.',
  );
}

/** Runs `action` with copies of the feeds in the core's memory, which are freed afterwards. */
export function withFeeds<T>(core: Core, feeds: Feeds, action: (feeds: CoreFeeds) => T): T {
  checkFeeds(feeds);
  const names: string[] = [];
  const types: string[] = [];
  const dims: number[][] = [];
  const pointers: number[] = [];
  try {
    for (const [name, tensor] of Object.entries(feeds)) {
      names.push(name);
      types.push(tensor.type);
      dims.push([...tensor.dims]);
      pointers.push(copyIn(core, bytesOf(tensor.data)));
    }
    return action([names, types, dims, pointers]);
  } finally {
    for (const pointer of pointers) free(core, pointer);
  }
}

/** A tensor of its own from a result of the core. */
export function toTensor(core: Core, result: CoreResult): Tensor {
  return tensorFromBytes(
    result.type as TensorType,
    copyOut(core, result.pointer, result.size),
    Array.from(result.dims),
  );
}

// Explicit dispose is the rule; this catches what was forgotten, at some time.
const forgotten = new FinalizationRegistry<() => void>((free) => free());

/** Has `free` called when `owner`, which `free` must not refer to, was forgotten without dispose(). */
export function whenForgotten(owner: object, free: () => void): void {
  forgotten.register(owner, free, owner);
}

/** Takes that back: for dispose(). */
export function disposedOf(owner: object): void {
  forgotten.unregister(owner);
}

function deleteQuietly(object: CoreObject): void {
  try {
    object.delete();
  } catch {
    // Its core has crashed: the memory is gone as a whole.
  }
}

// Not in the constructor below, where it might hold the handle.
function deletionOf(object: CoreObject): () => void {
  return () => deleteQuietly(object);
}

/** Owns one object of the core. */
export class Handle<T extends CoreObject> {
  readonly core: Core;
  readonly #kind: string;
  #object: T | undefined;

  /** @param kind What the object is called in errors. */
  constructor(core: Core, object: T, kind: string) {
    this.core = core;
    this.#object = object;
    this.#kind = kind;
    whenForgotten(this, deletionOf(object));
  }

  /** The object. Throws DISPOSED after dispose(). */
  get object(): T {
    if (this.#object === undefined) {
      throw new RequantError('DISPOSED', `the ${this.#kind} is used after it was disposed of`);
    }
    return this.#object;
  }

  get disposed(): boolean {
    return this.#object === undefined;
  }

  /** Calls a method of the object. */
  call<R>(method: (object: T) => R | Failure): Exclude<R, Failure> {
    const object = this.object;
    return call(this.core, () => method(object));
  }

  /** Calls a method that returns JSON. */
  json<R>(method: (object: T) => string | Failure): R {
    return JSON.parse(this.call(method)) as R;
  }

  /** Deletes the object; doing so again does nothing. */
  dispose(): void {
    const object = this.#object;
    if (object === undefined) return;
    this.#object = undefined;
    disposedOf(this);
    deleteQuietly(object);
  }
}

/**
 * Gives a class Symbol.dispose and Symbol.asyncDispose where the engine has them, so that `using`
 * works.
 */
export function makeDisposable(type: { prototype: object }, dispose: (this: never) => void): void {
  const asyncDispose = function (this: never): Promise<void> {
    dispose.call(this);
    return Promise.resolve();
  };
  if (Symbol.dispose) {
    Object.defineProperty(type.prototype, Symbol.dispose, { value: dispose, configurable: true });
  }
  if (Symbol.asyncDispose) {
    Object.defineProperty(type.prototype, Symbol.asyncDispose, {
      value: asyncDispose,
      configurable: true,
    });
  }
}

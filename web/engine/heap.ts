// Crosses between JavaScript and the wasm memory: calls, bytes, lifetimes.

import { RequantError, type RequantErrorCode } from '../base/errors.js';
import type { Core, CoreBlob, CoreObject, Failure } from '../core.js';
import { forgetCore } from './load_core.js';

/**
 * Whether a core has crashed. A trap may leave its memory in any state, so nothing of it can be used any
 * more.
 */
export interface Health {
  crashed: boolean;
}

const healths = new WeakMap<Core, Health>();

/** The core's only object of this kind, for code that reads it often. */
export function healthOf(core: Core): Health {
  let health = healths.get(core);
  if (!health) {
    health = { crashed: false };
    healths.set(core, health);
  }
  return health;
}

/** The error for using a core that crashed. */
export function crashedEarlier(): RequantError {
  return new RequantError('INTERNAL', 'the engine crashed earlier', {
    hint: 'Load the model again: that starts a new engine.',
  });
}

/** The error for an exception that escaped from the core. After a trap the core counts as crashed. */
export function engineFailed(core: Core, error: unknown): RequantError {
  // A wrong argument type does not damage the memory.
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

/** Calls the core and turns its failures into RequantErrors. */
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

/** Allocates `size` bytes in the core. */
export function allocate(core: Core, size: number): number {
  const pointer = call(core, () => core.allocate(Math.max(size, 1)));
  if (!pointer) {
    throw new RequantError('OUT_OF_MEMORY', `no memory for ${size} bytes`, {
      hint: 'Release sessions and models that are not needed any more.',
    });
  }
  return pointer >>> 0;
}

/** Frees memory, unless the core has crashed: then its memory is gone as a whole. */
export function free(core: Core, pointer: number): void {
  if (!healthOf(core).crashed) core.free(pointer);
}

/** Copies bytes into the core's memory; the caller frees the copy or hands it over. */
export function copyIn(core: Core, bytes: Uint8Array): number {
  const pointer = allocate(core, bytes.length);
  core.HEAPU8.set(bytes, pointer);
  return pointer;
}

/** Copies bytes out of the core's memory. */
export function copyOut(core: Core, pointer: number, size: number): Uint8Array<ArrayBuffer> {
  const start = pointer >>> 0;
  return core.HEAPU8.slice(start, start + size);
}

/** Copies from the core's memory into existing bytes. */
export function copyOutInto(core: Core, pointer: number, bytes: Uint8Array): void {
  const start = pointer >>> 0;
  bytes.set(core.HEAPU8.subarray(start, start + bytes.length));
}

/** Copies the bytes of a blob and frees it. */
export function takeBlob(core: Core, blob: CoreBlob): Uint8Array<ArrayBuffer> {
  try {
    return copyOut(core, blob.pointer, blob.size);
  } finally {
    blob.free();
    blob.delete();
  }
}

// Objects should be disposed of; this frees forgotten ones at some later time.
const forgotten = new FinalizationRegistry<() => void>((free) => free());

/** Calls `free`, which must not refer to `owner`, when `owner` was forgotten without dispose(). */
export function whenForgotten(owner: object, free: () => void): void {
  forgotten.register(owner, free, owner);
}

/** Undoes whenForgotten, for dispose(). */
export function disposedOf(owner: object): void {
  forgotten.unregister(owner);
}

function deleteQuietly(object: CoreObject): void {
  try {
    object.delete();
  } catch {
    // The core has crashed, so its memory is gone as a whole.
  }
}

// Made outside the constructor below, where the closure might hold the handle.
function deletionOf(object: CoreObject): () => void {
  return () => deleteQuietly(object);
}

/** Owns one object of the core. */
export class Handle<T extends CoreObject> {
  readonly core: Core;
  readonly #kind: string;
  #object: T | undefined;

  /** @param kind The name of the object in errors. */
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

  /** Deletes the object; doing so again has no effect. */
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

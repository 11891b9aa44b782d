// Crosses between JavaScript and the wasm memory: calls, bytes, lifetimes.

import { RequantError, type RequantErrorCode, invalidArgument, show } from '../base/errors.js';
import { Tensor, type TensorType, byteLength, bytesOf, tensorFromBytes } from '../base/tensor.js';
import { placedTensor } from '../base/placed_tensor.js';
import { type TensorLike, tensorOf } from '../base/tensor_like.js';
import { type Place, placeOf } from '../base/tensor_place.js';
import type { Core, CoreBlob, CoreFeeds, CoreObject, CoreResult, Failure } from '../core.js';
import { forgetCore } from './load_core.js';

// Bytes of a string in a tensor of the core.
const HANDLE = 8;

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

/** Copies a tensor's elements into the core's memory; the caller frees the copy or hands it over. */
export function copyTensor(core: Core, tensor: Tensor): number {
  if (tensor.type !== 'string') return copyIn(core, viewOf(tensor));
  const data = tensor.data as string[];
  const bytes = bytesOf(data);
  const handles = copyIn(core, new Uint8Array(data.length * HANDLE));
  // A core without the functions has no model with strings, and refuses the tensor for its type.
  if (typeof core.putTexts !== 'function') return handles;
  const packed = copyIn(core, bytes);
  try {
    call(core, () => core.putTexts(packed, bytes.length, data.length, handles));
    return handles;
  } catch (error) {
    free(core, handles);
    throw error;
  } finally {
    free(core, packed);
  }
}

/** Copies bytes out of the core's memory. */
function copyOut(core: Core, pointer: number, size: number): Uint8Array<ArrayBuffer> {
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

/** Tensors by the names of the model's inputs, of this package or of onnxruntime-web. */
export type Feeds = Readonly<Record<string, TensorLike>>;

/** Feeds of this package's class. */
export type OwnFeeds = Readonly<Record<string, Tensor>>;

/** The product of the dims, which programs can change behind a tensor's back. */
function countOf(dims: readonly number[]): number {
  let count = 1;
  for (const dim of dims) count *= dim;
  return count;
}

// Made outside the constructor below, where the closure might hold the place.
function freeing(core: Core, pointer: number): () => void {
  return () => free(core, pointer);
}

/** A block of a core's memory that belongs to one tensor. */
class EnginePlace implements Place {
  readonly core: Core;
  readonly pointer: number;
  readonly size: number;

  /** Takes the block over. */
  constructor(core: Core, pointer: number, size: number) {
    this.core = core;
    this.pointer = pointer;
    this.size = size;
    whenForgotten(this, freeing(core, pointer));
  }

  /** The bytes, until the core's memory grows. */
  get view(): Uint8Array {
    if (healthOf(this.core).crashed) throw crashedEarlier();
    return this.core.HEAPU8.subarray(this.pointer, this.pointer + this.size);
  }

  read(): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.resolve(new Uint8Array(this.view));
  }

  free(): void {
    disposedOf(this);
    free(this.core, this.pointer);
  }
}

/**
 * The bytes of a tensor, without copying them where they can be seen: those of a tensor in an engine until the
 * memory of that engine grows. Throws DISPOSED, and UNSUPPORTED for a tensor in a Worker.
 */
export function viewOf(tensor: Tensor): Uint8Array {
  const place = placeOf(tensor);
  if (place instanceof EnginePlace) return place.view;
  return bytesOf(tensor.data);
}

function checkContents(tensor: Tensor, name: string): void {
  const { dims, size } = tensor;
  if (!placeOf(tensor) && tensor.data.length !== size) throw lostData(`feed "${name}"`, name);
  if (countOf(dims) !== size) elementCountMismatch(name, tensor);
}

function elementCountMismatch(name: string, { dims, size }: Tensor): never {
  throw new RequantError(
    'SHAPE_MISMATCH',
    `the feed "${name}" has ${size} elements, but dims [${dims.join(', ')}]`,
    { value: name },
  );
}

/**
 * Feeds as tensors of this package, which share the data of the given ones; the given object itself if it has
 * no others. Throws INVALID_ARGUMENT for values that are no feeds.
 */
export function ownFeeds(feeds: unknown): OwnFeeds {
  if (typeof feeds !== 'object' || feeds === null || feeds instanceof Tensor) {
    throw invalidArgument(
      `feeds must be an object of tensors by input name, not ${show(feeds)}`,
      'feeds',
    );
  }
  let foreign: Record<string, Tensor> | undefined;
  for (const [name, given] of Object.entries(feeds)) {
    const tensor = tensorOf(given, `feed "${name}"`, name);
    if (!tensor) {
      throw invalidArgument(
        `the feed "${name}" must be a Tensor, not ${show(given)}`,
        name,
        "Make one with new Tensor('float32', data, dims).",
      );
    }
    checkContents(tensor, name);
    if (tensor !== given) (foreign ??= { ...(feeds as OwnFeeds) })[name] = tensor;
  }
  return foreign ?? (feeds as OwnFeeds);
}

/** The error for a tensor whose memory was transferred to another thread. */
export function lostData(what: string, name: string): RequantError {
  return invalidArgument(
    `the ${what} has lost its data: its buffer was transferred`,
    name,
    'Transfer a copy, or make a new tensor.',
  );
}

/**
 * Runs `action` with the feeds in the core's memory: those that live there as they are, and copies of the others,
 * which are freed afterwards.
 */
export function withFeeds<T>(core: Core, given: Feeds, action: (feeds: CoreFeeds) => T): T {
  const feeds = ownFeeds(given);
  const names: string[] = [];
  const types: string[] = [];
  const dims: number[][] = [];
  const pointers: number[] = [];
  const copies: number[] = [];
  try {
    for (const [name, tensor] of Object.entries(feeds)) {
      names.push(name);
      types.push(tensor.type);
      dims.push([...tensor.dims]);
      const place = placeOf(tensor);
      if (place instanceof EnginePlace && place.core === core) {
        pointers.push(place.pointer);
        continue;
      }
      const copy = copyTensor(core, tensor);
      copies.push(copy);
      pointers.push(copy);
    }
    return action([names, types, dims, pointers]);
  } finally {
    for (const copy of copies) free(core, copy);
  }
}

/** As withFeeds, for what takes numbers only. Throws UNSUPPORTED for strings. */
export function withNumbers<T>(core: Core, feeds: Feeds, action: (feeds: CoreFeeds) => T): T {
  for (const [name, { type }] of Object.entries(ownFeeds(feeds))) {
    if (type !== 'string') continue;
    throw new RequantError(
      'UNSUPPORTED',
      `the feed "${name}" has strings, which only sessions run`,
      {
        value: name,
        hint: 'Cut off the operators that read strings, and give the rest of the model numbers.',
      },
    );
  }
  return withFeeds(core, feeds, action);
}

/** Copies a result of the core into a tensor of its own. */
export function toTensor(core: Core, result: CoreResult): Tensor {
  const bytes =
    result.type === 'string'
      ? takeBlob(
          core,
          call(core, () => core.getTexts(result.pointer, result.size / HANDLE)),
        )
      : copyOut(core, result.pointer, result.size);
  return tensorFromBytes(result.type as TensorType, bytes, Array.from(result.dims));
}

/** Copies a result of the core into a tensor that stays in the core's memory; strings leave it. */
export function toEngineTensor(core: Core, result: CoreResult): Tensor {
  const type = result.type as TensorType;
  if (type === 'string') return toTensor(core, result);
  const dims = Array.from(result.dims);
  const size = byteLength(type, dims);
  const block = allocate(core, size);
  const start = result.pointer >>> 0;
  core.HEAPU8.copyWithin(block, start, start + size);
  return placedTensor(type, dims, new EnginePlace(core, block, size));
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

// Tensors as feeds and results of the core.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { Tensor, type TensorType, byteLength, bytesOf, tensorFromBytes } from '../base/tensor.js';
import { placedTensor } from '../base/placed_tensor.js';
import { type TensorLike, tensorOf } from '../base/tensor_like.js';
import { type Place, placeOf } from '../base/tensor_place.js';
import type { Core, CoreFeeds, CoreResult } from '../core.js';
import {
  allocate,
  call,
  copyIn,
  copyOut,
  crashedEarlier,
  disposedOf,
  free,
  healthOf,
  takeBlob,
  whenForgotten,
} from './heap.js';

// Bytes of a string in a tensor of the core.
const HANDLE = 8;

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

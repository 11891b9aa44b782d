// Tensors whose elements are outside of JavaScript's memory: in an engine, or in a Worker.

import { RequantError } from './errors.js';

/** @internal Where the elements of such a tensor are. */
export interface Place {
  /** Copies the elements' bytes out. */
  read(): Promise<Uint8Array<ArrayBuffer>>;
  /** Gives the memory back. */
  free(): void;
}

// A tensor that was disposed of has no place any more.
const places = new WeakMap<object, Place | undefined>();

/** @internal Says where the elements of a tensor are. */
export function setPlace(tensor: object, place: Place): void {
  places.set(tensor, place);
}

/** @internal Whether the tensor's elements are in JavaScript's memory, in an engine, or were disposed of. */
export function locationOf(tensor: object): 'cpu' | 'engine' | 'none' {
  if (!places.has(tensor)) return 'cpu';
  return places.get(tensor) ? 'engine' : 'none';
}

/** @internal Undefined for elements in JavaScript's memory. Throws DISPOSED. */
export function placeOf(tensor: object): Place | undefined {
  if (!places.has(tensor)) return undefined;
  const place = places.get(tensor);
  if (place) return place;
  throw new RequantError('DISPOSED', 'the tensor is used after it was disposed of');
}

/** @internal Frees the elements' memory; `moved` says that they are in JavaScript's memory from now on. */
export function freePlace(tensor: object, moved: boolean): void {
  places.get(tensor)?.free();
  if (moved) places.delete(tensor);
  else if (places.has(tensor)) places.set(tensor, undefined);
}

/** @internal The error for reading the data of a tensor that is elsewhere. */
export function notHere(tensor: object): RequantError {
  placeOf(tensor);
  return new RequantError('UNSUPPORTED', "the tensor's data is in the engine", {
    value: 'data',
    hint: 'Await its getData().',
  });
}

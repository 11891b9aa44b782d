// The files of a model, copied out of the core's memory part by part.

import type { Core, CoreModel } from '../core.js';
import { call } from './heap.js';

/** Large parts are divided, so that a file that is written needs no second copy in memory. */
const PIECE = 8 << 20;

/** A file in the core's memory: pointer and size of each part, one after another. */
export type FileParts = readonly number[];

/** A model as an ONNX file and the file of its external data. */
export interface WrittenModel {
  readonly model: FileParts;
  readonly data: FileParts;
}

/** The bytes of a file, in pieces. */
export function* piecesOf(core: Core, parts: FileParts): Generator<Uint8Array<ArrayBuffer>> {
  for (let i = 0; i < parts.length; i += 2) {
    const end = parts[i]! + parts[i + 1]!;
    for (let at = parts[i]!; at < end; at += PIECE) {
      yield core.HEAPU8.slice(at, Math.min(at + PIECE, end));
    }
  }
}

/** The size of a file. */
export function sizeOfParts(parts: FileParts): number {
  let size = 0;
  for (let i = 1; i < parts.length; i += 2) size += parts[i]!;
  return size;
}

/** The bytes of a file. */
export function joinParts(core: Core, parts: FileParts): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(sizeOfParts(parts));
  let at = 0;
  for (let i = 0; i < parts.length; i += 2) {
    const start = parts[i]!;
    const end = start + parts[i + 1]!;
    bytes.set(core.HEAPU8.subarray(start, end), at);
    at += end - start;
  }
  return bytes;
}

/** Writes a model, with larger constants in a file of that name unless it is empty; free() ends the parts' life. */
export function writeModel(
  core: Core,
  model: CoreModel,
  dataName: string,
): { written: WrittenModel; free: () => void } {
  // A handle of its own: calls of the user may write the model again before this one is read.
  const copy = call(core, () => model.copy());
  const free = () => copy.delete();
  try {
    const [count = 0, ...parts] = call(core, () => copy.onnx(dataName));
    return { written: { model: parts.slice(0, 2 * count), data: parts.slice(2 * count) }, free };
  } catch (error) {
    free();
    throw error;
  }
}

/** The bytes of the ONNX file of a model. */
export function onnxOf(core: Core, model: CoreModel): Uint8Array<ArrayBuffer> {
  const { written, free } = writeModel(core, model, '');
  try {
    return joinParts(core, written.model);
  } finally {
    free();
  }
}

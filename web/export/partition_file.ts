// A divided model as bytes.
//
//   "RQPARTS\n" | version | hash of what follows it | bytes of the whole | length of the header |
//   header, JSON | of each part: its model as ONNX, the backend's own form
//
// The numbers are little-endian; the number of bytes takes eight, the others take four.

import { RequantError } from '../base/errors.js';
import { hashOf } from '../base/hash.js';
import { checkBytes } from '../base/options.js';
import type { ValueInfo } from '../model/model_info.js';

/** A part as it is saved. */
export interface SavedPart {
  backend: string | null;
  macs: number;
  composites: { pattern: string; nodes: string[] }[];
  model: Uint8Array;
  /** The backend's own form; null: it has none. */
  blob: Uint8Array | null;
}

export interface SavedPartition {
  /** The arithmetic of sessions of its parts. */
  requantize: string;
  inputs: ValueInfo[];
  outputs: ValueInfo[];
  parts: SavedPart[];
}

type Header = Omit<SavedPartition, 'parts'> & {
  parts: (Omit<SavedPart, 'model' | 'blob'> & { model: number; blob: number | null })[];
};

const MAGIC = 'RQPARTS\n';
const VERSION = 1;
/** Offsets of the fixed fields, and where the header starts. */
const AT = { version: 8, hash: 12, size: 16, header: 24, start: 28 };

export function writePartition({ parts, ...rest }: SavedPartition): Uint8Array<ArrayBuffer> {
  const header: Header = {
    ...rest,
    parts: parts.map(({ model, blob, ...part }) => ({
      ...part,
      model: model.length,
      blob: blob === null ? null : blob.length,
    })),
  };
  const chunks = [
    new TextEncoder().encode(JSON.stringify(header)),
    ...parts.flatMap(({ model, blob }) => (blob === null ? [model] : [model, blob])),
  ];
  const size = chunks.reduce((sum, { length }) => sum + length, AT.start);
  const bytes = new Uint8Array(size);
  bytes.set(new TextEncoder().encode(MAGIC));
  let at = AT.start;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  const view = new DataView(bytes.buffer);
  view.setUint32(AT.version, VERSION, true);
  view.setBigUint64(AT.size, BigInt(size), true);
  view.setUint32(AT.header, chunks[0]!.length, true);
  view.setUint32(AT.hash, hashOf(bytes.subarray(AT.size)), true);
  return bytes;
}

const refuse = (why: string, hint: string): RequantError =>
  new RequantError('INVALID_PLAN', `the saved partition ${why}`, { value: 'bytes', hint });

/** @internal The error for a saved partition whose content contradicts itself. */
export const damaged = (): RequantError => refuse('is damaged', 'Save the partition again.');

/** Throws INVALID_ARGUMENT for no bytes; INVALID_PLAN for bytes that are cut off, damaged or of another version. */
export function readPartition(bytes: Uint8Array): SavedPartition {
  checkBytes(bytes);
  const decoded = (from: number, to: number) => new TextDecoder().decode(bytes.subarray(from, to));
  const magic = decoded(0, MAGIC.length);
  if (magic !== MAGIC.slice(0, magic.length) || magic === '') {
    throw refuse('is none', 'Give the bytes of save() of a Partition.');
  }
  const cutOff = (most: string) =>
    refuse(`is cut off: ${bytes.length} of ${most} bytes`, 'Load the whole file.');
  if (bytes.length < AT.start) throw cutOff(`at least ${AT.start}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = view.getUint32(AT.version, true);
  if (version !== VERSION) {
    throw refuse(
      `has version ${version}, not ${VERSION}`,
      'Divide the model and save it again with this version of the package.',
    );
  }
  const size = view.getBigUint64(AT.size, true);
  if (BigInt(bytes.length) < size) throw cutOff(String(size));
  if (BigInt(bytes.length) !== size) throw damaged();
  if (hashOf(bytes.subarray(AT.size)) !== view.getUint32(AT.hash, true)) throw damaged();
  // What has the right hash was written by writePartition().
  let at = AT.start + view.getUint32(AT.header, true);
  const { parts, ...rest } = JSON.parse(decoded(AT.start, at)) as Header;
  const next = (length: number) => bytes.slice(at, (at += length));
  return {
    ...rest,
    parts: parts.map(({ model, blob, ...part }) => ({
      ...part,
      model: next(model),
      blob: blob === null ? null : next(blob),
    })),
  };
}

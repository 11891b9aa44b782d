// Reads ranges of a large file piece by piece, so that it is never in JavaScript's memory as a whole.

import { abortable, throwIfAborted } from '../base/abort.js';
import { importNode } from '../base/host.js';
import {
  type Location,
  type OpenSource,
  type Source,
  loadFailed,
  openBytes,
  readBlob,
} from '../base/source.js';

/** Bytes from `offset` to `offset + size` of a file. */
export interface ByteRange {
  readonly offset: number;
  readonly size: number;
}

const SMALL = 1 << 20;
const CLOSE = 1 << 16;

/**
 * Sorts ranges and joins those that overlap and, with `few`, those below 1 MB that are close, so that few reads bring
 * them. Others stay apart.
 */
export function joinRanges(ranges: readonly ByteRange[], few = true): ByteRange[] {
  const joined: { offset: number; size: number }[] = [];
  for (const { offset, size } of [...ranges].sort((a, b) => a.offset - b.offset)) {
    if (size === 0) continue;
    const last = joined.at(-1);
    const gap = last ? offset - last.offset - last.size : Infinity;
    if (last && (gap < 0 || (few && gap <= CLOSE && last.size < SMALL && size < SMALL))) {
      last.size = Math.max(last.size, offset + size - last.offset);
    } else {
      joined.push({ offset, size });
    }
  }
  return joined;
}

/** Takes the bytes of ranges, in their order. */
export interface RangeSink {
  /** The first bytes of the file, at most 1 kB, before any range. */
  head(bytes: Uint8Array): void;
  /** Range `index` follows, with `size` bytes: fewer than it has where the file is known to end before. */
  begin(index: number, size: number): void;
  /** The next bytes of the range that began last. They are valid during the call. */
  take(bytes: Uint8Array): void;
}

const HEAD = 1024;
const PIECE = 8 << 20;

/** Reads `size` bytes at `offset`, or those that are there. They are valid until the next call. */
type ReadAt = (offset: number, size: number) => Uint8Array | Promise<Uint8Array>;

async function readPieces(
  { size: total, readAt }: RandomFile,
  ranges: readonly ByteRange[],
  sink: RangeSink,
  signal: AbortSignal | undefined,
): Promise<void> {
  sink.head(await readAt(0, Math.min(HEAD, total)));
  for (const [index, { offset, size }] of ranges.entries()) {
    const end = Math.min(offset + size, total);
    sink.begin(index, Math.max(end - offset, 0));
    for (let at = offset; at < end;) {
      throwIfAborted(signal);
      const bytes = await readAt(at, Math.min(PIECE, end - at));
      if (bytes.length === 0) break; // the file shrank
      sink.take(bytes);
      at += bytes.length;
    }
  }
}

/** A file of which bytes can be read in any order. */
export interface RandomFile {
  readonly size: number;
  readonly readAt: ReadAt;
}

/** The bytes as a file. */
export const fileOf = (bytes: Uint8Array): RandomFile => ({
  size: bytes.length,
  readAt: (offset, size) => bytes.subarray(offset, offset + size),
});

const fileOfBlob = (blob: Blob, signal: AbortSignal | undefined): RandomFile => ({
  size: blob.size,
  readAt: async (offset, size) =>
    new Uint8Array(await readBlob(blob.slice(offset, offset + size), signal)),
});

/** Calls `action` with a Blob or a file on a disk; undefined for other sources. */
export async function withFile<T>(
  source: OpenSource,
  signal: AbortSignal | undefined,
  action: (file: RandomFile) => Promise<T>,
): Promise<T | undefined> {
  if ('blob' in source) return action(fileOfBlob(source.blob, signal));
  if (!('path' in source)) return undefined;
  const { path } = source;
  const { open } = await importNode<typeof import('node:fs/promises')>('fs/promises');
  const failed = (error: unknown) => {
    throw loadFailed(path, error, signal);
  };
  const file = await open(path).catch(failed);
  try {
    const { size } = await file.stat().catch(failed);
    let buffer = new Uint8Array(0);
    const readAt = async (offset: number, length: number) => {
      if (buffer.length < length) buffer = new Uint8Array(length);
      const { bytesRead } = await file.read(buffer, 0, length, offset).catch(failed);
      return buffer.subarray(0, bytesRead);
    };
    return await action({ size, readAt });
  } finally {
    await file.close();
  }
}

/** Cuts the ranges out of bytes that come one after another. */
async function readStreamRanges(
  body: ReadableStream<Uint8Array>,
  ranges: readonly ByteRange[],
  sink: RangeSink,
  { signal, failed }: { signal: AbortSignal | undefined; failed: (error: unknown) => Error },
): Promise<void> {
  const reader = body.getReader();
  let at = 0;
  let index = 0;
  let begun = false;
  try {
    while (at === 0 || index < ranges.length) {
      const step = await abortable(reader.read(), signal).catch((error: unknown) => {
        throw failed(error);
      });
      if (at === 0) sink.head(step.value?.subarray(0, HEAD) ?? new Uint8Array(0));
      if (step.done) break;
      const chunk = step.value;
      const end = at + chunk.length;
      for (; index < ranges.length && ranges[index]!.offset < end; index++, begun = false) {
        const { offset, size } = ranges[index]!;
        if (!begun) sink.begin(index, size);
        begun = true;
        sink.take(
          chunk.subarray(Math.max(offset - at, 0), Math.min(offset + size - at, chunk.length)),
        );
        if (offset + size > end) break;
      }
      at = end;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Gives `sink` the bytes of `ranges`, which are sorted and do not overlap, of a file. Where the file ends early, the
 * last ranges have fewer bytes or do not begin. A stream is read once and to the end of the last range.
 *
 * @throws RequantError INVALID_ARGUMENT (not a source), LOAD_FAILED, ABORTED; and what `sink` throws.
 */
export async function readRanges(
  given: Source | Location,
  ranges: readonly ByteRange[],
  sink: RangeSink,
  signal: AbortSignal | undefined,
): Promise<void> {
  const source = await openBytes(given, signal);
  const read = (file: RandomFile) => readPieces(file, ranges, sink, signal);
  if ('bytes' in source) return read(fileOf(source.bytes));
  if ('blob' in source || 'path' in source) return withFile(source, signal, read);
  const { response, what } = source;
  const failed = (error: unknown) => loadFailed(what, error, signal);
  if (response.body) {
    return readStreamRanges(response.body, ranges, sink, { signal, failed });
  }
  const bytes = new Uint8Array(
    await response.arrayBuffer().catch((error: unknown) => {
      throw failed(error);
    }),
  );
  return read(fileOf(bytes));
}

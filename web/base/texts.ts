import { RequantError, show } from './errors.js';

const WORD = 8;
const encoder = new TextEncoder();
// A byte order mark is a character like any other.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** The elements of a string tensor. Throws TYPE_MISMATCH for anything but an array of strings. */
export function checkTexts(data: unknown): string[] {
  if (Array.isArray(data)) {
    const list = data as readonly unknown[];
    for (let at = 0; at < list.length; at++) {
      if (typeof list[at] !== 'string') {
        throw new RequantError('TYPE_MISMATCH', `element ${at} is ${show(list[at])}, no string`, {
          value: 'data',
        });
      }
    }
    return data as string[];
  }
  throw new RequantError(
    'TYPE_MISMATCH',
    `a tensor of type string needs an array of strings, not ${show(data)}`,
    { value: 'data' },
  );
}

/**
 * Strings as the engine takes them: a word of 8 bytes with the size of each in UTF-8, then all their bytes.
 * Half of a surrogate pair becomes U+FFFD.
 */
export function packTexts(texts: readonly string[]): Uint8Array<ArrayBuffer> {
  const parts = checkTexts(texts).map((text) => encoder.encode(text));
  let at = WORD * parts.length;
  const packed = new Uint8Array(parts.reduce((sum, { length }) => sum + length, at));
  const view = new DataView(packed.buffer);
  parts.forEach((part, index) => {
    view.setBigUint64(index * WORD, BigInt(part.length), true);
    packed.set(part, at);
    at += part.length;
  });
  return packed;
}

/**
 * The first `count` strings of what packTexts makes, and the bytes that they take; undefined for other bytes.
 * U+FFFD stands for bytes that are no UTF-8.
 */
export function unpackTexts(
  bytes: Uint8Array,
  count: number,
): { texts: string[]; size: number } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const texts: string[] = [];
  let size = count * WORD;
  if (size > bytes.length) return undefined;
  for (let index = 0; index < count; index++) {
    const end = size + Number(view.getBigUint64(index * WORD, true));
    if (end > bytes.length) return undefined;
    texts.push(decoder.decode(bytes.subarray(size, end)));
    size = end;
  }
  return { texts, size };
}

// Decompresses by the platform's DecompressionStream, which browsers and Node have.

import { RequantError } from '../base/errors.js';
import { checkBytes } from '../base/options.js';

/**
 * The decompressed bytes. Throws INVALID_ARGUMENT for damaged data, and for more than `limit` bytes of
 * output.
 */
export async function decompress(
  bytes: Uint8Array,
  format: 'gzip' | 'deflate-raw',
  name: string,
  limit = Infinity,
): Promise<Uint8Array<ArrayBuffer>> {
  checkBytes(bytes);
  const stream = new Blob([new Uint8Array(bytes)])
    .stream()
    .pipeThrough(new DecompressionStream(format));
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    // Not every browser can iterate over a stream.
    const reader = stream.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      size += value.length;
      if (size > limit) {
        await reader.cancel();
        break;
      }
    }
  } catch (error) {
    throw new RequantError('INVALID_ARGUMENT', `${name} cannot be decompressed`, {
      value: name,
      hint: 'The file is damaged or cut off.',
      cause: error,
    });
  }
  if (size > limit) {
    throw new RequantError(
      'INVALID_ARGUMENT',
      `${name} holds more than the ${limit} bytes it says`,
      {
        value: name,
      },
    );
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Whether the bytes begin as a gzip file (RFC 1952, 2.3.1). */
export function isGzip(bytes: Uint8Array): boolean {
  checkBytes(bytes);
  return bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;
}

// A hash by which damaged bytes are noticed; it does not protect against intent.

/** FNV-1a of the bytes, 32 bits (http://www.isthe.com/chongo/tech/comp/fnv/). */
export function hashOf(...parts: readonly Uint8Array[]): number {
  let hash = 0x811c9dc5;
  for (const part of parts) {
    for (const byte of part) hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash >>> 0;
}

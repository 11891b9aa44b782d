// Reproducible numbers, the same in Node and on a page.

/** Approximately normal: sums of three numbers of Park and Miller's generator (CACM 31, 1988, p. 1192). */
export function normals(length, seed = 1) {
  let state = seed * 7919;
  const next = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Float32Array.from({ length }, () => 2 * (next() + next() + next() - 1.5));
}

/** Approximately uniform in [-1, 1]. */
export function uniform(length, seed = 1) {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround(state / 2 ** 31 - 1);
  });
}

/** Codes of at most four bits. */
export const codes = (length) => Uint8Array.from({ length }, (_, at) => ((at * 31) % 97) % 16);

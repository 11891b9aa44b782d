// Shuffles samples.

/** Numbers in [0, 1), the same for the same seed (mulberry32, Tommy Ettinger, public domain). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draws items at random from a buffer of `size`, which the source refills. */
export async function* shuffled<T>(
  source: AsyncIterable<T>,
  size: number,
  seed: number,
): AsyncGenerator<T, void, undefined> {
  const random = randomNumbers(seed);
  const buffer: T[] = [];
  for await (const item of source) {
    if (buffer.length < size) {
      buffer.push(item);
      continue;
    }
    const at = Math.floor(random() * size);
    const drawn = buffer[at]!;
    buffer[at] = item;
    yield drawn;
  }
  while (buffer.length > 0) {
    const at = Math.floor(random() * buffer.length);
    const drawn = buffer[at]!;
    buffer[at] = buffer.at(-1)!;
    buffer.pop();
    yield drawn;
  }
}

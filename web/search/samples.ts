// Samples that can be walked over many times.

import { items, lengthOf } from '../base/abort.js';
import { hashOf } from '../base/hash.js';
import { bytesOf } from '../base/tensor.js';
import { type Feeds, ownFeeds } from '../engine/tensors.js';

/** An iterable whose every walk gives the same samples. */
export type Repeatable<T> = Iterable<T> | AsyncIterable<T>;

/** The samples themselves or, where they can be walked over only once, an array of them. */
export async function repeatable<T>(
  source: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal | undefined,
): Promise<Repeatable<T>> {
  const iterable = source as Partial<Iterable<unknown> & AsyncIterable<unknown>>;
  const once =
    (iterable[Symbol.asyncIterator]?.() as unknown) === source ||
    (iterable[Symbol.iterator]?.() as unknown) === source;
  if (!once) return source;
  const all: T[] = [];
  for await (const sample of items(source, signal)) all.push(sample);
  return all;
}

/** What tells samples from others, as text: their number, where it is known, and a hash of the first feeds. */
export async function identityOf<T>(
  source: Repeatable<T>,
  feedsOf: (sample: T) => Feeds,
): Promise<string> {
  const parts: string[] = [String(lengthOf(source) ?? 'some')];
  for await (const sample of items(source)) {
    for (const [name, { type, dims, data }] of Object.entries(ownFeeds(feedsOf(sample)))) {
      parts.push(name, type, dims.join('x'), String(hashOf(bytesOf(data))));
    }
    break;
  }
  return parts.join(' ');
}

// Samples that are walked over once in every epoch.

import type { CompareSample } from '../analyze/compare.js';
import { items, lengthOf } from '../base/abort.js';

/**
 * The samples of all epochs; an iterable that can be walked only once becomes an array for the next epochs.
 */
export class Epochs {
  readonly #source: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  readonly #kept: CompareSample[] | undefined;
  #whole = false;
  length: number | undefined;

  constructor(source: Iterable<CompareSample> | AsyncIterable<CompareSample>) {
    this.#source = source;
    this.length = lengthOf(source);
    const iterable = source as Partial<Iterable<unknown> & AsyncIterable<unknown>>;
    const once =
      (iterable[Symbol.asyncIterator]?.() as unknown) === source ||
      (iterable[Symbol.iterator]?.() as unknown) === source;
    if (once) this.#kept = [];
  }

  async *walk(signal: AbortSignal | undefined): AsyncGenerator<CompareSample, void, undefined> {
    if (this.#kept && this.#whole) {
      yield* this.#kept;
      return;
    }
    let count = 0;
    for await (const sample of items(this.#source, signal)) {
      this.#kept?.push(sample);
      count += 1;
      yield sample;
    }
    this.#whole = true;
    this.length = count;
  }
}

export async function* numbered<T>(
  source: AsyncIterable<T>,
): AsyncGenerator<[number, T], void, undefined> {
  let index = 0;
  for await (const item of source) yield [index++, item];
}

/**
 * @internal The samples of all possible epochs, with null behind each epoch, for code elsewhere that walks
 * over them.
 */
export async function* epochsOf(
  source: Iterable<CompareSample> | AsyncIterable<CompareSample>,
): AsyncGenerator<CompareSample | null, void, undefined> {
  const epochs = new Epochs(source);
  for (;;) {
    yield* epochs.walk(undefined);
    yield null;
  }
}

/** Divides a stream of epochs, with null behind each ({@link epochsOf}), into iterables of one epoch. */
export function epochsFrom<T>(
  stream: AsyncIterable<T | null>,
  length: number | undefined,
): AsyncIterable<T> {
  const iterator = stream[Symbol.asyncIterator]();
  const epoch = {
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const { done, value } = await iterator.next();
        if (done || value === null) return;
        yield value;
      }
    },
  };
  return length === undefined ? epoch : Object.assign(epoch, { length });
}

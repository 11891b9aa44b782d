// The result of all readers: samples with a known length that can be walked more than once.

import { checkIterable } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { checkKind } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';

/** The inputs of one run, with the index of the right class where known. */
export interface Sample {
  feeds: Record<string, Tensor>;
  label?: number;
}

/** Samples that are made while one walks over them. */
export interface Dataset extends AsyncIterable<Sample> {
  readonly length: number;
}

/** @internal */
export function checkDataset(dataset: unknown): void {
  checkIterable(dataset, 'dataset');
  checkKind((dataset as Dataset).length, 'integer', 'dataset.length');
}

/** A dataset of `length` samples, each made by `get` when it is reached. */
export function makeDataset(
  length: number,
  get: (index: number) => Sample | Promise<Sample>,
): Dataset {
  checkKind(length, 'integer', 'length');
  checkKind(get, 'function', 'get');
  return {
    length,
    async *[Symbol.asyncIterator]() {
      for (let index = 0; index < length; index++) yield await get(index);
    },
  };
}

/** Only the inputs, as calibration takes them. */
export function feedsOf(
  dataset: Dataset,
): AsyncIterable<Record<string, Tensor>> & { readonly length: number } {
  checkIterable(dataset, 'dataset');
  return {
    length: dataset.length,
    async *[Symbol.asyncIterator]() {
      for await (const { feeds } of dataset) yield feeds;
    },
  };
}

/** A dataset with labels; there must be one for each sample. Throws INVALID_ARGUMENT. */
export function withLabels(dataset: Dataset, labels: ArrayLike<number>): Dataset {
  checkDataset(dataset);
  if (labels?.length !== dataset.length) {
    throw invalidArgument(
      `there are ${labels?.length ?? 'no'} labels for ${dataset.length} samples`,
      'labels',
      'Every sample needs exactly one.',
    );
  }
  return {
    length: dataset.length,
    async *[Symbol.asyncIterator]() {
      let index = 0;
      for await (const { feeds } of dataset) yield { feeds, label: labels[index++]! };
    },
  };
}

/** @internal All but the first `count` samples, which are walked over all the same. */
export function behind(dataset: Dataset, count: number): Dataset {
  return {
    length: Math.max(0, dataset.length - count),
    async *[Symbol.asyncIterator]() {
      let index = 0;
      for await (const sample of dataset) {
        if (index >= count) yield sample;
        index += 1;
      }
    },
  };
}

/** The first `count` samples. */
export function take(dataset: Dataset, count: number): Dataset {
  checkDataset(dataset);
  if (count !== Infinity) checkKind(count, 'integer', 'count');
  if (count < 0) throw invalidArgument(`count is ${count}`, 'count');
  const length = Math.min(dataset.length, count);
  return {
    length,
    async *[Symbol.asyncIterator]() {
      let left = length;
      if (left === 0) return;
      for await (const sample of dataset) {
        yield sample;
        left -= 1;
        if (left === 0) return;
      }
    },
  };
}

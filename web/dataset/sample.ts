// The result of all readers: samples with a known length that can be walked more than once.

import { checkIterable } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { checkKind } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';

/** The inputs of one run, with the index of the right class where known. */
export interface Sample {
  feeds: Record<string, Tensor>;
  label?: number;
  /** The right result for a metric, in the form that it takes. */
  target?: unknown;
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

/** A dataset whose samples have one more member each; there must be one for each sample. */
function withMember(
  dataset: Dataset,
  key: 'label' | 'target',
  values: ArrayLike<unknown>,
  name: string,
): Dataset {
  checkDataset(dataset);
  if (values?.length !== dataset.length) {
    throw invalidArgument(
      `there are ${values?.length ?? 'no'} ${name} for ${dataset.length} samples`,
      name,
      'Every sample needs exactly one.',
    );
  }
  return {
    length: dataset.length,
    async *[Symbol.asyncIterator]() {
      let index = 0;
      for await (const sample of dataset) yield { ...sample, [key]: values[index++] };
    },
  };
}

/** A dataset with labels; there must be one for each sample. Throws INVALID_ARGUMENT. */
export function withLabels(dataset: Dataset, labels: ArrayLike<number>): Dataset {
  return withMember(dataset, 'label', labels, 'labels');
}

/**
 * A dataset with targets, the right results for a metric (boxes, texts, classes of pixels); there must be one for
 * each sample. Throws INVALID_ARGUMENT.
 */
export function withTargets(dataset: Dataset, targets: ArrayLike<unknown>): Dataset {
  return withMember(dataset, 'target', targets, 'targets');
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

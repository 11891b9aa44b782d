// The worker's side of functions of the page, which cannot be sent: makes functions that ask the page to call them.

import { Tensor } from '../base/tensor.js';
import type { MetricSpec } from '../metrics/table.js';
import { type PackedFeeds, packFeeds } from './worker_protocol.js';

/** An argument of a function, in a form that messages can hold. */
export type Packed = { tensors: PackedFeeds } | { sample: number } | { value: unknown };

/** A function of the page, as the worker knows it. */
export interface Marked {
  pageFunction: string;
}

const isMarked = (value: unknown): value is Marked =>
  typeof (value as Marked | null)?.pageFunction === 'string';

const isOutputs = (value: unknown): value is Record<string, Tensor> =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).length > 0 &&
  Object.values(value).every((one) => one instanceof Tensor);

/** Functions that ask the page, and the samples that they have. */
export class AskedFunctions {
  readonly #ask: (name: string, args: unknown[]) => Promise<unknown>;
  readonly #indices = new WeakMap<object, number>();
  #count = 0;

  constructor(ask: (name: string, args: unknown[]) => Promise<unknown>) {
    this.#ask = ask;
  }

  /** Notes a sample that has come, in the order in which the page notes them. */
  note<T extends object>(sample: T): T {
    this.#indices.set(sample, this.#count++);
    return sample;
  }

  /** The metric with its functions. */
  whole(metric: unknown): MetricSpec {
    if (typeof metric !== 'object' || metric === null) return metric as MetricSpec;
    const members = Object.entries(metric).map(([key, value]): [string, unknown] => [
      key,
      isMarked(value) ? (...args: unknown[]) => this.#call(value.pageFunction, args) : value,
    ]);
    return Object.fromEntries(members) as unknown as MetricSpec;
  }

  #call(name: string, args: unknown[]): Promise<unknown> {
    const packed = args.map((arg): Packed => {
      const sample = typeof arg === 'object' && arg !== null ? this.#indices.get(arg) : undefined;
      if (sample !== undefined) return { sample };
      return isOutputs(arg) ? { tensors: packFeeds(arg) } : { value: arg };
    });
    return this.#ask(name, packed);
  }
}

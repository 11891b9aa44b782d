// The parts of which all metrics are made. A metric measures a model on samples, in the terms of its task.

import { invalidArgument, show } from '../base/errors.js';
import { isSmallFloat } from '../base/half.js';
import { Tensor } from '../base/tensor.js';
import { type TensorLike } from '../base/tensor_like.js';
import type { MetricUnit } from './unit.js';

/** The outputs of one run, by name. */
export type Outputs = Readonly<Record<string, Tensor>>;

/** A sample, as metrics see it. */
export interface MetricSample {
  readonly feeds: Readonly<Record<string, unknown>>;
  /** Index of the right class. */
  readonly label?: number;
  /** The right result in the form that the metric takes; missing where it is the label. */
  readonly target?: unknown;
}

/** Sees the outputs for all samples, one after the other, and gives the value for them all. */
export interface Meter {
  /**
   * @param float The outputs of the float model, if the metric needs them.
   * @throws RequantError INVALID_ARGUMENT for outputs or targets that the metric cannot read.
   */
  add(outputs: Outputs, sample: MetricSample, float: Outputs | undefined): void | Promise<void>;
  value(): number | Promise<number>;
}

/** A metric that is ready to measure. */
export interface Metric {
  readonly name: string;
  readonly better: 'higher' | 'lower';
  readonly unit: MetricUnit;
  /** Whether its meters need the outputs of the float model. */
  readonly needsFloat: boolean;
  /** A meter that has seen nothing. */
  meter(): Meter;
}

/** What options of outputs look like: the name of an output. */
export function outputOf(outputs: Outputs, name: string | undefined): Tensor {
  const key = name ?? Object.keys(outputs)[0];
  const tensor = key === undefined ? undefined : outputs[key];
  if (tensor) return tensor;
  throw invalidArgument(
    `the metric reads the output ${show(key)}, which the model does not have`,
    key,
    `Its outputs are: ${Object.keys(outputs).join(', ')}.`,
  );
}

/** The elements as numbers. */
export function numbersOf({ type, data, dims }: TensorLike): ArrayLike<number> {
  if (isSmallFloat(type as Tensor['type'])) {
    return new Tensor(type as 'float16', data as never, dims).toFloat32();
  }
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    return Float64Array.from(data, Number);
  }
  return data as ArrayLike<number>;
}

/** Numbers from a tensor, a typed array or a plain array of numbers or bigints; undefined for other values. */
export function numbersIn(value: unknown): ArrayLike<number> | undefined {
  if (Array.isArray(value) && value.every((one) => ['number', 'bigint'].includes(typeof one))) {
    return value.map(Number);
  }
  if (value instanceof BigInt64Array || value instanceof BigUint64Array) {
    return Float64Array.from(value, Number);
  }
  if (ArrayBuffer.isView(value)) return value as unknown as ArrayLike<number>;
  const { type, data, dims } = (value ?? {}) as Partial<TensorLike>;
  return type !== undefined && data !== undefined && dims !== undefined
    ? numbersOf(value as TensorLike)
    : undefined;
}

/** The target of a sample or, without one, its label. */
export const rightOf = ({ target, label }: MetricSample): unknown => target ?? label;

/** The error for a target that a metric cannot read; `wanted` says what it takes. */
export function badTarget(metric: string, sample: MetricSample, wanted: string): Error {
  return invalidArgument(
    `the metric ${metric} cannot read the target ${show(rightOf(sample))}`,
    'target',
    `It must be ${wanted}.`,
  );
}

/** The rows of scores: the first axis counts rows, unless there is only one axis. */
export function rowsOf(tensor: Tensor): { rows: number; classes: number } {
  const rows = tensor.dims.length > 1 ? tensor.dims[0]! : 1;
  return { rows, classes: rows > 0 ? tensor.size / rows : 0 };
}

/** Index of the largest of `count` numbers from `start` on, the first one of equal ones. */
export function largest(numbers: ArrayLike<number>, start: number, count: number): number {
  let best = 0;
  for (let index = 1; index < count; index++) {
    if (numbers[start + index]! > numbers[start + best]!) best = index;
  }
  return best;
}

/** Makes a mean of numbers, which is NaN for none. */
export class Mean {
  #sum = 0;
  #count = 0;

  add(value: number): void {
    this.#sum += value;
    this.#count += 1;
  }

  value(): number {
    return this.#sum / this.#count;
  }
}

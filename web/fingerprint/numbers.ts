// Pseudo-random integers that are the same everywhere, and tensors of them.

import { Tensor, type TensorType } from '../base/tensor.js';

export { Tensor };

/** Lehmer's generator (Park and Miller, Communications of the ACM 31, 1988), in integers that doubles hold exactly. */
export class Integers {
  #state: number;

  /** `seed` is at least 1. */
  constructor(seed: number) {
    this.#state = seed;
  }

  /** The next integer in [least, most]. */
  next(least: number, most: number): number {
    this.#state = (this.#state * 48271) % 2147483647;
    return least + (this.#state % (most - least + 1));
  }

  list(count: number, least: number, most: number): number[] {
    return Array.from({ length: count }, () => this.next(least, most));
  }
}

/** A tensor of integers in [least, most]; for float32 these are divided by `most`. */
export function tensorOf(
  type: 'uint8' | 'float32',
  dims: readonly number[],
  random: Integers,
  least: number,
  most: number,
): Tensor<TensorType> {
  const numbers = random.list(
    dims.reduce((a, b) => a * b, 1),
    least,
    most,
  );
  return type === 'uint8'
    ? new Tensor('uint8', Uint8Array.from(numbers), dims)
    : new Tensor(
        'float32',
        Float32Array.from(numbers, (value) => value / most),
        dims,
      );
}

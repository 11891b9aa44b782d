// The order of dimensions in memory.

import type { Tensor } from 'requant';

/** The elements of a tensor in the order of other dimensions: dimension `i` of the result is `axes[i]` of the tensor. */
export function transposed({ data, dims }: Tensor, axes: readonly number[]): Tensor['data'] {
  if (axes.every((axis, at) => axis === at)) return data;
  const steps = dims.map((_, at) => dims.slice(at + 1).reduce((product, dim) => product * dim, 1));
  const made = data.slice();
  const index = axes.map(() => 0);
  let from = 0;
  for (let to = 0; to < made.length; to++) {
    made[to] = data[from]!;
    // Counts like an odometer, from the last dimension on.
    for (let at = axes.length - 1; at >= 0; at--) {
      const axis = axes[at]!;
      from += steps[axis]!;
      if (++index[at]! < dims[axis]!) break;
      from -= dims[axis]! * steps[axis]!;
      index[at] = 0;
    }
  }
  return made;
}

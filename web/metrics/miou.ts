import { type Meter, badTarget, numbersIn, numbersOf, outputOf, rightOf } from './metric.js';

/** The classes of the pixels of an output: those of the largest scores along `axis`, or the output itself. */
function classesOf(
  numbers: ArrayLike<number>,
  dims: readonly number[],
  axis: number,
): ArrayLike<number> {
  const count = dims[axis]!;
  const inner = dims.slice(axis + 1).reduce((product, dim) => product * dim, 1);
  const outer = numbers.length / (count * inner || 1);
  const classes = new Int32Array(outer * inner);
  for (let block = 0; block < outer; block++) {
    for (let at = 0; at < inner; at++) {
      const start = block * count * inner + at;
      let best = 0;
      for (let index = 1; index < count; index++) {
        if (numbers[start + index * inner]! > numbers[start + best * inner]!) best = index;
      }
      classes[block * inner + at] = best;
    }
  }
  return classes;
}

/**
 * Mean intersection over union of semantic segmentation: for each class the pixels that are right divided by
 * those that have the class in the output or in the target, over all samples, averaged over the classes that
 * occur (Long et al., Fully Convolutional Networks, arXiv:1411.4038, section 5, "mean IU").
 *
 * An output of as many elements as the target has the classes themselves; any other one has scores along
 * `axis`. The target is a tensor or an array with the class of each pixel; pixels of the class `ignore` count
 * for nothing.
 */
export function meanIou(output: string | undefined, axis: number, ignore: number): Meter {
  const counts = new Map<number, { both: number; either: number }>();
  const of = (label: number) => {
    let entry = counts.get(label);
    if (!entry) counts.set(label, (entry = { both: 0, either: 0 }));
    return entry;
  };
  return {
    add(outputs, sample) {
      const tensor = outputOf(outputs, output);
      const numbers = numbersOf(tensor);
      const target = numbersIn(rightOf(sample));
      const direct = target?.length === tensor.size;
      const found = direct
        ? numbers
        : tensor.dims[axis]
          ? classesOf(numbers, tensor.dims, axis)
          : undefined;
      if (!target || found?.length !== target.length) {
        throw badTarget(
          'miou',
          sample,
          `an array with a class for each pixel of the output [${tensor.dims.join(', ')}], whose axis ${axis} has the scores`,
        );
      }
      for (let pixel = 0; pixel < target.length; pixel++) {
        const [right, given] = [target[pixel]!, found[pixel]!];
        if (right === ignore) continue;
        of(right).either += 1;
        if (given === right) of(right).both += 1;
        else of(given).either += 1;
      }
    },
    value() {
      const ratios = [...counts.values()].map(({ both, either }) => both / either);
      return ratios.reduce((sum, one) => sum + one, 0) / ratios.length;
    },
  };
}

import { type Meter, Mean, largest, numbersOf, outputOf, rowsOf } from './metric.js';

/**
 * Agreement: the share of rows in which the highest score belongs to the same class as in the float model. It
 * is the top-1 accuracy with the float model's answers as labels, the fidelity of Stanton et al.
 * (arXiv:2106.05945, equation 4). A row with NaN in either model disagrees.
 */
export function agreement(output: string | undefined): Meter {
  const mean = new Mean();
  return {
    add(outputs, _sample, float) {
      const tensor = outputOf(outputs, output);
      const { rows, classes } = rowsOf(tensor);
      const [ours, theirs] = [numbersOf(tensor), numbersOf(outputOf(float!, output))];
      const answer = (numbers: ArrayLike<number>, start: number) => {
        for (let index = 0; index < classes; index++) {
          if (Number.isNaN(numbers[start + index]!)) return NaN;
        }
        return largest(numbers, start, classes);
      };
      for (let row = 0; row < rows; row++) {
        mean.add(answer(ours, row * classes) === answer(theirs, row * classes) ? 1 : 0);
      }
    },
    value: () => mean.value(),
  };
}

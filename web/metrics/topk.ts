import {
  type Meter,
  Mean,
  badTarget,
  numbersIn,
  numbersOf,
  outputOf,
  rightOf,
  rowsOf,
} from './metric.js';

/**
 * Top-k accuracy: the share of rows whose right class is among the `k` classes of the highest scores
 * (Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, arXiv:1409.0575, section 4.1, as 1
 * minus the error). Of equal scores the one of lower index counts as higher. A score that is NaN is wrong.
 *
 * The output has a row for each label: [1, classes], or [rows, classes] with an array of labels as target.
 */
export function topk(k: number, output: string | undefined): Meter {
  const mean = new Mean();
  return {
    add(outputs, sample) {
      const tensor = outputOf(outputs, output);
      const { rows, classes } = rowsOf(tensor);
      const scores = numbersOf(tensor);
      const right = rightOf(sample);
      const labels = typeof right === 'number' ? [right] : numbersIn(right);
      const whole = (label: number) => Number.isInteger(label) && label >= 0 && label < classes;
      if (labels?.length !== rows || !Array.from(labels).every(whole)) {
        throw badTarget(
          `top${k}`,
          sample,
          `${rows === 1 ? 'an integer' : `${rows} integers`} below ${classes}, the number of classes`,
        );
      }
      for (let row = 0; row < rows; row++) {
        const start = row * classes;
        const own = scores[start + labels[row]!]!;
        let ahead = 0;
        for (let index = 0; index < classes; index++) {
          const score = scores[start + index]!;
          if (score > own || (score === own && index < labels[row]!)) ahead += 1;
        }
        mean.add(ahead < k && !Number.isNaN(own) ? 1 : 0);
      }
    },
    value: () => mean.value(),
  };
}

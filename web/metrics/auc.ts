import { invalidArgument } from '../base/errors.js';
import { type Meter, badTarget, numbersOf, outputOf, rightOf } from './metric.js';

/**
 * Area under the curve of a receiver operating characteristic: the share of pairs of a positive and a negative
 * sample in which the positive one has the higher score, ties as half (Hanley, McNeil, Radiology 1982, The
 * Meaning and Use of the Area under a ROC Curve; Fawcett, Pattern Recognition Letters 2006, section 7).
 *
 * The score is element `index` of the output. Without an index it is the only element, or the second one of
 * two minus the first. The label is 0 or 1 (or `true`).
 */
export function areaUnderRoc(index: number | undefined, output: string | undefined): Meter {
  const scores: { score: number; positive: boolean }[] = [];
  return {
    add(outputs, sample) {
      const numbers = numbersOf(outputOf(outputs, output));
      const right = rightOf(sample);
      if (![0, 1, true, false].includes(right as number)) throw badTarget('auc', sample, '0 or 1');
      const score =
        index !== undefined
          ? numbers[index]
          : numbers.length === 2
            ? numbers[1]! - numbers[0]!
            : numbers.length === 1
              ? numbers[0]
              : undefined;
      if (score === undefined) {
        throw invalidArgument(
          `the output has ${numbers.length} elements`,
          'index',
          'Say by index which element is the score.',
        );
      }
      scores.push({ score, positive: Boolean(right) });
    },
    value() {
      if (scores.some(({ score }) => Number.isNaN(score))) return NaN;
      // The sum of the ranks of the positive samples, equal scores with their mean rank.
      const sorted = [...scores].sort((a, b) => a.score - b.score);
      let [sum, positives] = [0, 0];
      for (let first = 0; first < sorted.length;) {
        let end = first + 1;
        while (end < sorted.length && sorted[end]!.score === sorted[first]!.score) end += 1;
        const count = sorted.slice(first, end).filter(({ positive }) => positive).length;
        sum += (count * (first + 1 + end)) / 2;
        positives += count;
        first = end;
      }
      const negatives = sorted.length - positives;
      return (sum - (positives * (positives + 1)) / 2) / (positives * negatives);
    },
  };
}

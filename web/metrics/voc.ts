import {
  type DecodeBoxes,
  type Detection,
  type TrueBox,
  checkDetections,
  envelope,
  labelsOf,
  overlap,
  trueBoxes,
} from './boxes.js';
import type { Meter } from './metric.js';

/** The area below the precision, which falls where the recall rises. */
function areaBelow(recall: readonly number[], precision: readonly number[]): number {
  return recall.reduce((sum, now, index) => {
    const before = index > 0 ? recall[index - 1]! : 0;
    return sum + (now - before) * precision[index]!;
  }, 0);
}

/** The mean of the largest precisions at the recalls 0, 0.1, ... 1 or beyond. */
function atElevenPoints(recall: readonly number[], precision: readonly number[]): number {
  let sum = 0;
  for (let point = 0; point <= 10; point++) {
    const at = recall.findIndex((value) => value >= point / 10);
    if (at >= 0) sum += precision[at]!;
  }
  return sum / 11;
}

/**
 * Mean average precision of PASCAL VOC at an overlap of 0.5 (Everingham et al., The PASCAL Visual Object
 * Classes Challenge, IJCV 2010, section 4.2; `VOCevaldet.m` of the development kit). `points` 'all' is the area
 * below the curve, as since 2010, and '11' the mean at 11 recalls, as in 2007. A detection belongs to the box
 * of the largest overlap; the second one of a box is wrong, and one of a `difficult` box counts for nothing.
 * Sides are differences of corners, without the kit's additional pixel. The target is an array of
 * {@link TrueBox}.
 */
export function vocMap(decode: DecodeBoxes, threshold: number, points: 'all' | '11'): Meter {
  const found: (Detection & { image: number })[] = [];
  const truths: (readonly TrueBox[])[] = [];
  return {
    async add(outputs, sample) {
      truths.push(trueBoxes('voc_map', sample));
      const detections = checkDetections(await decode(outputs, sample));
      found.push(...detections.map((one) => ({ ...one, image: truths.length - 1 })));
    },
    value() {
      const averages: number[] = [];
      for (const label of labelsOf(truths)) {
        const own = truths.map((image) => image.filter((truth) => truth.label === label));
        const count = own.flat().filter(({ difficult }) => !difficult).length;
        if (count === 0) continue;
        const taken = new Set<TrueBox>();
        let [right, wrong] = [0, 0];
        const recall: number[] = [];
        const precision: number[] = [];
        const sorted = found.filter((one) => one.label === label).sort((a, b) => b.score - a.score);
        for (const { box, image } of sorted) {
          let best: { truth: TrueBox; common: number } | undefined;
          for (const truth of own[image]!) {
            const common = overlap(box, truth.box);
            if (!best || common > best.common) best = { truth, common };
          }
          const hit = best !== undefined && best.common >= threshold;
          if (hit && best!.truth.difficult) continue;
          if (hit && !taken.has(best!.truth)) right += 1;
          else wrong += 1;
          if (hit) taken.add(best!.truth);
          recall.push(right / count);
          precision.push(right / (right + wrong));
        }
        envelope(precision);
        averages.push((points === '11' ? atElevenPoints : areaBelow)(recall, precision));
      }
      return averages.reduce((sum, one) => sum + one, 0) / averages.length;
    },
  };
}

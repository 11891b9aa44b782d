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

// As numpy's linspace computes them for pycocotools.
const THRESHOLDS = Array.from({ length: 10 }, (_, index) => 0.5 + index * ((0.95 - 0.5) / 9));
const RECALLS = Array.from({ length: 101 }, (_, index) => index * 0.01);

/** One detection behind its matching: whether it is right, or counts for nothing. */
interface Matched {
  score: number;
  right: boolean;
  ignored: boolean;
}

/** Matches the detections of one image, the best first, with the boxes of the same class. */
function match(
  detections: readonly Detection[],
  truths: readonly TrueBox[],
  threshold: number,
): Matched[] {
  const taken = new Set<TrueBox>();
  return detections.map(({ box, score }) => {
    let best = Math.min(threshold, 1 - 1e-10);
    let found: TrueBox | undefined;
    for (const truth of truths) {
      const crowd = truth.crowd ?? false;
      if (taken.has(truth) && !crowd) continue;
      // Groups stand behind all others: a box that counts is not given up for one.
      if (found && !found.crowd && crowd) break;
      const common = overlap(box, truth.box, crowd);
      if (common < best) continue;
      best = common;
      found = truth;
    }
    if (found) taken.add(found);
    return { score, right: found !== undefined, ignored: found?.crowd ?? false };
  });
}

/** Average precision at 101 recalls of one class at one threshold. */
function average(matched: readonly Matched[], count: number): number {
  const counted = [...matched].sort((a, b) => b.score - a.score).filter(({ ignored }) => !ignored);
  let right = 0;
  const recall: number[] = [];
  const precision = counted.map((one, index) => {
    if (one.right) right += 1;
    recall.push(right / count);
    return right / (index + 1);
  });
  envelope(precision);
  let sum = 0;
  let at = 0;
  for (const wanted of RECALLS) {
    while (at < recall.length && recall[at]! < wanted) at += 1;
    if (at < recall.length) sum += precision[at]!;
  }
  return sum / RECALLS.length;
}

/**
 * Mean average precision of COCO: the mean over classes and over the thresholds 0.5, 0.55, ... 0.95 of the
 * overlap, with the precision at 101 recalls and at most 100 detections of a class in an image (Lin et al.,
 * Microsoft COCO, arXiv:1405.0312; `cocoeval.py` of pycocotools, all areas). Classes without a box that counts
 * are left out. The target is an array of {@link TrueBox}.
 */
export function cocoMap(decode: DecodeBoxes, mostDetections: number): Meter {
  const found: (readonly Detection[])[] = [];
  const truths: (readonly TrueBox[])[] = [];
  return {
    async add(outputs, sample) {
      truths.push(trueBoxes('coco_map', sample));
      found.push(checkDetections(await decode(outputs, sample)));
    },
    value() {
      let [sum, count] = [0, 0];
      for (const label of labelsOf(truths)) {
        const images = truths.map((image, index) => {
          const own = image.filter((truth) => truth.label === label);
          return {
            truths: [...own.filter(({ crowd }) => !crowd), ...own.filter(({ crowd }) => crowd)],
            detections: found[index]!.filter((one) => one.label === label)
              .sort((a, b) => b.score - a.score)
              .slice(0, mostDetections),
          };
        });
        const wanted = images.flatMap((image) => image.truths).filter(({ crowd }) => !crowd).length;
        if (wanted === 0) continue;
        for (const threshold of THRESHOLDS) {
          const matched = images.flatMap((image) =>
            match(image.detections, image.truths, threshold),
          );
          sum += average(matched, wanted);
          count += 1;
        }
      }
      return sum / count;
    },
  };
}

// Boxes of detectors: the forms of outputs and targets, their decoding, and the overlap of two boxes.

import { invalidArgument, show } from '../base/errors.js';
import { type MetricSample, type Outputs, badTarget, numbersOf, outputOf } from './metric.js';

/** Corners: left, top, right, bottom, in any unit that is the same for outputs and targets. */
export type Box = readonly [x1: number, y1: number, x2: number, y2: number];

/** A box that a detector found. */
export interface Detection {
  readonly box: Box;
  readonly label: number;
  /** Detections of a higher score come first. */
  readonly score: number;
}

/** A box that is right. A target of a detector is an array of them, which may be empty. */
export interface TrueBox {
  readonly box: Box;
  readonly label: number;
  /** For COCO: a group of objects, which counts for nothing. */
  readonly crowd?: boolean;
  /** For VOC: an object that counts for nothing. */
  readonly difficult?: boolean;
}

/** The numbers of a box in an output. */
export type BoxForm = 'xyxy' | 'yxyx' | 'xywh' | 'cxcywh';

/** Makes detections of the outputs for one sample. */
export type DecodeBoxes = (
  outputs: Outputs,
  sample: MetricSample,
) => readonly Detection[] | Promise<readonly Detection[]>;

/** Names of the outputs of a non-maximum suppression, for one image. */
export interface NmsOutputs {
  /** [1, N, 4] or [N, 4]. */
  boxes: string;
  /** N scores or, with `indices`, [1, classes, N]. */
  scores: string;
  /** N classes; missing: all boxes have class 0. */
  classes?: string;
  /** One number: only so many of the boxes count. */
  count?: string;
  /** The `selected_indices` of ONNX's NonMaxSuppression, [M, 3]: batch, class, box. */
  indices?: string;
}

const cornersOf: Readonly<Record<BoxForm, (numbers: Box) => Box>> = {
  xyxy: (box) => box,
  yxyx: ([y1, x1, y2, x2]) => [x1, y1, x2, y2],
  xywh: ([x, y, width, height]) => [x, y, x + width, y + height],
  cxcywh: ([x, y, width, height]) => [x - width / 2, y - height / 2, x + width / 2, y + height / 2],
};

export const boxForms = Object.keys(cornersOf) as readonly BoxForm[];

/** Reads the outputs of a non-maximum suppression. */
export function decodeNms(names: NmsOutputs, form: BoxForm): DecodeBoxes {
  return (outputs) => {
    const read = (name: string) => numbersOf(outputOf(outputs, name));
    const [boxes, scores] = [read(names.boxes), read(names.scores)];
    const total = Math.floor(boxes.length / 4);
    const boxAt = (index: number) =>
      cornersOf[form](Array.from({ length: 4 }, (_, at) => boxes[4 * index + at]!) as never);
    if (names.indices !== undefined) {
      const selected = read(names.indices);
      return Array.from({ length: Math.floor(selected.length / 3) }, (_, at): Detection => {
        const [label, index] = [selected[3 * at + 1]!, selected[3 * at + 2]!];
        return { box: boxAt(index), label, score: scores[label * total + index]! };
      });
    }
    const classes = names.classes === undefined ? undefined : read(names.classes);
    const count = names.count === undefined ? total : Number(read(names.count)[0]);
    if (scores.length < Math.min(count, total) || (classes && classes.length < scores.length)) {
      throw invalidArgument(
        `there are ${total} boxes, but ${scores.length} scores`,
        names.scores,
        'Each box needs a score and a class; outputs before NonMaxSuppression need `indices`.',
      );
    }
    return Array.from({ length: Math.min(count, total) }, (_, index) => ({
      box: boxAt(index),
      label: classes ? classes[index]! : 0,
      score: scores[index]!,
    }));
  };
}

const areaOf = ([x1, y1, x2, y2]: Box) => Math.max(0, x2 - x1) * Math.max(0, y2 - y1);

/**
 * Intersection over union of two boxes; with `crowd`, over the area of the first one, as COCO has it for groups.
 */
export function overlap(a: Box, b: Box, crowd = false): number {
  const width = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const height = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  if (!(width > 0 && height > 0)) return 0;
  const common = width * height;
  return common / (crowd ? areaOf(a) : areaOf(a) + areaOf(b) - common);
}

const isBox = (box: unknown) =>
  Array.isArray(box) && box.length === 4 && box.every((side) => typeof side === 'number');

/** The boxes of a sample's target. Throws INVALID_ARGUMENT for other targets. */
export function trueBoxes(metric: string, sample: MetricSample): readonly TrueBox[] {
  const target = sample.target as readonly TrueBox[];
  const whole = (one: TrueBox | null) => isBox(one?.box) && typeof one?.label === 'number';
  if (Array.isArray(target) && target.every(whole)) return target;
  throw badTarget(metric, sample, 'an array of { box: [x1, y1, x2, y2], label }');
}

/** Throws INVALID_ARGUMENT for a value that is no array of detections. */
export function checkDetections(found: unknown): readonly Detection[] {
  const whole = (one: Detection | null) =>
    isBox(one?.box) && typeof one?.label === 'number' && typeof one?.score === 'number';
  if (Array.isArray(found) && found.every(whole)) return found as Detection[];
  throw invalidArgument(
    `decode gave ${show(found)}`,
    'decode',
    'It must give an array of { box: [x1, y1, x2, y2], label, score }.',
  );
}

/** The labels of boxes that are right, each once. */
export const labelsOf = (truths: readonly (readonly TrueBox[])[]): number[] => [
  ...new Set(truths.flat().map(({ label }) => label)),
];

/** Precisions behind each detection, each the largest of those at its recall or beyond. */
export function envelope(precision: number[]): number[] {
  for (let index = precision.length - 1; index > 0; index--) {
    precision[index - 1] = Math.max(precision[index - 1]!, precision[index]!);
  }
  return precision;
}

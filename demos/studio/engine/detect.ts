// Reads the boxes of detectors from their outputs, in the forms that are common.

import type { Tensor } from 'requant';
import type { Outputs } from './task.js';

/** A box in shares of the input's sides. */
export interface Found {
  box: readonly [left: number, top: number, right: number, bottom: number];
  label: number;
  score: number;
}

const LEAST_SCORE = 0.5;
const MOST_OVERLAP = 0.4;
const MOST_BOXES = 30;

/** The size of the network's input in pixels. */
export interface Side {
  width: number;
  height: number;
}

const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));

/** Intersection over union. */
export function overlap(a: Found['box'], b: Found['box']): number {
  const width = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const height = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  if (width <= 0 || height <= 0) return 0;
  const area = ([left, top, right, bottom]: Found['box']) => (right - left) * (bottom - top);
  return (width * height) / (area(a) + area(b) - width * height);
}

/** The best boxes, without those that lie on better ones of their class. */
function suppressed(found: Found[]): Found[] {
  const kept: Found[] = [];
  for (const one of found.sort((a, b) => b.score - a.score)) {
    if (kept.length === MOST_BOXES) break;
    const covered = kept.some(
      ({ box, label }) => label === one.label && overlap(box, one.box) > MOST_OVERLAP,
    );
    if (!covered) kept.push(one);
  }
  return kept;
}

const rows = ({ dims }: Tensor) => dims.filter((dim, at) => at > 0 || dim > 1);

/** Boxes as corners or as a middle with sides, in pixels or in shares. */
function cornersOf(
  [a, b, c, d]: readonly number[],
  middle: boolean,
  { width, height }: Side,
  inPixels: boolean,
): Found['box'] {
  const [x, y] = inPixels ? [width, height] : [1, 1];
  const [left, top, right, bottom] = middle
    ? [a! - c! / 2, b! - d! / 2, a! + c! / 2, b! + d! / 2]
    : [a!, b!, c!, d!];
  return [left / x, top / y, right / x, bottom / y];
}

/**
 * Anchors of MediaPipe's face detectors: two on each cell of 16 x 16 and six on each of 8 x 8, or one on each of
 * 48 x 48 (face_detection_short_range and _full_range of MediaPipe). All have the size of the input.
 */
function faceAnchors(count: number): [number, number][] | undefined {
  const cells = (side: number, times: number) =>
    Array.from({ length: side * side * times }, (_, at): [number, number] => {
      const cell = Math.floor(at / times);
      return [((cell % side) + 0.5) / side, (Math.floor(cell / side) + 0.5) / side];
    });
  if (count === 896) return [...cells(16, 2), ...cells(8, 6)];
  if (count === 2304) return cells(48, 1);
  return undefined;
}

type Reader = () => Found[];

/** BlazeFace: [1, anchors, 16] with boxes and points of faces, and [1, anchors, 1]. */
function readFaces(tensors: readonly Tensor[], { width, height }: Side): Reader | undefined {
  const places = tensors.find(({ dims }) => dims.at(-1) === 16);
  const scores = tensors.find(({ dims }) => dims.at(-1) === 1);
  const anchors = places && faceAnchors(places.size / 16);
  if (!places || !anchors || scores?.size !== anchors.length) return undefined;
  return () => {
    const [values, logits] = [places.toFloat32(), scores.toFloat32()];
    return anchors.flatMap(([x, y], at): Found[] => {
      const score = sigmoid(logits[at]!);
      if (score < LEAST_SCORE) return [];
      const [dx, dy, w, h] = values.subarray(16 * at, 16 * at + 4);
      const [cx, cy] = [x + dx! / width, y + dy! / height];
      const [halfX, halfY] = [w! / width / 2, h! / height / 2];
      return [{ box: [cx - halfX, cy - halfY, cx + halfX, cy + halfY], label: 0, score }];
    });
  };
}

/** Boxes [N, 4] beside scores [N] or [N, classes], the first of which is the background if there are two or more. */
function readPairs(tensors: readonly Tensor[], side: Side): Reader | undefined {
  const boxes = tensors.find((one) => rows(one).length === 2 && one.dims.at(-1) === 4);
  if (!boxes) return undefined;
  const count = boxes.size / 4;
  const scores = tensors.find(
    (one) => one !== boxes && one.type === 'float32' && count > 4 && one.size % count === 0,
  );
  if (!scores) return undefined;
  const classes = scores.size / count;
  const others = tensors.find((one) => one !== boxes && one !== scores && one.size === count);
  return () => {
    const [places, values] = [boxes.toFloat32(), scores.toFloat32()];
    const labels = others?.toFloat32();
    const inPixels = places.some((value) => value > 2);
    // A side is rarely larger than the middle is far from the corner.
    let turned = 0;
    for (let at = 0; at < places.length; at += 4) {
      turned += Number(places[at + 2]! < places[at]! || places[at + 3]! < places[at + 1]!);
    }
    const middle = turned > count / 10;
    const shares = values.every((value) => value >= 0 && value <= 1);
    const found: Found[] = [];
    for (let at = 0; at < count; at++) {
      let label = classes > 1 ? 1 : 0;
      for (let one = label + 1; one < classes; one++) {
        if (values[at * classes + one]! > values[at * classes + label]!) label = one;
      }
      const value = values[at * classes + label]!;
      const score = shares ? value : sigmoid(value);
      if (score < LEAST_SCORE) continue;
      const box = cornersOf([...places.subarray(4 * at, 4 * at + 4)], middle, side, inPixels);
      found.push({ box, label: labels ? labels[at]! : label, score });
    }
    return found;
  };
}

/** YOLO: [1, 4 + classes, N] (v8 and later), or [1, N, 5 + classes] with a score of there being anything (v5, v7). */
function readYolo(tensors: readonly Tensor[], side: Side): Reader | undefined {
  const tensor = tensors.find(
    ({ dims }) => dims.length === 3 && dims[0] === 1 && Math.max(dims[1]!, dims[2]!) >= 300,
  );
  if (!tensor) return undefined;
  const [, first, second] = tensor.dims as [number, number, number];
  const columns = first < second;
  const [count, fields] = columns ? [second, first] : [first, second];
  const from = columns ? 4 : 5;
  if (fields < from + 1 || fields > 1000) return undefined;
  return () => {
    const values = tensor.toFloat32();
    const get = (at: number, field: number) =>
      values[columns ? field * count + at : at * fields + field]!;
    const found: Found[] = [];
    for (let at = 0; at < count; at++) {
      let label = from;
      for (let one = from + 1; one < fields; one++) if (get(at, one) > get(at, label)) label = one;
      const score = get(at, label) * (columns ? 1 : get(at, 4));
      if (score < LEAST_SCORE) continue;
      const numbers = [0, 1, 2, 3].map((field) => get(at, field));
      const box = cornersOf(numbers, true, side, Math.max(...numbers) > 2);
      found.push({ box, label: label - from, score });
    }
    return found;
  };
}

/** How to read the boxes of these outputs; undefined for those of no detector. */
function readerOf(outputs: Outputs, side: Side): Reader | undefined {
  const tensors = Object.values(outputs);
  return readFaces(tensors, side) ?? readPairs(tensors, side) ?? readYolo(tensors, side);
}

/** Whether outputs have the form of a detector's. */
export const hasBoxes = (outputs: Outputs, side: Side): boolean =>
  readerOf(outputs, side) !== undefined;

/** The boxes that the outputs say, the most certain ones first. */
export const boxesOf = (outputs: Outputs, side: Side): Found[] =>
  suppressed(readerOf(outputs, side)?.() ?? []);

/** How alike two lists of boxes are: the share of pairs of one class that overlap by half, of all boxes. */
export function sameBoxes(float: readonly Found[], quantized: readonly Found[]): number {
  const left = [...quantized];
  let pairs = 0;
  for (const { box, label } of float) {
    const at = left.findIndex((one) => one.label === label && overlap(one.box, box) >= 0.5);
    if (at < 0) continue;
    left.splice(at, 1);
    pairs += 1;
  }
  const all = float.length + left.length;
  return all === 0 ? 1 : pairs / all;
}

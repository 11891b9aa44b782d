// Guesses the task of a network, and puts its answers in the terms of that task: classes, boxes, masks, neighbours.

import type { ModelInfo, Tensor } from 'requant';

/** The kinds of answers that the studio shows. */
export const tasks = ['classes', 'boxes', 'masks', 'neighbours', 'numbers'] as const;
export type Task = (typeof tasks)[number];

export const taskNames: Readonly<Record<Task, string>> = {
  classes: 'Classes',
  boxes: 'Boxes on the picture',
  masks: 'Masks over the picture',
  neighbours: 'Nearest neighbours',
  numbers: 'Numbers',
};

export type Outputs = Readonly<Record<string, Tensor>>;

/** Whether a tensor is a share alone: of the second of two classes. */
export const isShare = (tensor: Tensor): boolean => {
  if (tensor.size !== 1) return false;
  const [share] = tensor.toFloat32();
  return share! >= 0 && share! <= 1;
};

/** Whether a tensor scores classes: one row of numbers, or one share. */
export function isScores(tensor: Tensor): boolean {
  const { dims, size } = tensor;
  if (size === 1) return isShare(tensor);
  return size >= 2 && size <= 50_000 && dims.filter((dim) => dim > 1).length === 1;
}

const EMBEDDING = /embed|feature|descriptor|pooled|sentence/i;

/** Unit vectors are embeddings: scores of classes have that length by accident only. */
function isUnit(tensor: Tensor): boolean {
  const power = tensor.toFloat32().reduce((sum, value) => sum + value * value, 0);
  return tensor.size >= 64 && Math.abs(power - 1) < 1e-3;
}

/** The height and width of a mask and the axis of its classes; undefined for a tensor that is no mask. */
export function maskShape({
  dims,
}: Pick<Tensor, 'dims'>):
  { height: number; width: number; classes: number; last: boolean } | undefined {
  if (dims.length < 2 || dims.length > 4 || (dims.length === 4 && dims[0] !== 1)) return undefined;
  const [a, b, c] = dims.length === 4 ? dims.slice(1) : dims.length === 3 ? dims : [1, ...dims];
  const [first, second, third] = [a!, b!, c!];
  // Channels are fewer than pixels of a side.
  if (first < second && first < third) {
    return { classes: first, height: second, width: third, last: false };
  }
  if (third < first && third < second) {
    return { classes: third, height: first, width: second, last: true };
  }
  return undefined;
}

const LEAST_SIDE = 16;

function isMask(tensor: Tensor): boolean {
  const shape = maskShape(tensor);
  return (
    shape !== undefined &&
    Math.min(shape.width, shape.height) >= LEAST_SIDE &&
    shape.classes <= 256 &&
    tensor.dims.length === 4
  );
}

/** The task that the outputs of a sample suggest. */
export function guessTask(outputs: Outputs, { inputs }: ModelInfo, hasBoxes: boolean): Task {
  const [[name, first]] = Object.entries(outputs) as [[string, Tensor]];
  if (hasBoxes) return 'boxes';
  if (inputs[0]?.dims.length === 4 && Object.values(outputs).some(isMask)) return 'masks';
  if (isScores(first)) return EMBEDDING.test(name) || isUnit(first) ? 'neighbours' : 'classes';
  return 'numbers';
}

/** A mask: the class of each pixel. */
export interface Mask {
  width: number;
  height: number;
  classes: Uint8Array;
}

/** The class of each pixel: the highest score, or, of one channel, whether it is above its middle. */
export function maskOf(outputs: Outputs): Mask {
  const tensor = Object.values(outputs).find(isMask) ?? Object.values(outputs)[0]!;
  const {
    width,
    height,
    classes: count,
    last,
  } = maskShape(tensor) ?? {
    width: tensor.size,
    height: 1,
    classes: 1,
    last: true,
  };
  const values = tensor.toFloat32();
  const pixels = width * height;
  const classes = new Uint8Array(pixels);
  // Logits are negative in part, shares are not.
  const middle = values.some((value) => value < 0) ? 0 : 0.5;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const at = (channel: number) =>
      values[last ? pixel * count + channel : channel * pixels + pixel]!;
    if (count === 1) {
      classes[pixel] = Number(at(0) > middle);
      continue;
    }
    let most = 0;
    for (let channel = 1; channel < count; channel++) if (at(channel) > at(most)) most = channel;
    classes[pixel] = most;
  }
  return { width, height, classes };
}

/**
 * Mean intersection over union of two masks, over the classes that the first one has; the background (0) counts only
 * where nothing else is.
 */
export function sameMask(float: Mask, quantized: Mask): number {
  const common = new Map<number, number>();
  const either = new Map<number, number>();
  const add = (map: Map<number, number>, key: number) => map.set(key, (map.get(key) ?? 0) + 1);
  const present = new Set<number>();
  float.classes.forEach((own, at) => {
    const other = quantized.classes[at]!;
    present.add(own);
    add(either, own);
    if (own === other) add(common, own);
    else add(either, other);
  });
  if (present.size > 1) present.delete(0);
  const ratios = [...present].map((one) => (common.get(one) ?? 0) / either.get(one)!);
  return ratios.reduce((a, b) => a + b, 0) / ratios.length;
}

/** Cosine of two vectors. */
function cosine(a: Float32Array, b: Float32Array): number {
  let [product, first, second] = [0, 0, 0];
  for (let at = 0; at < a.length; at++) {
    product += a[at]! * b[at]!;
    first += a[at]! ** 2;
    second += b[at]! ** 2;
  }
  return first && second ? product / Math.sqrt(first * second) : 0;
}

/** For each vector the indices of the others that are nearest, by cosine. */
export function nearest(vectors: readonly Float32Array[], count: number): number[][] {
  return vectors.map((own, index) =>
    vectors
      .map((other, at) => ({ at, likeness: at === index ? -Infinity : cosine(own, other) }))
      .sort((a, b) => b.likeness - a.likeness)
      .slice(0, Math.min(count, vectors.length - 1))
      .map(({ at }) => at),
  );
}

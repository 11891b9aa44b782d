// Finds faces with MediaPipe's short range network (BlazeFace, arXiv:1907.05047).

/** A face: the corner and the size of its box, as shares of the picture's sides, and how sure the network is. */
export interface Face {
  x: number;
  y: number;
  width: number;
  height: number;
  score: number;
}

/** The side of the network's input. */
export const FACE_SIDE = 128;

/** The least score of a face, and the overlap from which on two boxes are one face. */
const LEAST_SCORE = 0.5;
const SAME_FACE = 0.3;

/**
 * Centers of the 896 boxes in the order of the outputs: two at each cell of a grid of 16 x 16, and six at each of a
 * grid of 8 x 8 (face_detection_short_range_common.pbtxt of MediaPipe).
 */
const CENTERS = [
  [16, 2],
  [8, 6],
].flatMap(([cells, boxes]) =>
  Array.from({ length: cells! * cells! * boxes! }, (_, index) => {
    const cell = Math.floor(index / boxes!);
    return [((cell % cells!) + 0.5) / cells!, (Math.floor(cell / cells!) + 0.5) / cells!] as const;
  }),
);

/** The faces in the outputs of the network: boxes of 16 numbers each, and scores before the sigmoid. */
export function facesIn(boxes: Float32Array, scores: Float32Array): Face[] {
  const found: Face[] = [];
  CENTERS.forEach(([centerX, centerY], index) => {
    const score = 1 / (1 + Math.exp(-scores[index]!));
    if (score < LEAST_SCORE) return;
    const [x, y, width, height] = Array.from(
      boxes.subarray(16 * index, 16 * index + 4),
      (value) => value / FACE_SIDE,
    ) as [number, number, number, number];
    found.push({
      x: centerX + x - width / 2,
      y: centerY + y - height / 2,
      width,
      height,
      score,
    });
  });
  found.sort((a, b) => b.score - a.score);
  return found.filter((face, index) =>
    found.slice(0, index).every((better) => overlap(face, better) < SAME_FACE),
  );
}

/** The area that two boxes share, divided by the area that they cover. */
function overlap(a: Face, b: Face): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  const both = Math.max(0, width) * Math.max(0, height);
  return both / (a.width * a.height + b.width * b.height - both);
}

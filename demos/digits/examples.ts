// Digits made of straight strokes with random ends, for those who do not want to draw.

import type { Drawing } from './learn.js';
import { pixelsOf, takePen } from './pad.js';

/** The side of the paper, in pixels. */
const PAPER = 120;

/** Lines from (x, y) to (x, y), in units of half the digit's height. */
const STROKES = {
  top: [0, 0, 1, 0],
  upperRight: [1, 0, 1, 1],
  lowerRight: [1, 1, 1, 2],
  bottom: [0, 2, 1, 2],
  lowerLeft: [0, 1, 0, 2],
  upperLeft: [0, 0, 0, 1],
  middle: [0, 1, 1, 1],
} as const;

type Stroke = keyof typeof STROKES;

const DIGITS: readonly (readonly Stroke[])[] = [
  ['top', 'upperRight', 'lowerRight', 'bottom', 'lowerLeft', 'upperLeft'],
  ['upperRight', 'lowerRight'],
  ['top', 'upperRight', 'middle', 'lowerLeft', 'bottom'],
  ['top', 'upperRight', 'middle', 'lowerRight', 'bottom'],
  ['upperLeft', 'middle', 'upperRight', 'lowerRight'],
  ['top', 'upperLeft', 'middle', 'lowerRight', 'bottom'],
  ['top', 'upperLeft', 'middle', 'lowerLeft', 'lowerRight', 'bottom'],
  ['top', 'upperRight', 'lowerRight'],
  ['top', 'upperRight', 'lowerRight', 'bottom', 'lowerLeft', 'upperLeft', 'middle'],
  ['top', 'upperRight', 'lowerRight', 'bottom', 'upperLeft', 'middle'],
];

/** A drawing of the digit, another one in each call. */
export function exampleOf(digit: number): Drawing {
  const context = new OffscreenCanvas(PAPER, PAPER).getContext('2d')!;
  takePen(context);
  const at = (value: number) => (0.25 + value / 4 + 0.06 * (Math.random() - 0.5)) * PAPER;
  for (const stroke of DIGITS[digit]!) {
    const [x0, y0, x1, y1] = STROKES[stroke];
    context.beginPath();
    context.moveTo(at(x0), at(y0));
    context.lineTo(at(x1), at(y1));
    context.stroke();
  }
  return { pixels: pixelsOf(context), label: digit };
}

// Reads text in pictures with PaddleOCR's networks (PP-OCRv4, arXiv:2009.09941): one finds lines of text, the other reads
// a line.

import { InferenceSession, Tensor } from 'requant';

/** A line of text: its box in the picture's pixels, and what it says. */
export interface Line {
  x: number;
  y: number;
  width: number;
  height: number;
  text: string;
  /** How sure the network is, from 0 to 1. */
  share: number;
}

/** A part of a picture, scaled to width x height, as bytes of red, green, blue and alpha. */
export type Cut = (
  from: { x: number; y: number; width: number; height: number },
  width: number,
  height: number,
) => Uint8ClampedArray;

/** The longest side in which lines are searched. */
const MOST = 960;
/** The networks' sides are multiples of 32. */
const STEP = 32;
/** A pixel of a line has at least this probability, and the line as a whole that one. */
const PIXEL = 0.3;
const WHOLE = 0.6;
/** Lines are found thinner than they are: a box grows by 1.5 times its area divided by its circumference. */
const GROWTH = 1.5;
/** The height of a line for reading. */
const HEIGHT = 48;
const LEAST_SHARE = 0.5;

/** Bytes as a tensor of three planes, (value / 255 - mean) / deviation. */
function planes(
  rgba: Uint8ClampedArray,
  width: number,
  height: number,
  mean: number[],
  deviation: number[],
) {
  const size = width * height;
  const values = new Float32Array(3 * size);
  for (let at = 0; at < size; at++) {
    for (let channel = 0; channel < 3; channel++) {
      const value = rgba[4 * at + channel]! / 255;
      values[channel * size + at] = (value - mean[channel]!) / deviation[channel]!;
    }
  }
  return new Tensor('float32', values, [1, 3, height, width]);
}

/** Boxes of connected pixels in a map of probabilities, grown, from top to bottom. */
function boxesIn(map: Float32Array, width: number, height: number) {
  const boxes: { left: number; top: number; right: number; bottom: number }[] = [];
  const seen = new Uint8Array(map.length);
  for (let start = 0; start < map.length; start++) {
    if (seen[start] || map[start]! < PIXEL) continue;
    const queue = [start];
    seen[start] = 1;
    let [left, top, right, bottom, sum] = [width, height, 0, 0, 0];
    for (let next = 0; next < queue.length; next++) {
      const at = queue[next]!;
      const [x, y] = [at % width, Math.floor(at / width)];
      sum += map[at]!;
      left = Math.min(left, x);
      right = Math.max(right, x + 1);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y + 1);
      const neighbors = [x > 0 ? at - 1 : -1, x < width - 1 ? at + 1 : -1, at - width, at + width];
      for (const other of neighbors) {
        if (other < 0 || other >= map.length || seen[other] || map[other]! < PIXEL) continue;
        seen[other] = 1;
        queue.push(other);
      }
    }
    const [w, h] = [right - left, bottom - top];
    if (Math.min(w, h) < 3 || sum / queue.length < WHOLE) continue;
    const grow = (GROWTH * w * h) / (2 * (w + h));
    boxes.push({
      left: Math.max(0, left - grow),
      top: Math.max(0, top - grow),
      right: Math.min(width, right + grow),
      bottom: Math.min(height, bottom + grow),
    });
  }
  return boxes.sort((a, b) => a.top - b.top || a.left - b.left);
}

export class Reader {
  private constructor(
    private readonly finder: InferenceSession,
    private readonly reader: InferenceSession,
    private readonly characters: readonly string[],
  ) {}

  /** `characters` has one in each line, in the order of the network's classes. */
  static async create(finder: Uint8Array, reader: Uint8Array, characters: string) {
    const list = characters.split('\n').filter((character) => character !== '');
    return new Reader(
      await InferenceSession.create(finder),
      await InferenceSession.create(reader),
      // The first class is none, the last one a space.
      ['', ...list, ' '],
    );
  }

  /** Yields the lines of a picture as they are read. */
  async *read(cut: Cut, width: number, height: number): AsyncGenerator<Line> {
    const scale = Math.min(1, MOST / Math.max(width, height));
    const side = (length: number) => Math.max(STEP, Math.round((length * scale) / STEP) * STEP);
    const [w, h] = [side(width), side(height)];
    const picture = cut({ x: 0, y: 0, width, height }, w, h);
    const input = planes(picture, w, h, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    const outputs = await this.finder.run({ [this.finder.inputNames[0]!]: input });
    const map = outputs[this.finder.outputNames[0]!]!.data as Float32Array;
    for (const { left, top, right, bottom } of boxesIn(map, w, h)) {
      const box = {
        x: (left * width) / w,
        y: (top * height) / h,
        width: ((right - left) * width) / w,
        height: ((bottom - top) * height) / h,
      };
      const { text, share } = await this.#readLine(cut, box);
      if (text && share >= LEAST_SHARE) yield { ...box, text, share };
    }
  }

  async #readLine(cut: Cut, box: { x: number; y: number; width: number; height: number }) {
    const width = Math.max(STEP, Math.round((HEIGHT * box.width) / box.height));
    const half = [0.5, 0.5, 0.5];
    const input = planes(cut(box, width, HEIGHT), width, HEIGHT, half, half);
    const outputs = await this.reader.run({ [this.reader.inputNames[0]!]: input });
    const { data, dims } = outputs[this.reader.outputNames[0]!]!;
    const [, steps, classes] = dims as [number, number, number];
    let text = '';
    let sum = 0;
    let count = 0;
    let before = 0;
    // The most probable class of each step; repeated ones are one character (Graves et al., ICML 2006).
    for (let step = 0; step < steps; step++) {
      const scores = (data as Float32Array).subarray(step * classes, (step + 1) * classes);
      let best = 0;
      scores.forEach((score, at) => {
        if (score > scores[best]!) best = at;
      });
      if (best !== 0 && best !== before) {
        text += this.characters[best] ?? '';
        sum += scores[best]!;
        count++;
      }
      before = best;
    }
    return { text: text.trim(), share: count > 0 ? sum / count : 0 };
  }
}

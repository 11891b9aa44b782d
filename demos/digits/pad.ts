// The paper: draws with mouse, finger or pen, and gives the drawing as pixels.

import { SIDE } from './learn.js';

const MARGIN = 1;

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Gives the lines of a drawing their width. */
export function takePen(context: Context): void {
  context.lineWidth = context.canvas.width / 11;
  context.lineCap = 'round';
  context.lineJoin = 'round';
}

/** A drawing, moved to the middle and scaled to the size of the network's input. */
export function pixelsOf(context: Context): Float32Array {
  const { width, height } = context.canvas;
  const { data } = context.getImageData(0, 0, width, height);
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let at = 0; at < width * height; at++) {
    if (data[4 * at + 3]! < 30) continue;
    left = Math.min(left, at % width);
    right = Math.max(right, (at % width) + 1);
    top = Math.min(top, Math.floor(at / width));
    bottom = Math.max(bottom, Math.floor(at / width) + 1);
  }
  const small = new OffscreenCanvas(SIDE, SIDE).getContext('2d')!;
  const size = Math.max(right - left, bottom - top);
  const scale = (SIDE - 2 * MARGIN) / size;
  const [w, h] = [(right - left) * scale, (bottom - top) * scale];
  small.imageSmoothingQuality = 'high';
  small.drawImage(
    context.canvas,
    ...([left, top, right - left, bottom - top] as const),
    ...([(SIDE - w) / 2, (SIDE - h) / 2, w, h] as const),
  );
  const scaled = small.getImageData(0, 0, SIDE, SIDE).data;
  return Float32Array.from({ length: SIDE * SIDE }, (_, at) => scaled[4 * at + 3]! / 255);
}

export class Pad {
  #empty = true;

  /** `onStroke` is called at the end of each stroke. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    onStroke: () => void,
  ) {
    const context = this.#context();
    takePen(context);
    let last: [number, number] | undefined;
    const at = (event: PointerEvent): [number, number] => {
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    };
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      last = at(event);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!last) return;
      const next = at(event);
      context.beginPath();
      context.moveTo(...last);
      context.lineTo(...next);
      context.stroke();
      last = next;
      this.#empty = false;
    });
    const end = () => {
      if (last && !this.#empty) onStroke();
      last = undefined;
    };
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', end);
  }

  get empty(): boolean {
    return this.#empty;
  }

  clear(): void {
    this.#context().clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#empty = true;
  }

  /** The drawing as the network takes it. */
  pixels(): Float32Array {
    return pixelsOf(this.#context());
  }

  #context(): CanvasRenderingContext2D {
    return this.canvas.getContext('2d', { willReadFrequently: true })!;
  }
}

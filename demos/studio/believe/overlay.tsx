// Draws boxes or a mask over the picture as the network sees it.

import { useEffect, useRef } from 'preact/hooks';
import type { Pixels as PixelData } from '../bring/prepare.js';
import type { Found } from '../engine/detect.js';
import type { Mask } from '../engine/task.js';
import { samples } from '../state/store.js';
import { colourOf, theme } from '../state/theme.js';

const SIDE = 260;
const MASK_OPACITY = 0.55;

/** Colours of classes: hues that are far apart, one after another. */
const hueOf = (label: number): number => (label * 137.5 + 150) % 360;

/** The class of a box, by its name where that is known. */
const nameOf = (label: number): string => samples.value?.classes?.[label] ?? `class ${label}`;

/** The picture on a canvas of its own size. */
function canvasOf({ width, height, data }: PixelData): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  canvas.getContext('2d')!.putImageData(new ImageData(data, width, height), 0, 0);
  return canvas;
}

function maskCanvas({ width, height, classes }: Mask): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d')!;
  for (const label of new Set(classes)) {
    if (label === 0) continue;
    context.fillStyle = `hsl(${hueOf(label)} 85% 50%)`;
    classes.forEach((one, at) => {
      if (one === label) context.fillRect(at % width, Math.floor(at / width), 1, 1);
    });
  }
  return canvas;
}

function drawBoxes(context: CanvasRenderingContext2D, boxes: readonly Found[]): void {
  const { width, height } = context.canvas;
  context.lineWidth = 3;
  context.font = '600 13px system-ui, sans-serif';
  context.textBaseline = 'top';
  for (const { box, label, score } of boxes) {
    const [left, top, right, bottom] = box;
    const [x, y, w, h] = [
      left * width,
      top * height,
      (right - left) * width,
      (bottom - top) * height,
    ];
    context.strokeStyle = `hsl(${hueOf(label)} 90% 45%)`;
    context.strokeRect(x, y, w, h);
    const text = `${nameOf(label)} ${Math.round(100 * score)} %`;
    const at = Math.max(0, Math.min(x, width - context.measureText(text).width - 8));
    context.fillStyle = 'rgb(0 0 0 / 75%)';
    context.fillRect(at, Math.max(0, y), context.measureText(text).width + 8, 18);
    context.fillStyle = 'white';
    context.fillText(text, at + 4, Math.max(0, y) + 2);
  }
}

/** The answer in words. */
function wordsOf(boxes: readonly Found[] | undefined, mask: Mask | undefined): string {
  if (boxes) {
    const list = boxes.map(({ label, score }) => `${nameOf(label)}, ${Math.round(100 * score)} %`);
    return boxes.length === 0 ? 'nothing found' : `${boxes.length} found: ${list.join('; ')}`;
  }
  const covered = mask!.classes.reduce((sum, one) => sum + Number(one !== 0), 0);
  return `${Math.round((100 * covered) / mask!.classes.length)} % covered`;
}

export function Overlay(props: {
  title: string;
  name: string;
  picture: PixelData;
  boxes?: readonly Found[] | undefined;
  mask?: Mask | undefined;
}) {
  const { title, name, picture, boxes, mask } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  const height = Math.round((SIDE * picture.height) / picture.width);
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    context.fillStyle = colourOf('--sunk');
    context.fillRect(0, 0, SIDE, height);
    context.drawImage(canvasOf(picture), 0, 0, SIDE, height);
    if (mask) {
      context.globalAlpha = MASK_OPACITY;
      context.imageSmoothingEnabled = false;
      context.drawImage(maskCanvas(mask), 0, 0, SIDE, height);
      context.globalAlpha = 1;
    }
    if (boxes) drawBoxes(context, boxes);
  }, [picture, boxes, mask, colours]);
  const words = wordsOf(boxes, mask);
  return (
    <figure class="overlay">
      <canvas
        ref={canvas}
        width={SIDE}
        height={height}
        role="img"
        aria-label={`${name}, ${title.toLowerCase()}: ${words}`}
      />
      <figcaption>
        <strong>{title}</strong> <span class="muted">{words}</span>
      </figcaption>
    </figure>
  );
}

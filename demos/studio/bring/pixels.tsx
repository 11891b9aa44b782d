// Draws a picture.

import { useEffect, useRef } from 'preact/hooks';
import type { Pixels as PixelData } from './prepare.js';

/** A small picture stays sharp: networks see pixels. */
const SMALL = 64;

export function Pixels({ pixels, label }: { pixels: PixelData; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height, data } = pixels;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    context?.putImageData(new ImageData(data, width, height), 0, 0);
  }, [pixels]);
  const sharp = Math.max(width, height) <= SMALL;
  return (
    <canvas
      ref={canvas}
      class={sharp ? 'pixels sharp' : 'pixels'}
      width={width}
      height={height}
      role="img"
      aria-label={label}
    />
  );
}

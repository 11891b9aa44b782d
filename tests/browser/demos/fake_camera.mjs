// A video of a drawn face, for Chromium's fake camera.

import { writeFileSync } from 'node:fs';
import { launch } from '../browser.mjs';

/** The grey of a pixel of a drawn face at (x, y) in units of half its height, or undefined outside of it. */
function face(x, y) {
  const near = (cx, cy, rx, ry) => ((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2;
  const hair = near(0, -0.25, 0.86, 0.95) < 1 && y < -0.42 + 0.5 * x * x;
  if (hair) return 40;
  if (near(0, 0, 0.76, 1) > 1) return undefined;
  for (const side of [-0.32, 0.32]) {
    if (near(side, -0.12, 0.07, 0.07) < 1) return 25;
    if (near(side, -0.12, 0.15, 0.08) < 1) return 235;
    if (near(side, -0.32, 0.2, 0.045) < 1) return 55;
  }
  if (near(0, 0.5, 0.3, 0.08) < 1) return 85;
  if (near(0, 0.24, 0.12, 0.06) < 1) return 130;
  if (near(0, 0.05, 0.06, 0.22) < 1) return 205;
  // The light comes from the left, and the cheeks are darker at the sides.
  return 185 - 25 * x - 40 * Math.abs(x) ** 2 - 15 * Math.abs(y);
}

/** The brightness of a frame: a face on a grey wall, which moves from frame to frame. */
export function frameOf(width, height, index) {
  const pixels = new Uint8Array(width * height);
  const centerX = width * (0.5 + 0.08 * Math.sin(index / 4));
  const radius = height * 0.3;
  for (let at = 0; at < pixels.length; at++) {
    const [px, py] = [at % width, Math.floor(at / width)];
    const [x, y] = [(px - centerX) / radius, (py - height / 2) / radius];
    const body = y > 0.9 && Math.abs(x) < 0.3 + 1.2 * Math.min(1, (y - 0.9) * 1.5);
    pixels[at] = face(x, y) ?? (body ? 70 : 150 + 20 * Math.sin(px / 40));
  }
  return pixels;
}

/** Writes a video in the form YUV4MPEG2 (yuv4mpeg(5) of mjpegtools), of skin's colour where it is not dark. */
function writeVideo(file, { width = 320, height = 240, frames = 24 } = {}) {
  const parts = [Buffer.from(`YUV4MPEG2 W${width} H${height} F12:1 Ip A1:1 C420\n`)];
  for (let index = 0; index < frames; index++) {
    const grey = frameOf(width, height, index);
    const half = (value) =>
      Buffer.from(
        Uint8Array.from({ length: (width * height) / 4 }, (_, at) => {
          const x = 2 * (at % (width / 2));
          const y = 2 * Math.floor(at / (width / 2));
          const tone = grey[y * width + x];
          return tone > 90 && Math.abs(x - width / 2) < height * 0.4 ? value : 128;
        }),
      );
    parts.push(Buffer.from('FRAME\n'), Buffer.from(grey), half(112), half(146));
  }
  writeFileSync(file, Buffer.concat(parts));
}

/** Chromium with a camera that shows the face; `file` becomes the video. */
export function launchWithCamera(file) {
  writeVideo(file);
  return launch(undefined, [
    '--use-fake-device-for-media-stream',
    `--use-file-for-fake-video-capture=${file}`,
  ]);
}

// There are few images outside of the calibration set: four samples are made of each.

import { Tensor } from 'requant';

const MOVED = 8; // pixels; the edge is repeated

/** A copy of each image whose pixel (x, y) is the original's at `from(x, y, width, height)`. */
function remapped(feeds, from) {
  const copies = Object.entries(feeds).map(([name, { data, dims }]) => {
    const channelsLast = dims[3] === 3;
    const [height, width] = channelsLast ? [dims[1], dims[2]] : [dims[2], dims[3]];
    const channels = channelsLast ? dims[3] : dims[1];
    const at = (c, y, x) =>
      channelsLast ? (y * width + x) * channels + c : (c * height + y) * width + x;
    const copy = new Float32Array(data.length);
    for (let c = 0; c < channels; c++) {
      for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
          const [fromX, fromY] = from(x, y, width, height);
          copy[at(c, y, x)] = data[at(c, fromY, fromX)];
        }
      }
    }
    return [name, new Tensor('float32', copy, dims)];
  });
  return Object.fromEntries(copies);
}

const mirrored = (x, y, width) => [width - 1 - x, y];
const moved = (x, y, width, height) => [
  Math.min(width - 1, x + MOVED),
  Math.min(height - 1, y + MOVED),
];

async function* fourOf(samples) {
  for await (const { feeds, label } of samples) {
    const mirror = remapped(feeds, mirrored);
    for (const one of [feeds, mirror, remapped(feeds, moved), remapped(mirror, moved)]) {
      yield { feeds: one, label };
    }
  }
}

/** Samples { feeds, label } of one float32 image [1, 3, h, w] or [1, h, w, 3] each. */
export function movedImages(samples) {
  return { length: 4 * samples.length, [Symbol.asyncIterator]: () => fourOf(samples) };
}

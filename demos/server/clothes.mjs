// The pictures of the network: 28 x 28 bytes, bright clothes on black.

import { readFile } from 'node:fs/promises';
import { Tensor } from 'requant';
import { imageAt, readIdxImages } from 'requant/dataset';

export const BYTES = 28 * 28;
export const CLASSES = 'T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Boot'.split(
  ',',
);

export const feedsOf = (pixels) => ({
  image: new Tensor(
    'float32',
    Float32Array.from(pixels, (value) => value / 255),
    [1, 1, 28, 28],
  ),
});

/** The shipped pictures for calibration. */
export async function readPictures() {
  const file = await readFile(new URL('../data/calibration-images-idx3-ubyte', import.meta.url));
  const set = await readIdxImages(file);
  return Array.from({ length: set.length }, (_, index) => imageAt(set, index).data);
}

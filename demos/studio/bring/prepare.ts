// Makes the input of a network of a picture. It runs in a Worker (picture_worker.ts).

import { type Image, fitImage, fromRgba, resize, toByteTensor, toTensor } from 'requant/dataset';
import type { Preparation } from './preparation.js';

/** Pixels that a canvas shows. */
export interface Pixels {
  width: number;
  height: number;
  /** RGBA. */
  data: Uint8ClampedArray<ArrayBuffer>;
}

/** A picture as input of a network, and as it looks. */
export interface Prepared {
  data: Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
  type: 'float32' | 'uint8';
  dims: readonly number[];
  /** The picture as the network sees it. */
  shown: Pixels;
  /** The whole picture, small. */
  original: Pixels;
}

const PREVIEW_SIDE = 256;

/** Decodes a picture, and makes it no larger than what can be of use. */
export async function decode(blob: Blob, most: number): Promise<Image> {
  const bitmap = await createImageBitmap(blob, {
    colorSpaceConversion: 'none',
    premultiplyAlpha: 'none',
  });
  const { width, height } = bitmap;
  // Only pictures that are much too large are drawn smaller: networks see those of other sizes exactly.
  const factor = Math.min(1, most / Math.min(width, height));
  const [w, h] = [Math.round(width * factor), Math.round(height * factor)];
  const context = new OffscreenCanvas(w, h).getContext('2d')!;
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, w, h);
  bitmap.close();
  return fromRgba(context.getImageData(0, 0, w, h).data, w, h, 3);
}

function withChannels(image: Image, channels: 1 | 3): Image {
  if (image.channels === channels) return image;
  const pixels = image.width * image.height;
  const data = new Uint8Array(pixels * channels);
  for (let pixel = 0; pixel < pixels; pixel++) {
    if (channels === 3) data.fill(image.data[pixel]!, 3 * pixel, 3 * pixel + 3);
    else {
      const [red, green, blue] = image.data.subarray(3 * pixel, 3 * pixel + 3);
      data[pixel] = Math.round(0.299 * red! + 0.587 * green! + 0.114 * blue!);
    }
  }
  return { ...image, channels, data };
}

function swapped(image: Image): Image {
  const data = image.data.slice();
  for (let at = 0; at + 2 < data.length; at += 3) {
    [data[at], data[at + 2]] = [data[at + 2]!, data[at]!];
  }
  return { ...image, data };
}

function pixelsOf(image: Image): Pixels {
  const { width, height } = image;
  const rgb = withChannels(image, 3).data;
  const data = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let pixel = 0; pixel < width * height; pixel++) {
    data.set(rgb.subarray(3 * pixel, 3 * pixel + 3), 4 * pixel);
  }
  return { width, height, data };
}

function small(image: Image): Image {
  const factor = Math.min(1, PREVIEW_SIDE / Math.max(image.width, image.height));
  const side = (length: number) => Math.max(1, Math.round(length * factor));
  return resize(image, side(image.width), side(image.height));
}

/** The picture in the form that the settings say. */
export function prepare(picture: Image, settings: Preparation): Prepared {
  const { width, height, channels, fit, bgr, layout, scale, mean, std, type } = settings;
  const coloured = withChannels(picture, channels);
  const fitted =
    fit === 'stretch' ? resize(coloured, width, height) : fitImage(coloured, width, height);
  const ordered = bgr && channels === 3 ? swapped(fitted) : fitted;
  const tensor =
    type === 'uint8'
      ? toByteTensor(ordered, layout)
      : toTensor(ordered, { layout, scale, mean, std });
  return {
    data: tensor.data as Prepared['data'],
    type: type === 'uint8' ? 'uint8' : 'float32',
    dims: tensor.dims,
    shown: pixelsOf(ordered),
    original: pixelsOf(small(picture)),
  };
}

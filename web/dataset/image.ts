// Pixels: 8-bit images, resizing, and conversion to the inputs of networks.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkKind, checkOneOf, checkOptions } from '../base/options.js';
import { Tensor } from '../base/tensor.js';

/** Order of a picture's axes: interleaved channels or planes. */
export type Layout = 'nhwc' | 'nchw';

/** One picture of 8-bit values, channels interleaved (`nhwc`) or one plane after another (`nchw`). */
export interface Image {
  width: number;
  height: number;
  channels: number;
  layout: Layout;
  data: Uint8Array;
}

/** How pixels become the input of a network: `(pixel * scale - mean) / std`, for every channel. */
export interface Preprocess {
  /** Factor of the pixels. Default 1/255; 1 keeps the range 0..255. */
  scale?: number;
  /** One number, or one for each channel, in units of the scaled pixels. Default 0. */
  mean?: number | readonly number[];
  /** One number, or one for each channel, in units of the scaled pixels. Default 1. */
  std?: number | readonly number[];
  /** Order of the axes of the network's input. Default `nchw`. */
  layout?: Layout;
}

/** @internal */
export const preprocessKinds = {
  scale: 'number',
  mean: 'any',
  std: 'any',
  layout: 'string',
} as const;

/** @internal */
export function checkLayout(layout: unknown): void {
  checkOneOf(layout, ['nhwc', 'nchw'], 'layout');
}

function checkImage(image: unknown): void {
  checkKind(image, 'object', 'image');
  const { width, height, channels, layout, data } = image as Image;
  for (const [name, value] of Object.entries({ width, height, channels })) {
    checkKind(value, 'integer', `image.${name}`);
  }
  checkLayout(layout);
  if (ArrayBuffer.isView(data)) return;
  throw invalidArgument(`image.data must be a Uint8Array, not ${show(data)}`, 'image.data');
}

function perChannel(
  value: number | readonly number[] | undefined,
  fallback: number,
  channels: number,
  name: string,
): number[] {
  const list = typeof value === 'object' && value ? Array.from(value) : [value ?? fallback];
  if (list.length !== 1 && list.length !== channels) {
    throw invalidArgument(`${name} has ${list.length} numbers for ${channels} channels`, name);
  }
  if (!list.every(Number.isFinite)) throw invalidArgument(`${name} is not finite`, name);
  return Array.from({ length: channels }, (_, channel) => list[list.length === 1 ? 0 : channel]!);
}

/** A float32 tensor [1, C, H, W] (or [1, H, W, C]) of one picture. */
export function toTensor(image: Image, options: Preprocess = {}): Tensor<'float32'> {
  checkImage(image);
  checkOptions(options, preprocessKinds, 'options');
  const { width, height, channels, data } = image;
  const { scale = 1 / 255, layout = 'nchw' } = options;
  checkLayout(layout);
  const pixels = width * height;
  if (data.length !== pixels * channels) {
    throw invalidArgument(
      `a picture of ${width} x ${height} x ${channels} has ${data.length} bytes`,
      'image',
    );
  }
  const mean = perChannel(options.mean, 0, channels, 'mean');
  const std = perChannel(options.std, 1, channels, 'std');
  if (std.includes(0)) throw invalidArgument('std is 0', 'std');
  const result = new Float32Array(data.length);
  // A pixel has 256 values, so the formula is computed, in double precision, once for each.
  const table = new Float32Array(256);
  const from =
    image.layout === 'nchw' ? { pixel: 1, plane: pixels } : { pixel: channels, plane: 1 };
  const to = layout === 'nchw' ? { pixel: 1, plane: pixels } : { pixel: channels, plane: 1 };
  for (let channel = 0; channel < channels; channel++) {
    for (let value = 0; value < 256; value++) {
      table[value] = (value * scale - mean[channel]!) / std[channel]!;
    }
    for (let pixel = 0; pixel < pixels; pixel++) {
      result[pixel * to.pixel + channel * to.plane] =
        table[data[pixel * from.pixel + channel * from.plane]!]!;
    }
  }
  const dims = layout === 'nchw' ? [1, channels, height, width] : [1, height, width, channels];
  return new Tensor('float32', result, dims);
}

/** The pixels as a uint8 tensor, for networks whose input they are. */
export function toByteTensor(image: Image, layout: Layout = 'nchw'): Tensor<'uint8'> {
  const tensor = toTensor(image, { scale: 1, layout });
  return new Tensor('uint8', Uint8Array.from(tensor.data), tensor.dims);
}

/** Converts interleaved RGBA (as browsers and decoders give it) to RGB, or to grey (ITU-R BT.601 luma). */
export function fromRgba(
  data: ArrayLike<number>,
  width: number,
  height: number,
  channels: 1 | 3 = 3,
): Image {
  const pixels = width * height;
  if (data?.length !== pixels * 4) {
    throw invalidArgument(
      `RGBA of ${width} x ${height} has ${data?.length ?? show(data)} bytes`,
      'image',
    );
  }
  const result = new Uint8Array(pixels * channels);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const [red, green, blue] = [data[pixel * 4]!, data[pixel * 4 + 1]!, data[pixel * 4 + 2]!];
    if (channels === 1) {
      result[pixel] = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
    } else {
      result.set([red, green, blue], pixel * 3);
    }
  }
  return { width, height, channels, layout: 'nhwc', data: result };
}

/** Weights of the source pixels for every target pixel of one axis: a triangle as wide as a step. */
function taps(from: number, to: number): { first: number; weights: number[] }[] {
  const step = from / to;
  const support = Math.max(1, step);
  return Array.from({ length: to }, (_, target) => {
    const center = (target + 0.5) * step;
    const first = Math.max(0, Math.floor(center - support));
    const last = Math.min(from - 1, Math.ceil(center + support) - 1);
    const weights: number[] = [];
    for (let source = first; source <= last; source++) {
      weights.push(Math.max(0, 1 - Math.abs(source + 0.5 - center) / support));
    }
    const sum = weights.reduce((a, b) => a + b, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}

/** Resizes bilinearly with antialiasing, as Pillow's Image.resize(..., BILINEAR) does. Needs `nhwc`. */
export function resize(image: Image, width: number, height: number): Image {
  checkImage(image);
  if (image.layout !== 'nhwc') throw invalidArgument('resize needs interleaved channels', 'image');
  if (!(Number.isInteger(width) && Number.isInteger(height) && width > 0 && height > 0)) {
    throw invalidArgument(`cannot resize to ${width} x ${height}`, 'resize');
  }
  const { channels } = image;
  if (width === image.width && height === image.height) return image;
  const middle = new Float32Array(image.height * width * channels);
  for (const [x, { first, weights }] of taps(image.width, width).entries()) {
    for (let y = 0; y < image.height; y++) {
      for (let channel = 0; channel < channels; channel++) {
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap++) {
          sum += weights[tap]! * image.data[(y * image.width + first + tap) * channels + channel]!;
        }
        middle[(y * width + x) * channels + channel] = sum;
      }
    }
  }
  const data = new Uint8Array(height * width * channels);
  const row = width * channels;
  for (const [y, { first, weights }] of taps(image.height, height).entries()) {
    for (let at = 0; at < row; at++) {
      let sum = 0;
      for (let tap = 0; tap < weights.length; tap++) {
        sum += weights[tap]! * middle[(first + tap) * row + at]!;
      }
      data[y * row + at] = Math.min(255, Math.max(0, Math.round(sum)));
    }
  }
  return { width, height, channels, layout: 'nhwc', data };
}

/** Cuts out the middle of a picture. Needs `nhwc`. */
export function centerCrop(image: Image, width: number, height: number): Image {
  checkImage(image);
  if (image.layout !== 'nhwc') throw invalidArgument('crop needs interleaved channels', 'image');
  if (width > image.width || height > image.height) {
    throw new RequantError(
      'INVALID_ARGUMENT',
      `cannot crop ${width} x ${height} out of a picture of ${image.width} x ${image.height}`,
      { value: 'crop', hint: 'Resize to something larger first.' },
    );
  }
  const { channels } = image;
  const left = Math.round((image.width - width) / 2);
  const top = Math.round((image.height - height) / 2);
  const data = new Uint8Array(width * height * channels);
  for (let y = 0; y < height; y++) {
    const start = ((top + y) * image.width + left) * channels;
    data.set(image.data.subarray(start, start + width * channels), y * width * channels);
  }
  return { width, height, channels, layout: 'nhwc', data };
}

/**
 * Brings a picture to a fixed size in the usual way: scales the shorter side to `shorter` pixels, then cuts
 * out the middle.
 */
export function fitImage(image: Image, width: number, height: number, shorter?: number): Image {
  checkImage(image);
  const side = shorter ?? Math.max(width, height);
  const scale = side / Math.min(image.width, image.height);
  const resized = resize(
    image,
    Math.max(width, Math.round(image.width * scale)),
    Math.max(height, Math.round(image.height * scale)),
  );
  return centerCrop(resized, width, height);
}

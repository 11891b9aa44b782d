// Pictures as tensors and back, by the options of onnxruntime-web. Nothing here knows the class Tensor.

import { RequantError, invalidArgument, show } from './errors.js';
import { checkKind, checkOneOf, checkOptions } from './options.js';

/** The order of a tensor's color channels. */
export type ColorFormat = 'RGB' | 'RGBA' | 'BGR' | 'RBG';

/** One number, or one for each channel. */
type PerChannel =
  number | readonly [number, number, number] | readonly [number, number, number, number];

/** How numbers in tensors and pixels of 0 to 255 are related. */
export interface ImageNorm {
  /** What pixels are divided by, after `bias` was added; tensors are multiplied by it. Default 255. */
  mean?: PerChannel;
  /** What is added to pixels, and subtracted from a tensor's numbers. Default 0. */
  bias?: PerChannel;
}

/** Options of {@link Tensor.fromImage}. */
export interface TensorFromImageOptions {
  /** Default 'RGB'; for an HTMLImageElement 'RGBA', as in onnxruntime-web. */
  tensorFormat?: ColorFormat;
  /** Default 'NCHW'. */
  tensorLayout?: 'NCHW' | 'NHWC';
  /** 'float32' (default), or 'uint8': the pixels as they are, without `norm`. */
  dataType?: 'float32' | 'uint8';
  /** The size to which the picture is scaled; both or none. */
  resizedHeight?: number;
  resizedWidth?: number;
  norm?: ImageNorm;
  /** Options of onnxruntime-web that follow from the picture. */
  format?: ColorFormat;
  height?: number;
  width?: number;
}

/** Options of {@link Tensor.toImageData} and {@link Tensor.toDataURL}. */
export interface TensorToImageOptions {
  /** The order of the tensor's channels. Default 'RGB'. */
  format?: ColorFormat;
  /** Default 'NCHW'. */
  tensorLayout?: 'NCHW' | 'NHWC';
  norm?: ImageNorm;
}

/** RGBA pixels, as an ImageData has them. */
export interface Pixels {
  readonly data: Uint8ClampedArray | Uint8Array;
  readonly width: number;
  readonly height: number;
}

const channelsOf: Record<ColorFormat, readonly number[]> = {
  RGB: [0, 1, 2],
  RGBA: [0, 1, 2, 3],
  BGR: [2, 1, 0],
  RBG: [0, 2, 1],
};
const formats = Object.keys(channelsOf);

function checkNorm(norm: unknown): void {
  if (norm === undefined) return;
  checkOptions(norm, { mean: 'any', bias: 'any' }, 'options.norm');
}

/** The numbers of the four channels; a missing fourth one is the default. */
function perChannel(given: unknown, standard: number, name: string): readonly number[] {
  const list = Array.isArray(given)
    ? (given as unknown[])
    : Array<unknown>(4).fill(given ?? standard);
  if (list.length < 3 || list.length > 4 || !list.every((item) => Number.isFinite(item))) {
    throw invalidArgument(`${name} is ${show(given)}`, name, 'Give a number, or one per channel.');
  }
  return [...(list as number[]), standard].slice(0, 4);
}

function unsupported(what: string, hint: string): RequantError {
  return new RequantError('UNSUPPORTED', what, { hint });
}

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

function contextOf(width: number, height: number): Context {
  let context: Context | null | undefined;
  if (typeof document === 'object') {
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width, height });
    context = canvas.getContext('2d');
  } else if (typeof OffscreenCanvas === 'function') {
    context = new OffscreenCanvas(width, height).getContext('2d');
  }
  if (context) return context;
  throw unsupported(
    'there is no canvas here',
    'Decode and scale the picture first: requant/dataset.',
  );
}

function drawn(source: CanvasImageSource, size: { width: number; height: number }): Pixels {
  const { width, height } = size;
  const context = contextOf(width, height);
  context.drawImage(source, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

const isA = (value: unknown, tag: string) =>
  Object.prototype.toString.call(value) === `[object ${tag}]`;

function isPixels(value: unknown): value is Pixels {
  const { data, width, height } = (value ?? {}) as Partial<Pixels>;
  return ArrayBuffer.isView(data) && Number.isInteger(width) && Number.isInteger(height);
}

async function download(url: string): Promise<ImageBitmap> {
  try {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return await createImageBitmap(await response.blob());
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RequantError('LOAD_FAILED', `cannot read the picture ${url}: ${why}`, {
      value: 'image',
      cause: error,
    });
  }
}

function sizeFor(
  { resizedWidth, resizedHeight }: TensorFromImageOptions,
  own: { width: number; height: number },
): { width: number; height: number } {
  if (resizedWidth === undefined || resizedHeight === undefined) return own;
  for (const [name, value] of Object.entries({ resizedWidth, resizedHeight })) {
    if (!(Number.isInteger(value) && value > 0)) {
      throw invalidArgument(`options.${name} is ${show(value)}`, `options.${name}`);
    }
  }
  return { width: resizedWidth, height: resizedHeight };
}

/** The pixels of a picture of any kind, scaled if the options say so, and the default order of channels. */
async function pixelsOf(
  image: unknown,
  options: TensorFromImageOptions,
): Promise<{ pixels: Pixels; format: ColorFormat }> {
  if (isPixels(image)) {
    const size = sizeFor(options, image);
    if (size.width === image.width && size.height === image.height) {
      return { pixels: image, format: 'RGB' };
    }
    const context = contextOf(image.width, image.height);
    const copy = new ImageData(new Uint8ClampedArray(image.data), image.width, image.height);
    context.putImageData(copy, 0, 0);
    return { pixels: drawn(context.canvas, size), format: 'RGB' };
  }
  if (isA(image, 'HTMLImageElement')) {
    const element = image as HTMLImageElement;
    return { pixels: drawn(element, sizeFor(options, element)), format: 'RGBA' };
  }
  const source = typeof image === 'string' ? await download(image) : image;
  const drawable = ['ImageBitmap', 'HTMLCanvasElement', 'OffscreenCanvas'];
  if (!drawable.some((tag) => isA(source, tag))) {
    throw invalidArgument(
      `there is no picture in ${show(image)}`,
      'image',
      'Give an ImageData, an HTMLImageElement, an ImageBitmap, a canvas or a URL.',
    );
  }
  const bitmap = source as ImageBitmap;
  return { pixels: drawn(bitmap, sizeFor(options, bitmap)), format: 'RGB' };
}

/** Where a channel of a pixel lies in a tensor of these sizes. */
function places(layout: 'NCHW' | 'NHWC', channels: number, pixels: number) {
  return layout === 'NCHW' ? { pixel: 1, channel: pixels } : { pixel: channels, channel: 1 };
}

/** Type, elements and dims of the tensor of a picture. */
export async function imageToElements(
  image: unknown,
  options: TensorFromImageOptions = {},
): Promise<{ type: 'float32' | 'uint8'; data: Float32Array | Uint8Array; dims: number[] }> {
  checkOptions(
    options,
    {
      tensorFormat: 'string',
      tensorLayout: 'string',
      dataType: 'string',
      resizedHeight: 'integer',
      resizedWidth: 'integer',
      norm: 'object',
      format: 'any',
      height: 'any',
      width: 'any',
    },
    'options',
  );
  const { tensorLayout: layout = 'NCHW', dataType: type = 'float32', norm } = options;
  checkOneOf(layout, ['NCHW', 'NHWC'], 'options.tensorLayout');
  checkOneOf(type, ['float32', 'uint8'], 'options.dataType');
  checkNorm(norm);
  const mean = perChannel(norm?.mean, 255, 'options.norm.mean');
  const bias = perChannel(norm?.bias, 0, 'options.norm.bias');
  const { pixels, format: usual } = await pixelsOf(image, options);
  const format = options.tensorFormat ?? usual;
  checkOneOf(format, formats, 'options.tensorFormat');
  const channels = channelsOf[format];
  const { width, height } = pixels;
  const count = width * height;
  if (pixels.data.length !== 4 * count) {
    const size = `${width} x ${height}`;
    throw invalidArgument(
      `a picture of ${size} has ${pixels.data.length} bytes`,
      'image',
      'It must be RGBA.',
    );
  }
  const at = places(layout, channels.length, count);
  const data =
    type === 'uint8'
      ? new Uint8Array(count * channels.length)
      : new Float32Array(count * channels.length);
  channels.forEach((color, channel) => {
    // The formula is of onnxruntime-common's Tensor.fromImage, whose numbers are doubles until they are stored.
    for (let pixel = 0; pixel < count; pixel++) {
      const value = pixels.data[4 * pixel + color]!;
      data[pixel * at.pixel + channel * at.channel] =
        type === 'uint8' ? value : (value + bias[color]!) / mean[color]!;
    }
  });
  const depth = channels.length;
  const dims = layout === 'NCHW' ? [1, depth, height, width] : [1, height, width, depth];
  return { type, data, dims };
}

/** The RGBA pixels of a tensor [1, C, H, W] or [1, H, W, C]. */
export function elementsToPixels(
  data: ArrayLike<number | bigint>,
  dims: readonly number[],
  options: TensorToImageOptions = {},
): { data: Uint8ClampedArray<ArrayBuffer>; width: number; height: number } {
  checkOptions(options, { format: 'string', tensorLayout: 'string', norm: 'object' }, 'options');
  const { format = 'RGB', tensorLayout: layout = 'NCHW', norm } = options;
  checkOneOf(format, formats, 'options.format');
  checkOneOf(layout, ['NCHW', 'NHWC'], 'options.tensorLayout');
  checkNorm(norm);
  const mean = perChannel(norm?.mean, 255, 'options.norm.mean');
  const bias = perChannel(norm?.bias, 0, 'options.norm.bias');
  const channels = channelsOf[format];
  const [batch, ...rest] = dims;
  const [depth, height, width] = layout === 'NCHW' ? rest : [rest[2], rest[0], rest[1]];
  if (batch !== 1 || rest.length !== 3 || depth !== channels.length) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `a tensor [${dims.join(', ')}] is no picture of format ${format} and layout ${layout}`,
      { value: 'dims' },
    );
  }
  checkKind(data[0] ?? 0, 'number', 'data');
  const count = width! * height!;
  const at = places(layout, depth, count);
  const pixels = new Uint8ClampedArray(4 * count).fill(255);
  channels.forEach((color, channel) => {
    for (let pixel = 0; pixel < count; pixel++) {
      const value = Number(data[pixel * at.pixel + channel * at.channel]);
      pixels[4 * pixel + color] = (value - bias[color]!) * mean[color]!;
    }
  });
  return { data: pixels, width: width!, height: height! };
}

/** Pixels as the browser's class, or in Node as an object with its members. */
export function toImageData(pixels: ReturnType<typeof elementsToPixels>): ImageData {
  const { data, width, height } = pixels;
  if (typeof ImageData === 'function') return new ImageData(data, width, height);
  return { data, width, height, colorSpace: 'srgb' } as ImageData;
}

/** Pixels as a PNG in a data URL. */
export function toDataURL(pixels: ReturnType<typeof elementsToPixels>): string {
  if (typeof document !== 'object') {
    throw unsupported('only pages make data URLs of pictures', 'Use toImageData().');
  }
  const context = contextOf(pixels.width, pixels.height) as CanvasRenderingContext2D;
  context.putImageData(toImageData(pixels), 0, 0);
  return context.canvas.toDataURL();
}

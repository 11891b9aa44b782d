// Reads files with many small pictures: IDX (MNIST family), CIFAR-10 binary, plain pixels back to back.

import { RequantError, invalidArgument } from '../base/errors.js';
import { checkBytes, checkKind, checkOneOf, checkOptions } from '../base/options.js';
import {
  type Image,
  type Layout,
  type Preprocess,
  checkLayout,
  preprocessKinds,
  toByteTensor,
  toTensor,
} from './image.js';
import { decompress, isGzip } from './inflate.js';
import { type Dataset, makeDataset } from './sample.js';

/** Pictures of one size, with labels where the file has them. */
export interface ImageSet {
  length: number;
  width: number;
  height: number;
  channels: number;
  layout: Layout;
  /** All pictures, one after another. */
  data: Uint8Array;
  labels?: ArrayLike<number>;
}

/** The array in an IDX file. */
export interface IdxArray {
  dims: number[];
  data: Uint8Array;
}

function damaged(format: string, what: string): RequantError {
  return new RequantError('INVALID_ARGUMENT', `this is no ${format} file: ${what}`);
}

/** Whether the bytes begin as an IDX file of unsigned bytes. */
export function isIdx(bytes: Uint8Array): boolean {
  checkBytes(bytes);
  return (
    bytes.length >= 8 &&
    bytes[0] === 0 &&
    bytes[1] === 0 &&
    bytes[2] === 8 &&
    bytes[3]! >= 1 &&
    bytes[3]! <= 4
  );
}

/**
 * Reads an IDX file of unsigned bytes: two zero bytes, type 0x08, number of dimensions, dimensions as
 * big-endian 32-bit integers, values (yann.lecun.com/exdb/mnist).
 */
export function parseIdx(bytes: Uint8Array): IdxArray {
  if (!isIdx(bytes)) {
    throw damaged('IDX', 'it does not begin with 00 00 08 and the number of dimensions');
  }
  const rank = bytes[3]!;
  const start = 4 + 4 * rank;
  if (bytes.length < start) throw damaged('IDX', 'the header is cut off');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const dims = Array.from({ length: rank }, (_, axis) => view.getUint32(4 + 4 * axis));
  const size = dims.reduce((a, b) => a * b, 1);
  if (bytes.length - start !== size) {
    throw damaged('IDX', `${bytes.length - start} values instead of ${dims.join(' x ')}`);
  }
  return { dims, data: bytes.subarray(start) };
}

/** Reads the pictures of an IDX file (grey, or [N, H, W, C]), which may be compressed by gzip. */
export async function readIdxImages(bytes: Uint8Array, labels?: Uint8Array): Promise<ImageSet> {
  const unpack = async (file: Uint8Array) =>
    parseIdx(isGzip(file) ? await decompress(file, 'gzip', 'the IDX file') : file);
  const { dims, data } = await unpack(bytes);
  if (dims.length < 3) throw damaged('IDX', `it has ${dims.length} dimensions, pictures need 3`);
  const [length, height, width, channels = 1] = dims as [number, number, number, number?];
  const set: ImageSet = { length, width, height, channels, layout: 'nhwc', data };
  if (labels) set.labels = (await unpack(labels)).data;
  return set;
}

/** Reads records of 1 label byte and 3072 pixel bytes in planes (cs.toronto.edu/~kriz/cifar.html). */
export function parseCifar10(bytes: Uint8Array): ImageSet {
  checkBytes(bytes);
  const record = 3073;
  if (bytes.length === 0 || bytes.length % record !== 0) {
    throw damaged('CIFAR-10', `${bytes.length} bytes are no multiple of ${record}`);
  }
  const length = bytes.length / record;
  const labels = new Uint8Array(length);
  const data = new Uint8Array(length * 3072);
  for (let index = 0; index < length; index++) {
    const label = bytes[index * record]!;
    if (label > 9) throw damaged('CIFAR-10', `record ${index} has label ${label}`);
    labels[index] = label;
    data.set(bytes.subarray(index * record + 1, (index + 1) * record), index * 3072);
  }
  return { length, width: 32, height: 32, channels: 3, layout: 'nchw', data, labels };
}

/** Reads pictures of 8-bit pixels back to back, without any header. */
export function parsePixels(
  bytes: Uint8Array,
  size: { width: number; height: number; channels: number; layout?: Layout },
): ImageSet {
  checkBytes(bytes);
  checkOptions(
    size,
    { width: 'integer', height: 'integer', channels: 'integer', layout: 'string' },
    'size',
  );
  const { width, height, channels, layout = 'nhwc' } = size;
  checkLayout(layout);
  const picture = width * height * channels;
  if (!(picture > 0) || bytes.length === 0 || bytes.length % picture !== 0) {
    throw invalidArgument(
      `${bytes.length} bytes are no whole number of pictures of ${width} x ${height} x ${channels}`,
      'shape',
    );
  }
  return { length: bytes.length / picture, width, height, channels, layout, data: bytes };
}

/** Reads labels from JSON: an array of numbers or of objects with `label`, or `{ labels: [...] }`. */
export function parseJsonLabels(text: string): number[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw damaged('JSON', (error as Error).message);
  }
  for (const key of ['labels', 'images', 'samples']) {
    if (!Array.isArray(json) && json && typeof json === 'object' && key in json) {
      json = (json as Record<string, unknown>)[key];
    }
  }
  const list = Array.isArray(json) ? json : [];
  const labels = list.map((item: unknown) =>
    typeof item === 'object' && item !== null ? (item as { label?: unknown }).label : item,
  );
  if (labels.length === 0 || !labels.every((label) => Number.isInteger(label))) {
    throw invalidArgument(
      'the JSON holds no labels',
      'labels',
      'It must be an array of integers, or of objects with an integer "label".',
    );
  }
  return labels as number[];
}

/** Picture `index` of a set; shares its memory. */
export function imageAt(set: ImageSet, index: number): Image {
  checkKind(set, 'object', 'set');
  const { width, height, channels, layout } = set;
  const size = width * height * channels;
  return {
    width,
    height,
    channels,
    layout,
    data: set.data.subarray(index * size, (index + 1) * size),
  };
}

/** Options of {@link imageSamples}. */
export interface ImageSampleOptions extends Preprocess {
  /** Name of the network's input. */
  input: string;
  /** Type of the network's input: preprocessed floats, or the pixels themselves. Default float32. */
  type?: 'float32' | 'uint8';
}

/** Makes every picture of a set a sample for a network. */
export function imageSamples(set: ImageSet, options: ImageSampleOptions): Dataset {
  checkKind(set, 'object', 'set');
  checkKind(set.length, 'integer', 'set.length');
  checkOptions(options, { input: 'string', type: 'string', ...preprocessKinds }, 'options');
  const { input, type = 'float32', ...preprocess } = options;
  if (input === undefined) throw invalidArgument('input is missing', 'options.input');
  checkOneOf(type, ['float32', 'uint8'], 'options.type');
  if (set.labels && set.labels.length !== set.length) {
    throw invalidArgument(`${set.labels.length} labels for ${set.length} pictures`, 'labels');
  }
  return makeDataset(set.length, (index) => {
    const image = imageAt(set, index);
    const tensor =
      type === 'uint8' ? toByteTensor(image, preprocess.layout) : toTensor(image, preprocess);
    return { feeds: { [input]: tensor }, ...(set.labels ? { label: set.labels[index]! } : {}) };
  });
}

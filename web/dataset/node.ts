// Finds out what a file or folder on disk contains and reads it. Node only.

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { invalidArgument } from '../base/errors.js';
import { checkKind, checkOneOf, checkOptions } from '../base/options.js';
import { type Tensor, type TensorType, elementCount, tensorTypes } from '../base/tensor.js';
import { type InputShape, arraySamples, castTensor, checkInputs, parseRaw } from './arrays.js';
import {
  type Preprocess,
  checkLayout,
  fitImage,
  preprocessKinds,
  toByteTensor,
  toTensor,
} from './image.js';
import {
  type ImageSet,
  imageSamples,
  isIdx,
  parseCifar10,
  parsePixels,
  readIdxImages,
} from './image_sets.js';
import { list, read, readLabels, readMaybePacked, unreadable } from './node_files.js';
import { isPicture, onlyInput, pictureShape, readImage } from './node_images.js';
import { parseNpy, parseNpz } from './npy.js';
import { type Dataset, makeDataset, withLabels } from './sample.js';
import { parseTensorProto } from './tensor_proto.js';

export { readLabels } from './node_files.js';
export { pictureShape, readImage } from './node_images.js';

/** Names of the kinds of data. */
export const dataFormats = [
  'auto',
  'onnx',
  'npy',
  'npz',
  'idx',
  'cifar10',
  'nhwc',
  'nchw',
  'raw',
  'images',
] as const;

/** The kind of data in a file or folder; `nhwc` and `nchw` are plain 8-bit pixels back to back. */
export type DataFormat = (typeof dataFormats)[number];

/** Options of {@link openDataset}. */
export interface OpenOptions extends Preprocess {
  /** Kind of data. Default `auto`: by name and content. */
  format?: DataFormat;
  /** A file with labels: IDX, .npy, JSON, or text with one integer a line. */
  labels?: string;
  /** Shape of one sample, for `raw`. Default: the network's input with open dimensions as 1. */
  shape?: readonly number[];
  /** Type of the numbers, for `raw`. Default: the type of the network's input. */
  type?: TensorType;
  /**
   * For `images`: pixels of the shorter side before the middle is cut out. Default: the longer input side.
   */
  resize?: number;
}

/** The tensors of a test_data_set folder by input name: by their own name, else by the file number. */
async function readOnnxSet(
  folder: string,
  inputs: readonly InputShape[],
): Promise<Record<string, Tensor>> {
  const files = (await list(folder)).map(({ name }) => name);
  const feeds: Record<string, Tensor> = {};
  for (const file of files) {
    const match = /^input_(\d+)\.pb$/.exec(file);
    if (!match) continue;
    const { name, tensor } = parseTensorProto(await read(path.join(folder, file)));
    const input = inputs.find((one) => one.name === name) ?? inputs[Number(match[1])];
    if (!input) throw invalidArgument(`${path.join(folder, file)} is for no input`, name);
    feeds[input.name] = tensor;
  }
  return feeds;
}

async function openImages(
  folder: string,
  inputs: readonly InputShape[],
  options: OpenOptions,
): Promise<Dataset> {
  const input = onlyInput(inputs, 'a folder of pictures');
  const shape = pictureShape(input, options.layout);
  const channels = shape.channels ?? 3;
  if (channels !== 1 && channels !== 3) {
    throw invalidArgument(`input "${input.name}" wants ${channels} channels`, input.name);
  }
  const entries = await list(folder);
  const files: { file: string; label?: number }[] = entries
    .filter(({ name }) => isPicture(name))
    .map(({ name }) => ({ file: path.join(folder, name) }));
  // Pictures in sub-folders: each folder is a class, in alphabetical order.
  const folders = files.length > 0 ? [] : entries.filter((entry) => entry.folder);
  for (const [label, { name }] of folders.entries()) {
    for (const entry of await list(path.join(folder, name))) {
      if (isPicture(entry.name)) files.push({ file: path.join(folder, name, entry.name), label });
    }
  }
  return makeDataset(files.length, async (index) => {
    const { file, label } = files[index]!;
    let image = await readImage(file, channels);
    if (shape.width && shape.height) {
      image = fitImage(image, shape.width, shape.height, options.resize);
    }
    const preprocess = { ...options, layout: shape.layout };
    const tensor =
      input.type === 'uint8' ? toByteTensor(image, shape.layout) : toTensor(image, preprocess);
    return { feeds: { [input.name]: tensor }, ...(label === undefined ? {} : { label }) };
  });
}

function fromImageSet(set: ImageSet, input: InputShape, options: OpenOptions): Dataset {
  const { scale, mean, std } = options;
  const { layout } = pictureShape(input, options.layout);
  return imageSamples(set, {
    input: input.name,
    type: input.type === 'uint8' ? 'uint8' : 'float32',
    layout,
    ...(scale === undefined ? {} : { scale }),
    ...(mean === undefined ? {} : { mean }),
    ...(std === undefined ? {} : { std }),
  });
}

/** Finds out what a path contains. */
async function detect(
  place: string,
  inputs: readonly InputShape[],
  options: OpenOptions,
): Promise<DataFormat> {
  let folder: boolean;
  try {
    folder = (await stat(place)).isDirectory();
  } catch (error) {
    throw unreadable(place, error);
  }
  if (folder) {
    const entries = await list(place);
    const has = (test: (name: string) => boolean) => entries.some(({ name }) => test(name));
    if (has((name) => /^test_data_set_\d+$/.test(name) || /^input_\d+\.pb$/.test(name))) {
      return 'onnx';
    }
    if (has((name) => name.endsWith('.npz'))) return 'npz';
    if (has((name) => name.endsWith('.npy'))) return 'npy';
    if (has(isPicture) || entries.some((entry) => entry.folder)) return 'images';
    throw invalidArgument(
      `${place} holds no data that is known`,
      place,
      'Known are test_data_set_*, .npz, .npy, .png and .jpg.',
    );
  }
  if (place.endsWith('.pb')) return 'onnx';
  if (place.endsWith('.npz')) return 'npz';
  if (place.endsWith('.npy')) return 'npy';
  const bytes = await readMaybePacked(place);
  if (isIdx(bytes)) return 'idx';
  if (options.shape || options.type) return 'raw';
  if (inputs.length === 1 && inputs[0]!.dims.length === 4 && bytes.length % 3073 === 0) {
    const { channels, height, width } = pictureShape(inputs[0]!, options.layout);
    if (channels === 3 && height === 32 && width === 32) return 'cifar10';
  }
  throw invalidArgument(
    `it is not clear what ${place} holds`,
    place,
    `Say it: one of ${dataFormats.slice(1).join(', ')} (or a shape, for raw numbers).`,
  );
}

async function arraysOf(
  files: readonly string[],
  inputs: readonly InputShape[],
): Promise<Dataset[]> {
  const sets: Dataset[] = [];
  for (const file of files) {
    const bytes = await read(file);
    const arrays = file.endsWith('.npz')
      ? await parseNpz(bytes, file)
      : new Map([[onlyInput(inputs, 'a .npy file').name, parseNpy(bytes, file)]]);
    sets.push(arraySamples(arrays, inputs));
  }
  return sets;
}

function join(sets: readonly Dataset[]): Dataset {
  return {
    length: sets.reduce((sum, set) => sum + set.length, 0),
    async *[Symbol.asyncIterator]() {
      for (const set of sets) yield* set;
    },
  };
}

async function open(
  place: string,
  inputs: readonly InputShape[],
  options: OpenOptions,
): Promise<Dataset> {
  const wanted = options.format ?? 'auto';
  const format = wanted === 'auto' ? await detect(place, inputs, options) : wanted;
  switch (format) {
    case 'onnx': {
      if (place.endsWith('.pb')) {
        const input = onlyInput(inputs, 'a .pb file');
        const { tensor } = parseTensorProto(await read(place));
        return makeDataset(1, () => ({ feeds: { [input.name]: tensor } }));
      }
      const names = (await list(place)).map(({ name }) => name);
      const sets = names.filter((name) => /^test_data_set_\d+$/.test(name));
      const folders = sets.length > 0 ? sets.map((name) => path.join(place, name)) : [place];
      return makeDataset(folders.length, async (index) => ({
        feeds: await readOnnxSet(folders[index]!, inputs),
      }));
    }
    case 'npy':
    case 'npz': {
      if (place.endsWith(`.${format}`)) return join(await arraysOf([place], inputs));
      const files = (await list(place)).map(({ name }) => name);
      const matching = files.filter((name) => name.endsWith(`.${format}`));
      return join(
        await arraysOf(
          matching.map((name) => path.join(place, name)),
          inputs,
        ),
      );
    }
    case 'idx':
      return fromImageSet(
        await readIdxImages(await read(place)),
        onlyInput(inputs, 'an IDX file'),
        options,
      );
    case 'cifar10':
      return fromImageSet(
        parseCifar10(await readMaybePacked(place)),
        onlyInput(inputs, 'a CIFAR-10 file'),
        options,
      );
    case 'nhwc':
    case 'nchw': {
      const input = onlyInput(inputs, 'a file of pixels');
      const { channels, height, width } = pictureShape(input, options.layout);
      const [a, b, c] = options.shape ?? [];
      const size =
        a !== undefined && b !== undefined && c !== undefined
          ? format === 'nhwc'
            ? { height: a, width: b, channels: c }
            : { channels: a, height: b, width: c }
          : { height, width, channels };
      if (!size.height || !size.width || !size.channels) {
        throw invalidArgument(
          `input "${input.name}" leaves the size of the pictures open`,
          'shape',
          `Give the shape of one picture: ${format === 'nhwc' ? 'H,W,C' : 'C,H,W'}.`,
        );
      }
      const set = parsePixels(await readMaybePacked(place), {
        height: size.height,
        width: size.width,
        channels: size.channels,
        layout: format,
      });
      return fromImageSet(set, input, options);
    }
    case 'raw': {
      const input = onlyInput(inputs, 'a file of raw numbers');
      const { type = input.type } = options;
      const shape =
        options.shape ?? input.dims.map((dim) => (typeof dim === 'number' && dim > 0 ? dim : 1));
      const all = parseRaw(await readMaybePacked(place), type, shape);
      return arraySamples(new Map([[input.name, all]]), [{ ...input, dims: shape }]);
    }
    default:
      return openImages(place, inputs, options);
  }
}

/**
 * Opens a file or folder of samples for a model with these inputs (`model.info.inputs`).
 *
 * @throws RequantError LOAD_FAILED when it cannot be read, INVALID_ARGUMENT when it lacks what the inputs
 * need, UNSUPPORTED when a package for decoding is missing.
 * @example
 * const data = await openDataset('t10k-images-idx3-ubyte.gz', model.info.inputs);
 * const quantized = await quantize(model, { calibration: feedsOf(data) });
 */
export async function openDataset(
  place: string,
  inputs: readonly InputShape[],
  options: OpenOptions = {},
): Promise<Dataset> {
  checkKind(place, 'string', 'place');
  checkInputs(inputs);
  checkOptions(
    options,
    {
      ...preprocessKinds,
      format: 'string',
      labels: 'string',
      shape: 'any',
      type: 'string',
      resize: 'integer',
    },
    'options',
  );
  const { format, layout, shape, type } = options;
  if (format !== undefined) checkOneOf(format, dataFormats, 'options.format');
  if (layout !== undefined) checkLayout(layout);
  if (type !== undefined) checkOneOf(type, tensorTypes, 'options.type');
  if (shape !== undefined) elementCount(shape);
  const data = await open(place, inputs, options);
  if (data.length === 0) throw invalidArgument(`${place} holds no samples`, place);
  return options.labels === undefined ? data : withLabels(data, await readLabels(options.labels));
}

/** Reads one tensor for one input from a .npy, .pb or raw file. */
export async function readTensor(file: string, input: InputShape): Promise<Tensor> {
  if (file.endsWith('.pb')) return parseTensorProto(await read(file)).tensor;
  if (file.endsWith('.npy')) return castTensor(parseNpy(await read(file), file), input.type);
  if (file.endsWith('.npz')) {
    const arrays = await parseNpz(await read(file), file);
    const tensor =
      arrays.get(input.name) ?? (arrays.size === 1 ? [...arrays.values()][0] : undefined);
    if (!tensor) throw invalidArgument(`${file} has no array "${input.name}"`, input.name);
    return castTensor(tensor, input.type);
  }
  const bytes = await readMaybePacked(file);
  const open = input.dims.filter((dim) => typeof dim !== 'number').length;
  if (open > 1) {
    throw invalidArgument(
      `the shape of input "${input.name}" is open`,
      input.name,
      'Give a .npy file: it has its shape with it.',
    );
  }
  const fixed = input.dims.map((dim) => (typeof dim === 'number' ? dim : 1));
  const all = parseRaw(bytes, input.type, fixed);
  return all.reshape(input.dims.map((dim) => (typeof dim === 'number' ? dim : -1)));
}

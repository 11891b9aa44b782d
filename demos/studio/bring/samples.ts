// Samples of all kinds in one form: inputs for one run each, with classes and pictures where there are any.

import type { ModelInfo, Tensor } from 'requant';
import type { ImageSet } from 'requant/dataset';
import { StudioError } from '../watch/problems.js';
import type { SoundSource } from './audio.js';
import {
  type GivenFile,
  isArray,
  isIdx,
  isPicture,
  isSound,
  isTable,
  isText,
  isZip,
} from './files.js';
import { Preparer } from './pictures.js';
import type { Preparation } from './preparation.js';
import type { Prepared } from './prepare.js';

type Feeds = Record<string, Tensor>;

/** Samples to calibrate and to compare with. */
export interface Samples {
  kind: 'pictures' | 'arrays';
  /** A title for users. */
  title: string;
  count: number;
  nameOf(index: number): string;
  /** The right class of each sample. */
  labels?: ArrayLike<number>;
  /** Names of classes by their index. */
  classes?: readonly string[];
  /** How many of the first samples are meant for calibration; the others are for the comparison. */
  calibration?: number;
  feeds(index: number, settings: Preparation | undefined): Promise<Feeds>;
  /** The picture and what the network sees of it. */
  prepared?(index: number, settings: Preparation): Promise<Prepared>;
  /** Sounds, and how they become windows. */
  sound?: SoundSource;
  /** The text and its tokens. */
  text?(index: number): { text: string; tokens: readonly string[] };
}

const MOST_CALIBRATION = 128;
const MOST_TEST = 256;
/** So few samples have to serve for both. */
const FEW = 24;

/** `most` numbers below `count`, spread evenly. */
function spread(numbers: readonly number[], most: number): number[] {
  if (numbers.length <= most) return [...numbers];
  return Array.from(
    { length: most },
    (_, at) => numbers[Math.floor((at * numbers.length) / most)]!,
  );
}

/** Which samples choose the scales, and which ones the networks are compared on. */
export function divide({ count, calibration }: Samples): {
  calibration: number[];
  test: number[];
  separate: boolean;
} {
  const all = Array.from({ length: count }, (_, index) => index);
  if (calibration === undefined && count <= FEW) {
    return { calibration: all, test: all, separate: false };
  }
  // Folders hold one class after another, so every second sample goes to each part.
  const first = all.filter((index) =>
    calibration === undefined ? index % 2 === 0 : index < calibration,
  );
  const others = all.filter((index) =>
    calibration === undefined ? index % 2 === 1 : index >= calibration,
  );
  return {
    calibration: spread(first, MOST_CALIBRATION),
    test: spread(others, MOST_TEST),
    separate: true,
  };
}

function needPreparation(settings: Preparation | undefined): Preparation {
  if (settings) return settings;
  throw new StudioError(
    'Pictures do not fit this model.',
    'Its input is no picture of one or three channels',
    'Bring .npy or .npz files with arrays of the input’s shape',
  );
}

/** Samples of pictures, whatever holds them. */
export function pictureSamples(
  base: Pick<Samples, 'title' | 'count' | 'nameOf'> & Partial<Samples>,
  get: (index: number) => Parameters<typeof import('./pictures.js').preparePicture>[0],
): Samples {
  const preparer = new Preparer(get, base.nameOf);
  return {
    ...base,
    kind: 'pictures',
    prepared: (index, settings) => preparer.prepared(index, settings),
    async feeds(index, settings) {
      const own = needPreparation(settings);
      const { Tensor: Made } = await import('requant');
      const { data, type, dims } = await preparer.prepared(index, own);
      return { [own.input]: new Made(type, data, dims) as Tensor };
    },
  };
}

const parts = (path: string) => path.split('/');

/** Pictures; sub-folders are classes if all pictures lie in one. */
function fromPictures(files: readonly GivenFile[]): Samples {
  const folders = [...new Set(files.map(({ path }) => parts(path).at(-2) ?? ''))];
  const inFolders = folders.length > 1 && !folders.includes('');
  folders.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const count = files.length;
  const noun = count === 1 ? 'picture' : 'pictures';
  return pictureSamples(
    {
      title: inFolders ? `${count} ${noun} in ${folders.length} folders` : `${count} ${noun}`,
      count,
      nameOf: (index) => parts(files[index]!.path).at(-1)!,
      ...(inFolders
        ? {
            classes: folders,
            labels: files.map(({ path }) => folders.indexOf(parts(path).at(-2)!)),
          }
        : {}),
    },
    (index) => files[index]!.file,
  );
}

/** Pictures of one size in an IDX file. */
export async function fromImageSet(
  set: ImageSet,
  title: string,
  more: Partial<Samples> = {},
): Promise<Samples> {
  const { imageAt } = await import('requant/dataset');
  return pictureSamples(
    {
      title,
      count: set.length,
      nameOf: (index) => `picture ${index + 1}`,
      ...(set.labels ? { labels: set.labels } : {}),
      ...more,
    },
    (index) => {
      const image = imageAt(set, index);
      // The set's memory would be sent whole.
      return { ...image, data: image.data.slice() };
    },
  );
}

const bytesOf = async (file: Blob) => new Uint8Array(await file.arrayBuffer());

async function fromIdx(files: readonly GivenFile[]): Promise<Samples> {
  const { readIdxImages } = await import('requant/dataset');
  const labels = files.find(({ path }) => /label/i.test(path));
  const images = files.find((file) => file !== labels);
  if (!images) throw new StudioError('There are labels without pictures.', labels!.path);
  const set = await readIdxImages(
    await bytesOf(images.file),
    labels ? await bytesOf(labels.file) : undefined,
  );
  return fromImageSet(set, `${set.length} pictures of ${images.path}`);
}

async function fromArrays(files: readonly GivenFile[], { inputs }: ModelInfo): Promise<Samples> {
  const { arraySamples, parseNpy, parseNpz, sampleCount } = await import('requant/dataset');
  const arrays = new Map<string, Tensor>();
  for (const { path, file } of files) {
    const name = parts(path).at(-1)!;
    const bytes = await bytesOf(file);
    if (/\.npz$/i.test(path)) {
      for (const [key, tensor] of await parseNpz(bytes, name)) arrays.set(key, tensor);
    } else arrays.set(name.replace(/\.npy$/i, ''), parseNpy(bytes, name));
  }
  const [input] = inputs;
  const [single] = arrays.values();
  // Files of one sample each, all for the same input.
  const many = inputs.length === 1 && arrays.size > 1 && !arrays.has(input!.name);
  const labelled = arrays.has('label') || arrays.has('labels');
  const list: Feeds[] = [];
  const labels: number[] = [];
  if (many && !labelled && sampleCount(single!, input!) === 1) {
    for (const tensor of arrays.values()) {
      for await (const { feeds } of arraySamples(new Map([[input!.name, tensor]]), inputs)) {
        list.push(feeds);
      }
    }
  } else {
    for await (const { feeds, label } of arraySamples(arrays, inputs)) {
      list.push(feeds);
      if (label !== undefined) labels.push(label);
    }
  }
  return {
    kind: 'arrays',
    title: `${list.length} ${list.length === 1 ? 'sample' : 'samples'} of ${files.map(({ path }) => parts(path).at(-1)).join(', ')}`,
    count: list.length,
    nameOf: (index) => `sample ${index + 1}`,
    feeds: async (index) => list[index]!,
    ...(labels.length === list.length ? { labels } : {}),
  };
}

async function unzipped({ path, file }: GivenFile): Promise<GivenFile[]> {
  const { unzip } = await import('fflate');
  const bytes = await bytesOf(file);
  const entries = await new Promise<Record<string, Uint8Array>>((resolve, reject) =>
    unzip(bytes, (error, result) => (error ? reject(error) : resolve(result))),
  ).catch((error: Error) => {
    throw new StudioError('The archive cannot be read.', `${path}: ${error.message}`);
  });
  return Object.entries(entries)
    .filter(([name]) => !name.endsWith('/') && !name.startsWith('__MACOSX'))
    .map(([name, data]) => ({ path: name, file: new File([data as BlobPart], name) }));
}

/** Reads samples of files. Throws StudioError and RequantError for those that do not fit the model. */
export async function readSamples(given: readonly GivenFile[], info: ModelInfo): Promise<Samples> {
  const files: GivenFile[] = [];
  for (const file of given) files.push(...(isZip(file) ? await unzipped(file) : [file]));
  const pictures = files.filter(isPicture);
  if (pictures.length > 0) return fromPictures(pictures);
  const arrays = files.filter(isArray);
  if (arrays.length > 0) return fromArrays(arrays, info);
  const sounds = files.filter(isSound);
  if (sounds.length > 0) return (await import('./audio.js')).fromSounds(sounds, info);
  if (files.some(isText)) return (await import('./text.js')).fromTexts(files, info);
  const [table] = files.filter(isTable);
  if (table) return (await import('./table.js')).fromTable(table, info);
  const idx = files.filter(isIdx);
  if (idx.length > 0) return fromIdx(idx);
  throw new StudioError(
    'There are no samples in this.',
    `None of ${files.length} files is a picture, an array, a sound, a table or a text`,
    'Pictures, folders of pictures, .npy, .npz, .wav, .csv, .txt with tokenizer.json, .zip and IDX files can be read',
  );
}

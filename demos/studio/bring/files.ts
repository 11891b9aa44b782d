// Files that the user drops or chooses, sorted into models, their external data, and samples.

import { StudioError } from '../watch/problems.js';

/** A file with its path inside of what was dropped or chosen. */
export interface GivenFile {
  path: string;
  file: File;
}

/** A model and its external data files. */
export interface Brought {
  name: string;
  bytes: Blob;
  external: Record<string, Blob>;
}

const PICTURE = /\.(png|jpe?g|webp|bmp|gif|avif)$/i;
const ARRAY = /\.(npy|npz)$/i;
const IDX = /ubyte(\.gz)?$|\.idx(\.gz)?$/i;
const ZIP = /\.zip$/i;
const SOUND = /\.(wav|mp3|ogg|oga|flac|m4a)$/i;
const TABLE = /\.(csv|tsv)$/i;
const TEXT = /\.txt$/i;
const TOKENIZER = /(^|\/)tokenizer(_config)?\.json$/i;
/** Files beside models that are no samples. */
const NO_TEXT = /(^|\/)(licen[cs]e|readme|notice|requirements|vocab|merges|labels|classes)[^/]*$/i;
const OTHER_MODEL = /\.(pt|pth|h5|keras|pb|safetensors|gguf|mlmodel|bin)$/i;

export const isPicture = ({ path }: GivenFile): boolean => PICTURE.test(path);
export const isArray = ({ path }: GivenFile): boolean => ARRAY.test(path);
export const isIdx = ({ path }: GivenFile): boolean => IDX.test(path);
export const isZip = ({ path }: GivenFile): boolean => ZIP.test(path);
export const isSound = ({ path }: GivenFile): boolean => SOUND.test(path);
export const isTable = ({ path }: GivenFile): boolean => TABLE.test(path);
export const isText = ({ path }: GivenFile): boolean => TEXT.test(path) && !NO_TEXT.test(path);
export const isTokenizer = ({ path }: GivenFile): boolean => TOKENIZER.test(path);
const isModel = ({ path }: GivenFile) => /\.(onnx|ort|tflite)$/i.test(path);
const isSample = (file: GivenFile) =>
  [isPicture, isArray, isIdx, isZip, isSound, isTable, isText].some((is) => is(file));

const baseName = (path: string) => path.split('/').at(-1)!;

/** The files of an `<input type="file">`. */
export function chosenFiles(list: FileList): GivenFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  return new Promise((resolve, reject) => {
    // A reader gives a hundred entries at a time.
    const read = () =>
      reader.readEntries((some) => {
        all.push(...some);
        if (some.length === 0) resolve(all);
        else read();
      }, reject);
    read();
  });
}

async function walk(entry: FileSystemEntry, into: GivenFile[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    into.push({ path: entry.fullPath.replace(/^\//, ''), file });
  } else if (entry.isDirectory) {
    for (const inner of await entriesOf(entry as FileSystemDirectoryEntry)) await walk(inner, into);
  }
}

/** The files of a drop, those in folders included. Must be called before the event ends. */
export async function droppedFiles(transfer: DataTransfer): Promise<GivenFile[]> {
  // Only folders need entries: those of files made by scripts cannot be read in every browser.
  const items = [...transfer.items].map((item) => ({
    folder: item.webkitGetAsEntry?.()?.isDirectory ? item.webkitGetAsEntry() : null,
    file: item.getAsFile(),
  }));
  const files: GivenFile[] = [];
  for (const { folder, file } of items) {
    if (folder) await walk(folder, files);
    else if (file) files.push({ path: file.name, file });
  }
  return files;
}

/** Hidden files that systems add to folders are none of the user's. */
const isVisible = ({ path }: GivenFile) =>
  !path.split('/').some((part) => part.startsWith('.') || part === '__MACOSX');

/**
 * The model among the files, if there is one, and the samples. Throws StudioError for files that are of no use.
 */
export function sortFiles(given: readonly GivenFile[]): {
  model: Brought | undefined;
  samples: GivenFile[];
} {
  const files = given.filter(isVisible).sort((a, b) => a.path.localeCompare(b.path, 'en'));
  const models = files.filter(isModel);
  if (models.length > 1) {
    throw new StudioError(
      'Which of these models?',
      `There are ${models.length} models: ${models.map(({ path }) => path).join(', ')}`,
      'Drop one of them, with its external data if it has any',
    );
  }
  const [found] = models;
  // A tokenizer beside a model is no sample, and texts need one.
  const texts = files.filter(isText).length > 0 && (!found || files.some(isTokenizer));
  const samples = files.filter((file) =>
    isText(file) || isTokenizer(file) ? texts : isSample(file),
  );
  if (!found && samples.length === 0) {
    const other = files.find(({ path }) => OTHER_MODEL.test(path));
    throw new StudioError(
      'There is no model and no sample in this.',
      other
        ? `${baseName(other.path)} is of another format`
        : `${files.length === 1 ? baseName(files[0]!.path) : `None of ${files.length} files`} can be read`,
      other
        ? 'Export the network as ONNX: torch.onnx.export, tf2onnx or optimum-cli do that'
        : 'Models end in .onnx or .tflite; samples are pictures, folders of pictures, .npy, .npz, .wav, .csv, .txt with tokenizer.json, .zip or IDX files',
    );
  }
  if (!found) return { model: undefined, samples };
  const folder = found.path.slice(0, found.path.length - baseName(found.path).length);
  const external = Object.fromEntries(
    files
      .filter((one) => one !== found && !isPicture(one) && one.path.startsWith(folder))
      .map(({ path, file }) => [path.slice(folder.length), file]),
  );
  return { model: { name: baseName(found.path), bytes: found.file, external }, samples };
}

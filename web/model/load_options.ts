// The options of loading a model.

import { checkKind } from '../base/options.js';
import type { LoadProgress, Source } from '../base/source.js';
import type { EnginePart } from '../engine/load_core.js';

/** One of a model's external data files, in the form of onnxruntime-web. */
export interface ExternalDataFile {
  /** The name that the model uses; a `./` before it has no meaning. */
  path: string;
  data: Source;
}

/** External data files by their names, or a list of files; a string is both name and source. */
export type ExternalData =
  Readonly<Record<string, Source>> | readonly (ExternalDataFile | string)[];

/** Options of {@link loadModel}. */
export interface LoadOptions {
  /** Called while the file is read. */
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
  /**
   * The model's external data files by the names it uses, or as onnxruntime-web takes them: a list of
   * `{ path, data }`, or of URLs and paths that are the names themselves. Files that are not given are looked
   * for beside the model, if it comes from a path or URL.
   */
  externalData?: ExternalData;
  /**
   * Threads of the engine that holds the model, as in {@link WasmEnv.numThreads}, which is the default.
   * Models for one thread and for several live in different engines and do not mix.
   */
  numThreads?: number | 'auto';
  /**
   * Parts of the engine to fetch together with the model instead of after it: `'tools'` to quantize, compare
   * or train, `'lowBits'` for a model with weights of few bits, `'operators'` for one with extended operators
   * (the other two include them). Without this option each part is fetched once it is known to be needed.
   */
  preload?: readonly EnginePart[];
  /**
   * How layers of `.tflite` files with float activations and weights of codes (dynamic range) compute: `'integer'`
   * (default) multiplies integers, as LiteRT does; `'float'` widens the weights, so that quantize() and train()
   * take the model. Other files have no such layers, and ignore it.
   */
  dynamicRange?: 'integer' | 'float';
}

/** @internal */
export const loadOptionKinds = {
  onProgress: 'function',
  signal: 'signal',
  externalData: 'any',
  numThreads: 'any',
  preload: 'strings',
  dynamicRange: 'string',
} as const;

const plainName = (name: string) => name.replace(/^(\.\/)+/, '');

/**
 * @internal External data files by the names that models use. Throws INVALID_ARGUMENT for a list with anything
 * but files and strings.
 */
export function externalFiles(given: ExternalData | undefined): Map<string, Source> {
  const files = new Map<string, Source>();
  if (given === undefined) return files;
  if (!Array.isArray(given)) {
    checkKind(given, 'object', 'options.externalData');
    for (const [name, data] of Object.entries(given)) files.set(plainName(name), data as Source);
    return files;
  }
  given.forEach((file: unknown, i) => {
    const name = `options.externalData[${i}]`;
    if (typeof file === 'string') {
      files.set(plainName(file), file);
      return;
    }
    checkKind(file, 'object', name);
    const { path, data } = file as ExternalDataFile;
    checkKind(path, 'string', `${name}.path`);
    files.set(plainName(path), data);
  });
  return files;
}

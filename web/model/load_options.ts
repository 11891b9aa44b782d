// The options of loading a model.

import type { LoadProgress, Source } from '../base/source.js';
import type { EnginePart } from '../engine/load_core.js';

/** Options of {@link loadModel}. */
export interface LoadOptions {
  /** Called while the file is read. */
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
  /**
   * The model's external data files by the names it uses. Files that are not given are looked for beside the
   * model, if it comes from a path or URL.
   */
  externalData?: Readonly<Record<string, Source>>;
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
}

/** @internal */
export const loadOptionKinds = {
  onProgress: 'function',
  signal: 'signal',
  externalData: 'object',
  numThreads: 'any',
  preload: 'strings',
} as const;

// Weights of ONNX models that lie in other files, read into the core's memory piece by piece.

import { type ByteRange, joinRanges, readRanges } from './byte_ranges.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import { insteadOf } from '../base/signatures.js';
import {
  type LoadProgress,
  type Loaded,
  type Location,
  type Source,
  besides,
} from '../base/source.js';
import type { Core } from '../core.js';
import { allocate, free } from '../engine/heap.js';
import { type LoadOptions, externalFiles } from './load_options.js';
import { OWN_FILE } from './own_weights.js';

function checkExternalName(name: string): void {
  // ONNX demands a path relative to the model's folder; any other could reach other files.
  if (/^([/\\]|[a-z]:)/i.test(name) || name.split(/[/\\]/).includes('..') || name === '') {
    throw new RequantError(
      'INVALID_MODEL',
      `the external data file "${name}" is not beside the model`,
      {
        value: name,
      },
    );
  }
}

/** Where the user says that the file is, or its place beside the model. */
function sourceOf(
  name: string,
  given: ReadonlyMap<string, Source>,
  { location, weights }: Loaded,
): Source | Location {
  if (name === OWN_FILE && weights) return weights;
  const own = given.get(name.replace(/^(\.\/)+/, ''));
  if (own !== undefined) return own;
  if (location) {
    checkExternalName(name);
    return besides(location, name);
  }
  throw invalidArgument(
    `the model keeps its weights in another file, "${name}"`,
    name,
    `Give it: loadModel(bytes, { externalData: { ${JSON.stringify(name)}: ... } }).`,
  );
}

/** Bytes of a file from `offset` on, in the core's memory. */
interface Piece {
  readonly name: string;
  readonly offset: number;
  readonly pointer: number;
  size: number;
}

/** What the tensors of a model need of each file. */
function rangesOf(names: readonly string[], numbers: readonly number[]) {
  const ranges = new Map<string, ByteRange[]>();
  names.forEach((name, i) => {
    const known = ranges.get(name) ?? [];
    known.push({ offset: numbers[2 * i]!, size: numbers[2 * i + 1]! });
    ranges.set(name, known);
  });
  return [...ranges].map(([name, all]) => ({
    name,
    ranges: joinRanges(all, name !== OWN_FILE),
  }));
}

/** What a model needs of other files, in the core's memory. */
export class ExternalPieces {
  readonly #core: Core;
  readonly #pieces: Piece[] = [];
  /** The first bytes of each file, by its name. */
  readonly heads = new Map<string, Uint8Array>();

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Reads what tensors need, of which `names` has the file and `numbers` offset and size. Pieces that were read remain,
   * also when a later one fails.
   */
  async read(
    { names, ranges: numbers }: { names: readonly string[]; ranges: readonly number[] },
    loaded: Loaded,
    { externalData, signal, onProgress }: LoadOptions,
  ): Promise<void> {
    const given = externalFiles(externalData);
    const needs = rangesOf(names, numbers);
    const progress: LoadProgress = { phase: 'weights', done: 0, total: 0 };
    const isRead = (name: string) => name !== OWN_FILE || !(loaded.weights instanceof Uint8Array);
    for (const { name, ranges } of needs) {
      if (isRead(name)) for (const { size } of ranges) progress.total! += size;
    }
    for (const { name, ranges } of needs) {
      const report = isRead(name) ? onProgress : undefined;
      const source = sourceOf(name, given, loaded);
      let at = 0;
      let piece: Piece;
      const sink = {
        head: (bytes: Uint8Array) => {
          if (name === OWN_FILE) return;
          const wrong = insteadOf('data', bytes, name, { certain: true });
          if (wrong) throw wrong;
          this.heads.set(name, bytes.slice());
        },
        begin: (index: number, size: number) => {
          const pointer = allocate(this.#core, size);
          piece = { name, offset: ranges[index]!.offset, pointer, size: 0 };
          this.#pieces.push(piece);
          at = pointer;
        },
        take: (bytes: Uint8Array) => {
          this.#core.HEAPU8.set(bytes, at);
          at += bytes.length;
          piece.size += bytes.length;
          progress.done += bytes.length;
          report?.({ ...progress });
        },
      };
      await readRanges(source, ranges, sink, signal);
    }
  }

  /** Hands the pieces over to the core, which frees them. */
  release(): readonly Piece[] {
    return this.#pieces.splice(0);
  }

  /** Frees the pieces that were not handed over. */
  dispose(): void {
    for (const { pointer } of this.release()) free(this.#core, pointer);
  }
}

// Models from files, with the external data beside them, and from text.

import { Breather, throwIfAborted } from '../base/abort.js';
import { RequantError } from '../base/errors.js';
import { checkKind, checkOneOf, checkOptions } from '../base/options.js';
import { describe, insteadOf } from '../base/signatures.js';
import { type Loaded, type Source, openBytes, readOpened } from '../base/source.js';
import type { Core, Failure } from '../core.js';
import { call, copyIn, free } from '../engine/heap.js';
import {
  loadCore,
  loadLowBits,
  loadOperators,
  loadTools,
  prefetchLowBits,
  prefetchParts,
} from '../engine/load_core.js';
import { fileOf, withFile } from './byte_ranges.js';
import { ExternalPieces } from './external_data.js';
import { type LoadOptions, loadOptionKinds } from './load_options.js';
import { Model } from './model.js';
import { withoutWeights } from './own_weights.js';
import { isPlan } from './plan_file.js';

/** The name of a file in errors. */
function placeOf({ location }: Loaded): string | undefined {
  return location && ('url' in location ? location.url : location.path);
}

/** The core's error for a file that it cannot read, or one that says what the file is instead of a model. */
function notRead(
  error: unknown,
  loaded: Loaded,
  external: ReadonlyMap<string, Uint8Array>,
): unknown {
  if (!(error instanceof RequantError)) return error;
  const { code, message } = error;
  if (code !== 'INVALID_MODEL' && code !== 'UNSUPPORTED') return error;
  const instead = insteadOf('model', loaded.bytes, placeOf(loaded), { cause: error });
  if (instead) return instead;
  if (/no protobuf message|has no graph/.test(message)) {
    const what = placeOf(loaded) ?? 'this';
    return new RequantError(code, `${what} is no ONNX model: ${message}`, {
      hint: `It has ${describe(loaded.bytes)}: another kind of file, or one that is damaged or cut off.`,
      cause: error,
    });
  }
  for (const [name, bytes] of external) {
    const wrong = insteadOf('data', bytes, name, { cause: error });
    if (wrong) return wrong;
  }
  return error;
}

/** Reads a model's file. The large weights of a Blob or of a file on a disk stay there, unless `whole`. */
async function readModelFile(given: Source, options: LoadOptions, whole: boolean): Promise<Loaded> {
  const { onProgress, signal } = options;
  const source = await openBytes(given, signal);
  const bytes = whole
    ? undefined
    : await withFile(source, signal, (file) => withoutWeights(file, signal));
  if (!bytes) return readOpened(source, options);
  onProgress?.({ phase: 'download', done: bytes.length, total: bytes.length });
  if ('blob' in source) return { bytes, weights: source.blob };
  const location = 'path' in source ? { path: source.path } : undefined;
  return location ? { bytes, location, weights: location } : { bytes };
}

/** Takes the large weights out of a file in memory. */
async function cutInMemory(loaded: Loaded, signal: AbortSignal | undefined): Promise<Loaded> {
  if (loaded.weights) return loaded;
  const bytes = await withoutWeights(fileOf(loaded.bytes), signal);
  return bytes ? { ...loaded, bytes, weights: loaded.bytes } : loaded;
}

/** Reads the model of an ONNX or TFLite file, and the weights in other files. */
async function parse(core: Core, given: Loaded, options: LoadOptions): Promise<Model> {
  const loaded = await cutInMemory(given, options.signal);
  const external = new ExternalPieces(core);
  const reading = <T>(action: () => T | Failure) => {
    try {
      return call(core, action);
    } catch (error) {
      throw notRead(error, loaded, external.heads);
    }
  };
  // Until readOnnx takes it over, it must be freed here.
  let owned: number | undefined;
  try {
    const size = loaded.bytes.length;
    const pointer = copyIn(core, loaded.bytes);
    owned = pointer;
    const needs = reading(() => core.fileNeeds(pointer, size));
    const operators = loadOperators(core, needs.functions);
    // Its failure is reported below, unless reading files fails first.
    operators.catch(() => {});
    await external.read(needs, loaded, options);
    await operators;
    throwIfAborted(options.signal);
    owned = undefined;
    const pieces = external.release();
    const object = reading(() =>
      core.readOnnx(
        pointer,
        size,
        pieces.map(({ name }) => name),
        pieces.flatMap((piece) => [piece.offset, piece.pointer, piece.size]),
        options.dynamicRange === 'float',
      ),
    );
    const model = new Model(core, object);
    try {
      const { handle } = model;
      // Sessions of the model will need these kernels.
      if (handle.call((read) => read.lowBits())) prefetchLowBits(core);
      await loadOperators(
        core,
        handle.call((read) => read.functions()),
      );
    } catch (error) {
      model.dispose();
      throw error;
    }
    return model;
  } finally {
    external.dispose();
    if (owned !== undefined) free(core, owned);
  }
}

/**
 * Reads an ONNX or TFLite model, float or quantized, and verifies it.
 *
 * @param source Bytes, a `Blob`, a URL, or in Node a path.
 * @throws RequantError `LOAD_FAILED` when it cannot be read, `INVALID_MODEL` or `UNSUPPORTED` when it cannot
 * be used, `ABORTED`.
 * @example
 * const model = await loadModel('model.onnx');
 * console.log(model.summary());
 */
export async function loadModel(source: Source, options: LoadOptions = {}): Promise<Model> {
  checkOptions(options, loadOptionKinds, 'options');
  const { core, loaded } = await openSource(source, options);
  return modelOf(core, loaded, options);
}

/** @internal Whether other files hold data of an ONNX file. */
export function hasFilesBeside(core: Core, bytes: Uint8Array): boolean {
  const pointer = copyIn(core, bytes);
  try {
    return call(core, () => core.fileNeeds(pointer, bytes.length)).names.length > 0;
  } finally {
    free(core, pointer);
  }
}

/** @internal Fetches the engine and the bytes at the same time; all bytes if `whole`. */
export async function openSource(
  source: Source,
  options: LoadOptions,
  whole = false,
): Promise<{ core: Core; loaded: Loaded }> {
  const { preload = [], dynamicRange } = options;
  if (dynamicRange !== undefined) {
    checkOneOf(dynamicRange, ['integer', 'float'], 'options.dynamicRange');
  }
  for (const part of preload) {
    checkOneOf(part, ['operators', 'tools', 'lowBits'], 'options.preload');
  }
  void prefetchParts(preload, options.numThreads);
  const [core, loaded] = await Promise.all([
    loadCore(options.numThreads),
    readModelFile(source, options, whole),
  ]);
  throwIfAborted(options.signal);
  return { core, loaded };
}

/** @internal Makes a model of the bytes. */
export async function modelOf(core: Core, loaded: Loaded, options: LoadOptions): Promise<Model> {
  if (isPlan(loaded.bytes)) {
    throw new RequantError('INVALID_MODEL', 'this is the saved plan of a session, not a model', {
      hint: 'Give it to InferenceSession.create.',
    });
  }
  if (options.onProgress) {
    const size = loaded.bytes.length;
    options.onProgress({ phase: 'parse', done: size, total: size });
    await new Breather(options.signal).breathe(true);
  }
  return parse(core, loaded, options);
}

/** Makes a model from the text form of graphs that {@link Model.toText} writes; for tests and experiments. */
export async function parseModel(text: string): Promise<Model> {
  checkKind(text, 'string', 'text');
  const core = await loadCore();
  await loadTools(core);
  return new Model(
    core,
    call(core, () => core.parseText(text)),
  );
}

/** @internal Loads the tools, and for models of few bits the kernels that run them. */
export async function loadToolsFor(...models: readonly Model[]): Promise<void> {
  const needing = models.filter(({ handle }) => handle.call((object) => object.lowBits()));
  await Promise.all([
    ...models.map(({ handle }) => loadTools(handle.core)),
    ...needing.map(({ handle }) => loadLowBits(handle.core)),
  ]);
}

/** @internal Waits for a model that may be a promise, and meanwhile begins to load the tools. */
export async function arrived(model: Model | PromiseLike<Model>): Promise<Model> {
  if (typeof (model as { then?: unknown } | null | undefined)?.then !== 'function') {
    return model as Model;
  }
  void prefetchParts(['tools']);
  return await model;
}

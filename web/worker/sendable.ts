// Sources, options and settings for a worker, in a form that messages can hold.

import { checkKind, withoutUndefined } from '../base/options.js';
import { isNode } from '../base/host.js';
import { type Source, isResponse, readSource, ready } from '../base/source.js';
import type { WasmEnv } from '../engine/env.js';
import { variantFor } from '../engine/load_core.js';
import { checkBinaries, compiled, isGiven, ownPaths } from '../engine/modules.js';
import { type LoadOptions, externalFiles } from '../model/load_options.js';
import type { WasmFile } from '../own_files.js';
import type { CallExtras } from './worker_connection.js';

// Makes a page's relative URL absolute, since a worker would resolve it against its own script.
function absolute(source: string | URL): string {
  if (source instanceof URL || isNode || typeof document !== 'object') return String(source);
  return new URL(source, document.baseURI).href;
}

// Reads responses here, since they cannot be sent.
export async function sendable(given: Source, signal: AbortSignal | undefined): Promise<unknown> {
  const source = await ready(given, signal);
  if (source instanceof URL || typeof source === 'string') return absolute(source);
  if (isResponse(source)) {
    return (await readSource(source, signal ? { signal } : {})).bytes;
  }
  return source;
}

/** Checks the options that stay here; the worker checks the others. */
export function checkExtras(options: unknown): void {
  checkKind(options, 'object', 'options');
  const { onProgress, signal } = options as { onProgress?: unknown; signal?: unknown };
  if (onProgress !== undefined) checkKind(onProgress, 'function', 'options.onProgress');
  if (signal !== undefined) checkKind(signal, 'signal', 'options.signal');
}

export async function splitLoadOptions<T extends LoadOptions>(options: T) {
  checkExtras(options);
  const { onProgress, signal, externalData, ...rest } = options;
  const send = async ([name, file]: [string, Source]) => [name, await sendable(file, signal)];
  const files =
    externalData &&
    Object.fromEntries(await Promise.all([...externalFiles(externalData)].map(send)));
  return {
    plain: withoutUndefined({ ...rest, externalData: files }),
    extras: { onProgress, signal } as CallExtras,
  };
}

/**
 * The module that the worker asks for, compiled once for all workers; undefined: it may load the module
 * itself.
 */
export async function moduleFor(
  file: WasmFile,
  settings: WasmEnv,
): Promise<WebAssembly.Module | undefined> {
  try {
    return await compiled(file, settings);
  } catch (error) {
    if (isGiven(file, settings)) throw error;
    return undefined;
  }
}

function absolutePaths<T extends string>(
  paths: string | URL | Partial<Record<T, string | URL>> | undefined,
): string | Record<string, string> | undefined {
  if (typeof paths === 'string' || paths instanceof URL) return absolute(paths);
  return paths && mapValues(paths as Record<string, string | URL>, absolute);
}

function mapValues<T, R>(object: Record<string, T>, map: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));
}

/**
 * The settings of env.wasm to send. The worker asks for modules, so only settings that shape its choices are
 * sent.
 */
export async function sendableSettings(settings: WasmEnv): Promise<Partial<WasmEnv>> {
  checkBinaries(settings);
  const { numThreads, workerPaths, wasmBinary, initTimeout } = settings;
  return withoutUndefined({
    simd: wasmBinary ? variantFor(settings) : settings.simd,
    numThreads,
    initTimeout,
    wasmPaths: absolutePaths(ownPaths(settings)),
    workerPaths: absolutePaths(workerPaths),
    wasmBinary: wasmBinary && (await compiled(`requant-${variantFor(settings)}.wasm`, settings)),
  }) as Partial<WasmEnv>;
}

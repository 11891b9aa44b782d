// Compiles the package's wasm modules, once each. They are found and fetched, taken from env.wasm, or asked
// of the thread that started this one.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { warnOnce } from '../base/log.js';
import { insteadOf } from '../base/signatures.js';
import { isNode } from '../base/host.js';
import { type Location, locate, readSource } from '../base/source.js';
import { type WasmFile, locateOwn, wasmFiles } from '../own_files.js';
import { type WasmBinary, type WasmEnv, env } from './env.js';

/** The paths of env.wasm, unless they lead to the files of onnxruntime-web, as in programs written for it. */
export function ownPaths({ wasmPaths }: WasmEnv): WasmEnv['wasmPaths'] {
  const isText = typeof wasmPaths === 'string' || wasmPaths instanceof URL;
  const theirs = isText
    ? /onnxruntime-web|ort-wasm/.test(String(wasmPaths))
    : wasmPaths !== undefined && ('wasm' in wasmPaths || 'mjs' in wasmPaths);
  if (!theirs) return wasmPaths;
  warnOnce("env.wasm.wasmPaths leads to onnxruntime-web's files and has no effect");
  return undefined;
}

async function wasmLocation(file: WasmFile, settings: WasmEnv): Promise<Location> {
  const paths = ownPaths(settings);
  if (typeof paths === 'string' || paths instanceof URL) return locate(`${paths}${file}`);
  const given = paths?.[file];
  if (given !== undefined) return locate(given);
  return locateOwn(file, wasmFiles[file]);
}

/** The error for a module that cannot be loaded, whatever the reason. */
export function moduleFailed(what: string, error: unknown): RequantError {
  if (error instanceof RequantError) return error;
  const why = error instanceof Error ? error.message : String(error);
  const imports = error instanceof TypeError || error instanceof WebAssembly.LinkError;
  return new RequantError('LOAD_FAILED', `the wasm module ${what}: ${why}`, {
    cause: error,
    hint: imports
      ? 'It does not fit: take all files (JavaScript and wasm) from one version of the package.'
      : isNode
        ? 'Node 20 or newer is needed.'
        : "A Content-Security-Policy must allow 'wasm-unsafe-eval'; the browser needs SIMD and " +
          'exception handling of WebAssembly.',
  });
}

/** Whether the value is a compiled module, which may be from another realm. */
export function isModule(value: unknown): value is WebAssembly.Module {
  return Object.prototype.toString.call(value) === '[object WebAssembly.Module]';
}

async function compileBytes(bytes: Uint8Array, place: string): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>);
  } catch (error) {
    throw insteadOf('module', bytes, place, { cause: error }) ?? error;
  }
}

async function compileAt(location: Location): Promise<WebAssembly.Module> {
  if ('url' in location && typeof WebAssembly.compileStreaming === 'function') {
    // Streaming needs the right media type, which not every server sends; otherwise the bytes are read.
    const response = await fetch(location.url).catch(() => undefined);
    if (response?.ok && response.headers.get('content-type')?.startsWith('application/wasm')) {
      // If streaming fails, reading the whole file reports why.
      const module = await WebAssembly.compileStreaming(response).catch(() => undefined);
      if (module) return module;
    } else if (response?.ok) {
      return compileBytes(new Uint8Array(await response.arrayBuffer()), location.url);
    }
  }
  const { bytes } = await readSource(location);
  return compileBytes(bytes, 'url' in location ? location.url : location.path);
}

type BinaryOption = 'wasmBinary' | 'operatorsBinary' | 'toolsBinary' | 'lowBitsBinary';

/** The option of env.wasm that may hold a module; modules for threads have none. */
function binaryOption(file: WasmFile): BinaryOption | undefined {
  if (file.endsWith('-threads.wasm')) return undefined;
  if (file === 'requant-operators.wasm') return 'operatorsBinary';
  if (file === 'requant-tools.wasm') return 'toolsBinary';
  return file.startsWith('requant-lowbits-') ? 'lowBitsBinary' : 'wasmBinary';
}

/** Whether env.wasm has the module, so that it need not be found. */
export function isGiven(file: WasmFile, settings: WasmEnv): boolean {
  const option = binaryOption(file);
  return option !== undefined && settings[option] !== undefined;
}

/** The bytes of a binary; undefined for any other value. */
function bytesIn(binary: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(binary)) {
    return new Uint8Array(binary.buffer, binary.byteOffset, binary.byteLength);
  }
  const tag = Object.prototype.toString.call(binary);
  const isBuffer = tag === '[object ArrayBuffer]' || tag === '[object SharedArrayBuffer]';
  return isBuffer ? new Uint8Array(binary as ArrayBuffer) : undefined;
}

function checkBinary(option: BinaryOption, binary: unknown): void {
  if (isModule(binary) || bytesIn(binary)) return;
  const name = `env.wasm.${option}`;
  throw invalidArgument(
    `${name} is ${show(binary)}`,
    name,
    'Give the bytes of the file (Uint8Array, ArrayBuffer) or a WebAssembly.Module.',
  );
}

/** Throws INVALID_ARGUMENT for a value of env.wasm that is no binary. */
export function checkBinaries(settings: WasmEnv): void {
  for (const option of ['wasmBinary', 'operatorsBinary', 'toolsBinary', 'lowBitsBinary'] as const) {
    if (settings[option] !== undefined) checkBinary(option, settings[option]);
  }
}

async function compileBinary(
  option: BinaryOption,
  binary: WasmBinary,
): Promise<WebAssembly.Module> {
  return isModule(binary) ? binary : compileBytes(bytesIn(binary)!, `env.wasm.${option}`);
}

const byAddress = new Map<string, Promise<WebAssembly.Module>>();
const byBinary = new WeakMap<object, Promise<WebAssembly.Module>>();

/** Caches the promise that `make` returns under that key, unless it fails. */
function kept<K>(
  store: {
    get(key: K): Promise<WebAssembly.Module> | undefined;
    set(key: K, value: Promise<WebAssembly.Module>): unknown;
    delete(key: K): unknown;
  },
  key: K,
  make: () => Promise<WebAssembly.Module>,
): Promise<WebAssembly.Module> {
  const known = store.get(key);
  if (known) return known;
  const making = make();
  store.set(key, making);
  making.catch(() => store.delete(key));
  return making;
}

/** Gives a module that another thread has compiled, or undefined when it has none. */
export type ModuleProvider = (file: WasmFile) => Promise<WebAssembly.Module | undefined>;

let provider: ModuleProvider | undefined;

/** Asks another thread for modules first, from now on. */
export function askForModules(from: ModuleProvider): void {
  provider = from;
}

/**
 * The compiled module of a file, by these settings. It is fetched and compiled once for every address, or
 * once for given bytes. A failed load is tried again by the next call.
 *
 * @throws RequantError LOAD_FAILED, INVALID_ARGUMENT for a value that is no binary.
 */
export async function compiled(
  file: WasmFile,
  settings: WasmEnv = env.wasm,
): Promise<WebAssembly.Module> {
  try {
    const option = binaryOption(file);
    const binary = option && settings[option];
    if (option && binary !== undefined) {
      checkBinary(option, binary);
      return await kept(byBinary, binary, () => compileBinary(option, binary));
    }
    if (provider) {
      const ask = provider;
      const make = async () => {
        const module = await ask(file);
        return module ?? compileAt(await wasmLocation(file, settings));
      };
      return await kept(byAddress, file, make);
    }
    const location = await wasmLocation(file, settings);
    const key = 'url' in location ? location.url : location.path;
    return await kept(byAddress, key, () => compileAt(location));
  } catch (error) {
    throw moduleFailed(file, error);
  }
}

/** Begins to fetch and compile modules; errors appear when the modules are used. */
export function prefetch(files: readonly WasmFile[], settings: WasmEnv = env.wasm): void {
  for (const file of files) compiled(file, settings).catch(() => {});
}

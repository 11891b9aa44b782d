// Loads the wasm core, once per variant. The only file that knows the Emscripten glue.

import createCore, { type Core } from './core.js';
import { type WasmFile, env } from './env.js';
import { RequantError, invalidArgument, show } from './errors.js';
import { type Location, isNode, locate, readSource } from './source.js';

/** Which SIMD instructions a module uses. */
export type Variant = 'simd128' | 'relaxed';

// A module (text form below, assembled) that returns 0 when both relaxed dot products give the
// exact result for second operands of seven bits, as the specification promises for those
// (https://github.com/WebAssembly/relaxed-simd). Operands come from memory, so that no compiler
// computes the answer ahead. Does not validate where relaxed SIMD is missing.
//
//   a = 16 bytes at 0 (extremes of int8), b = 16 bytes at 16 (0..127)
//   want = i16x8: (a >> 8) * (b >> 8) + ((a << 8) >> 8) * ((b << 8) >> 8)
//   any(i16x8.relaxed_dot_i8x16_i7x16_s(a, b) != want) |
//   any(i32x4.relaxed_dot_i8x16_i7x16_add_s(a, b, a) != extadd_pairwise_s(want) + a)
const probe =
  'AGFzbQEAAAABBQFgAAF/AwIBAAUDAQABBwkBBXdyb25nAAAKawFpAQN7QQD9AAQAIQBBEP0ABAAhASAAQQj9jAEgAUEI' +
  '/YwB/ZUBIABBCP2LAUEI/YwBIAFBCP2LAUEI/YwB/ZUB/Y4BIQIgACAB/ZICIAL9Lv1TIAAgASAA/ZMCIAL9fiAA/a4B' +
  '/Tj9U3ILCysCAEEACxCAgH9/gH//AQCAAv6AgH9/AEEQCxB/f39/f39/f39/AwR/AH5/';

let relaxed: boolean | undefined;

/** Whether this JavaScript engine has relaxed SIMD and computes exactly with it. */
export function hasRelaxedSimd(): boolean {
  if (relaxed === undefined) {
    const bytes = Uint8Array.from(atob(probe), (letter) => letter.charCodeAt(0));
    relaxed = false;
    if (WebAssembly.validate(bytes)) {
      const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
      relaxed = (exports['wrong'] as () => number)() === 0;
    }
  }
  return relaxed;
}

/** The variant that env.wasm.simd asks for. */
export function chooseVariant(): Variant {
  if (typeof WebAssembly !== 'object') {
    throw new RequantError('UNSUPPORTED', 'this JavaScript engine has no WebAssembly');
  }
  const { simd } = env.wasm;
  switch (simd) {
    case 'auto':
      return hasRelaxedSimd() ? 'relaxed' : 'simd128';
    case 'simd128':
      return simd;
    case 'relaxed':
      if (hasRelaxedSimd()) return simd;
      throw new RequantError('UNSUPPORTED', 'this JavaScript engine has no relaxed SIMD', {
        value: 'env.wasm.simd',
        hint: "Use 'auto' or 'simd128'; Node 20 needs --experimental-wasm-relaxed-simd.",
      });
    default:
      throw invalidArgument(
        `env.wasm.simd is ${show(simd)}`,
        'env.wasm.simd',
        "Use 'auto', 'simd128' or 'relaxed'.",
      );
  }
}

async function wasmLocation(variant: Variant): Promise<Location> {
  const file: WasmFile = `requant-${variant}.wasm`;
  const paths = env.wasm.wasmPaths;
  if (typeof paths === 'string' || paths instanceof URL) return locate(`${paths}${file}`);
  const given = paths?.[file];
  if (given !== undefined) return locate(given);
  // Bundlers find the files by exactly this form.
  return locate(
    variant === 'relaxed'
      ? new URL('./requant-relaxed.wasm', import.meta.url)
      : new URL('./requant-simd128.wasm', import.meta.url),
  );
}

async function compile(variant: Variant): Promise<WebAssembly.Module> {
  const { wasmBinary } = env.wasm;
  if (wasmBinary) return WebAssembly.compile(wasmBinary as Uint8Array<ArrayBuffer>);
  const location = await wasmLocation(variant);
  if ('url' in location && typeof WebAssembly.compileStreaming === 'function') {
    // Streaming wants the right media type, which not every server sends: then the bytes are read.
    const response = await fetch(location.url).catch(() => undefined);
    if (response?.ok && response.headers.get('content-type')?.startsWith('application/wasm')) {
      return WebAssembly.compileStreaming(response);
    }
    if (response?.ok) return WebAssembly.compile(await response.arrayBuffer());
  }
  const { bytes } = await readSource(location);
  return WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>);
}

async function load(variant: Variant): Promise<Core> {
  try {
    const module = await compile(variant);
    return await new Promise<Core>((resolve, reject) => {
      createCore({
        instantiateWasm(imports, receive) {
          WebAssembly.instantiate(module, imports).then(
            (instance) => receive(instance, module),
            reject,
          );
          return {};
        },
        print: () => {},
        printErr: () => {},
      }).then(resolve, reject);
    });
  } catch (error) {
    if (error instanceof RequantError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new RequantError('LOAD_FAILED', `the wasm module requant-${variant}.wasm: ${why}`, {
      cause: error,
      hint: isNode
        ? 'Node 20 or newer is needed.'
        : "A Content-Security-Policy must allow 'wasm-unsafe-eval'; the browser needs SIMD and " +
          'exception handling of WebAssembly.',
    });
  }
}

const cores = new Map<Variant, Promise<Core>>();
const variants = new WeakMap<Core, Variant>();

/** The core of the variant that env asks for: loaded once; a failed load is tried again. */
export function loadCore(): Promise<Core> {
  let variant: Variant;
  try {
    variant = chooseVariant();
  } catch (error) {
    return Promise.reject(error as Error);
  }
  const known = cores.get(variant);
  if (known) return known;
  const loading = load(variant).then((core) => {
    variants.set(core, variant);
    return core;
  });
  cores.set(variant, loading);
  loading.catch(() => {
    if (cores.get(variant) === loading) cores.delete(variant);
  });
  return loading;
}

/** The variant of a loaded core. */
export function variantOf(core: Core): Variant {
  return variants.get(core) ?? 'simd128';
}

/** The next load makes a new core: for one that crashed. */
export function forgetCore(core: Core): void {
  cores.delete(variantOf(core));
}

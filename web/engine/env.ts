import type { WasmFile, WorkerFile } from '../own_files.js';

/** A wasm module: the bytes of its file, or compiled. */
export type WasmBinary = ArrayBuffer | Uint8Array | WebAssembly.Module;

/** Settings of the WebAssembly engine. */
export interface WasmEnv {
  /**
   * Which module to load. `'auto'` (default) takes the one with relaxed SIMD where the JavaScript engine has
   * it and computes exactly; `'simd128'` and `'relaxed'` force one. The setting is read at every load, so one
   * page can hold both; objects of different modules do not mix. With a compiled {@link wasmBinary} `'auto'`
   * means `'simd128'`: set the variant of the module yourself.
   */
  simd: 'auto' | 'simd128' | 'relaxed';
  /**
   * How many threads to compute with, the calling one included; `'auto'` (or 0) takes as many as the machine
   * has processors, at most 4. Default 1. The setting is read whenever a model is loaded. Threads need
   * `SharedArrayBuffer`, which Node always has and a browser has when the page is cross-origin isolated.
   * Without it there is one thread and a warning. The results are the same bits for any number.
   */
  numThreads?: number | 'auto';
  /**
   * Where the wasm modules are: a prefix (URL, or folder in Node), or a URL or path for each file.
   * Default: beside the package's JavaScript.
   */
  wasmPaths?: string | URL | Partial<Record<WasmFile, string | URL>>;
  /**
   * Where the scripts of Workers are: a prefix (URL, or folder in Node), or a URL or path for each file. They
   * may be of another origin than the page, which must send them with CORS headers. Default: beside the
   * package's JavaScript, or where the bundler put them.
   */
  workerPaths?: string | URL | Partial<Record<WorkerFile, string | URL>>;
  /** The wasm module for one thread, as bytes or compiled; it is then not fetched. */
  wasmBinary?: WasmBinary;
  /**
   * The file requant-operators.wasm (for one thread), as bytes or compiled. It is loaded when a model has one
   * of the extended operators or weights of few bits, and with the tools.
   */
  operatorsBinary?: WasmBinary;
  /**
   * The file requant-tools.wasm (for one thread), as bytes or compiled. It is loaded when a model is
   * quantized, compared or parsed from text.
   */
  toolsBinary?: WasmBinary;
  /**
   * The file requant-lowbits-simd128.wasm or requant-lowbits-relaxed.wasm (for one thread), as bytes or
   * compiled, whichever belongs to {@link wasmBinary}. It is loaded when a model has weights of few bits.
   */
  lowBitsBinary?: WasmBinary;
}

/** Settings of the whole package; change them before the first call that loads something. */
export interface Env {
  readonly wasm: WasmEnv;
}

/** Settings of the whole package, in the manner of onnxruntime-web. */
export const env: Env = { wasm: { simd: 'auto' } };

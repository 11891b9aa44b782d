/** Names of the package's wasm modules. */
export type WasmFile =
  | `requant-${'simd128' | 'relaxed' | 'operators' | 'tools'}${'' | '-threads'}.wasm`
  | `requant-lowbits-${'simd128' | 'relaxed'}${'' | '-threads'}.wasm`
  | `kernels-${'simd128' | 'relaxed'}-threads.wasm`;

/** Settings of the WebAssembly engine. */
export interface WasmEnv {
  /**
   * Which module to load. `'auto'` (default) takes the one with relaxed SIMD where the JavaScript
   * engine has it and computes exactly; `'simd128'` and `'relaxed'` force one. Read whenever
   * something is loaded, so one page can hold both; objects of different modules do not mix.
   */
  simd: 'auto' | 'simd128' | 'relaxed';
  /**
   * How many threads to compute with, the calling one included; `'auto'` (or 0): as many as the
   * machine has processors, at most 4. Default 1. Read whenever a model is loaded. Threads need
   * `SharedArrayBuffer`: in Node there always is one, in a browser when the page is cross-origin
   * isolated. Without it there is one thread and a warning. The results are the same bits for any
   * number.
   */
  numThreads?: number | 'auto';
  /**
   * Where the wasm modules are: a prefix (URL, or folder in Node), or a URL or path for each file.
   * Default: beside the package's JavaScript.
   */
  wasmPaths?: string | URL | Partial<Record<WasmFile, string | URL>>;
  /** The bytes of the wasm module (for one thread), which is not fetched then. */
  wasmBinary?: ArrayBuffer | Uint8Array;
  /**
   * The bytes of requant-operators.wasm (for one thread), which is loaded when a model has one of the rarer
   * operators or weights of few bits, and with the tools.
   */
  operatorsBinary?: ArrayBuffer | Uint8Array;
  /**
   * The bytes of requant-tools.wasm (for one thread), which is loaded when a model is quantized, compared or
   * parsed from text.
   */
  toolsBinary?: ArrayBuffer | Uint8Array;
}

/** Settings of the whole package; change them before the first call that loads something. */
export interface Env {
  readonly wasm: WasmEnv;
}

/** Settings of the whole package, in the manner of onnxruntime-web. */
export const env: Env = { wasm: { simd: 'auto' } };

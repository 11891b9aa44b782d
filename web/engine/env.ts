import { type LogLevel, logging } from '../base/log.js';
import { version } from '../base/version.js';
import type { WasmFile, WorkerFile } from '../own_files.js';

/** A wasm module: the bytes of its file, or compiled. */
export type WasmBinary = ArrayBuffer | Uint8Array | WebAssembly.Module;

/** Settings of the WebAssembly engine. */
export interface WasmEnv {
  /**
   * Which module to load. `'auto'` (default) takes the one with relaxed SIMD where the JavaScript engine has
   * it and computes exactly; `'simd128'` and `'relaxed'` force one. The setting is read at every load, so one
   * page can hold both; objects of different modules do not mix. With a compiled {@link wasmBinary} `'auto'`
   * means `'simd128'`: set the variant of the module yourself. Of onnxruntime-web's values, booleans mean
   * `'auto'` and `'fixed'` means `'simd128'`.
   */
  simd: 'auto' | 'simd128' | 'relaxed' | 'fixed' | boolean;
  /**
   * How many threads to compute with, the calling one included; `'auto'` (or 0) takes as many as the machine
   * has processors, at most 4. Default 1. The setting is read whenever a model is loaded. Threads need
   * `SharedArrayBuffer`, which Node always has and a browser has when the page is cross-origin isolated.
   * Without it there is one thread and a warning. The results are the same bits for any number.
   */
  numThreads?: number | 'auto';
  /**
   * Where the wasm modules are: a prefix (URL, or folder in Node), or a URL or path for each file.
   * Default: beside the package's JavaScript. Addresses of onnxruntime-web's files (a prefix with that name, or
   * the keys `wasm` and `mjs`) have no effect, with one warning.
   */
  wasmPaths?: string | URL | Partial<Record<WasmFile | 'wasm' | 'mjs', string | URL>>;
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
  /**
   * Whether sessions that are created from files live in a Worker, so that loading and running leave this
   * thread free, as in onnxruntime-web. Such sessions have what onnxruntime-web's have; their other methods
   * throw UNSUPPORTED. {@link createWorker} gives more.
   */
  proxy?: boolean;
  /** The most milliseconds that loading the engine may take, else LOAD_FAILED. Default 0: any time. */
  initTimeout?: number;
  /** A setting of onnxruntime-web, without meaning here. */
  trace?: boolean;
}

/** Settings of the whole package; change them before the first call that loads something. */
export interface Env {
  readonly wasm: WasmEnv;
  /** How serious a message must be to be written to the console. Default `'warning'`. */
  logLevel?: LogLevel | undefined;
  /** Whether to write what helps to find faults, such as what sessions were made of. Default false. */
  debug?: boolean | undefined;
  /** A setting of onnxruntime-web, without meaning here. */
  trace?: boolean;
  /**
   * `common`: the version of onnxruntime-web whose API this package follows; `requant`: the package's own. There
   * is no `web`, so that programs do not look for onnxruntime-web's files of that version.
   */
  readonly versions: { readonly common: string; readonly requant: string; readonly web?: string };
  /** Settings of onnxruntime-web's other backends, without meaning here. */
  readonly webgl: Record<string, unknown>;
  readonly webgpu: Record<string, unknown>;
}

/** Settings of the whole package, in the manner of onnxruntime-web. */
export const env: Env = {
  wasm: { simd: 'auto' },
  webgl: {},
  webgpu: {},
  versions: Object.freeze({ common: '1.30.0', requant: version }),
  get logLevel() {
    return logging.level;
  },
  set logLevel(value: LogLevel | undefined) {
    logging.level = value;
  },
  get debug() {
    return logging.debug;
  },
  set debug(value: boolean | undefined) {
    logging.debug = value;
  },
};

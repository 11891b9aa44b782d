// Loads the wasm core, once per variant, for one thread or for several. No other file knows the Emscripten
// glue.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { debug } from '../base/log.js';
import createCore, { type Core } from '../core.js';
import type { WasmFile } from '../own_files.js';
import { type WasmEnv, env } from './env.js';
import { compiled, isModule, moduleFailed, prefetch } from './modules.js';
import { hasRelaxedSimd } from './relaxed_simd.js';
import { KernelThreads, likelyThreads, resolveThreads, warnThreads } from './threads.js';

/** The SIMD instructions that a module uses. */
export type Variant = 'simd128' | 'relaxed';

/** The variant that env.wasm.simd asks for. */
export function variantFor(settings: WasmEnv): Variant {
  if (typeof WebAssembly !== 'object') {
    throw new RequantError('UNSUPPORTED', 'this JavaScript engine has no WebAssembly');
  }
  const { simd } = settings;
  switch (simd) {
    case 'auto':
    case true:
    case false:
      // Runtimes that supply compiled modules may not compile any, not even to probe for SIMD.
      if (isModule(settings.wasmBinary)) return 'simd128';
      return hasRelaxedSimd() ? 'relaxed' : 'simd128';
    case 'simd128':
    case 'fixed':
      return 'simd128';
    case 'relaxed':
      // A compiled module proves that there is relaxed SIMD.
      if (isModule(settings.wasmBinary) || hasRelaxedSimd()) return simd;
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

/** Caches the promise of a load; a failed load is tried again. */
function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () =>
    (loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    }));
}

/**
 * Loads the parts of a core that are loaded on demand: the extended operators, and the tools, which call them
 * (web/scripts/modules/share_functions.mjs). Their entries of the function table are empty until then.
 */
class Parts {
  /** Exports of the main module. */
  exports: WebAssembly.Exports = {};
  readonly #suffix: '' | '-threads';

  constructor(threaded: boolean) {
    this.#suffix = threaded ? '-threads' : '';
  }

  /** Whether one of these entries of the function table is still empty. */
  lack(functions: readonly number[]): boolean {
    const table = this.exports['__indirect_function_table'] as WebAssembly.Table;
    return functions.some((entry) => table.get(entry) === null);
  }

  readonly operators = once(async () => {
    const file: WasmFile = `requant-operators${this.#suffix}.wasm`;
    try {
      const module = await compiled(file);
      const { exports } = await this.#instantiate(module);
      this.#call('operators_loaded');
      this.#call('bind_state');
      return exports;
    } catch (error) {
      throw moduleFailed(file, error);
    }
  });

  readonly tools = once(async () => {
    const file: WasmFile = `requant-tools${this.#suffix}.wasm`;
    try {
      const [operators, module] = await Promise.all([this.operators(), compiled(file)]);
      await this.#instantiate(module, operators);
      this.#call('bind_tools');
    } catch (error) {
      throw moduleFailed(file, error);
    }
  });

  #instantiate(module: WebAssembly.Module, operators: WebAssembly.Exports = {}) {
    const table = this.exports['shared'] as WebAssembly.Table;
    const shared: WebAssembly.ModuleImports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      if (from === 'shared') shared[name] = table.get(Number(name)) as () => unknown;
    }
    return WebAssembly.instantiate(module, { core: this.exports, shared, operators });
  }

  #call(name: string) {
    (this.exports[name] as () => void)();
  }
}

type Kernel = (...parameters: number[]) => number;

/** The kernels for few bits: a module of their own on the core's memory, loaded when it is needed. */
class LowBits {
  /** Imports of the main module. A kernel computes a layer, so the indirection costs nothing. */
  readonly imports: Record<string, Kernel> = {};
  #kernels: WebAssembly.Exports | undefined;

  constructor(main: WebAssembly.Module) {
    for (const { module, name } of WebAssembly.Module.imports(main)) {
      if (module !== 'low_bits') continue;
      this.imports[name] = (...parameters) => {
        if (!this.#kernels) throw new Error('requant-lowbits.wasm is not loaded');
        return (this.#kernels[name] as Kernel)(...parameters);
      };
    }
    this.imports['rq_low_bits_loaded'] = () => (this.#kernels ? 1 : 0);
  }

  async load(file: WasmFile, memory: WebAssembly.ExportValue | undefined): Promise<void> {
    try {
      const module = await compiled(file);
      const { exports } = await WebAssembly.instantiate(module, {
        core: { memory: memory as WebAssembly.Memory },
      });
      this.#kernels = exports;
    } catch (error) {
      throw moduleFailed(file, error);
    }
  }
}

// Imports of a core for one thread, which it never calls.
const noThreads = { rq_post: () => {}, rq_finish: () => 1 };

async function load(
  variant: Variant,
  threads: KernelThreads | undefined,
): Promise<Omit<Engine, 'key' | 'threads'> & { core: Core }> {
  const file: WasmFile = threads ? `requant-${variant}-threads.wasm` : `requant-${variant}.wasm`;
  try {
    const module = await compiled(file);
    const parts = new Parts(threads !== undefined);
    const lowBits = new LowBits(module);
    const core = await new Promise<Core>((resolve, reject) => {
      createCore({
        instantiateWasm(imports, receive) {
          const all: WebAssembly.Imports = {
            ...imports,
            threads: threads?.imports ?? noThreads,
            low_bits: lowBits.imports,
          };
          if (threads) all['env'] = { ...imports['env'], memory: threads.memory };
          WebAssembly.instantiate(module, all).then((instance) => {
            parts.exports = threads
              ? { ...instance.exports, memory: threads.memory }
              : instance.exports;
            receive(instance, module);
          }, reject);
          return {};
        },
        print: () => {},
        printErr: () => {},
      }).then(resolve, reject);
    });
    const kernels: WasmFile = `requant-lowbits-${variant}${threads ? '-threads' : ''}.wasm`;
    const loadLowBits = once(() => lowBits.load(kernels, parts.exports['memory']));
    return { core, variant, parts, loadLowBits };
  } catch (error) {
    throw moduleFailed(file, error);
  }
}

/** Fails when loading takes longer than env.wasm.initTimeout. */
async function inTime<T>(loading: Promise<T>): Promise<T> {
  const { initTimeout = 0 } = env.wasm;
  const name = 'env.wasm.initTimeout';
  if (typeof initTimeout !== 'number' || !(initTimeout >= 0)) {
    throw invalidArgument(`${name} is ${show(initTimeout)}`, name, 'Give milliseconds, or 0.');
  }
  if (initTimeout === 0) return loading;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const why = `the engine did not load within ${initTimeout} ms`;
      reject(
        new RequantError('LOAD_FAILED', why, { value: name, hint: 'Try again, or raise it.' }),
      );
    }, initTimeout);
  });
  return Promise.race([loading, late]).finally(() => clearTimeout(timer));
}

interface Engine {
  key: string;
  variant: Variant;
  threads: KernelThreads | undefined;
  parts: Parts;
  loadLowBits: () => Promise<void>;
}

const cores = new Map<string, Promise<Core>>();
/** What users have added to all cores: functions that add it to one whose tools are loaded. */
const additions = new Map<string, (core: Core) => void>();
const engines = new WeakMap<Core, Engine>();

function loadOnce(variant: Variant, threaded: boolean): Promise<Core> {
  const key = threaded ? `${variant}-threads` : variant;
  const known = cores.get(key);
  if (known) return known;
  const start = async () => {
    const kernels: WasmFile = `kernels-${variant}-threads.wasm`;
    if (threaded) prefetch([kernels]);
    const threads = threaded ? new KernelThreads(() => compiled(kernels)) : undefined;
    const { core, ...loaded } = await inTime(load(variant, threads));
    debug(() => `loaded the engine ${key}`);
    engines.set(core, { key, threads, ...loaded });
    if (additions.size > 0) await loaded.parts.tools();
    for (const add of additions.values()) add(core);
    return core;
  };
  const loading = start();
  cores.set(key, loading);
  loading.catch(() => {
    if (cores.get(key) === loading) cores.delete(key);
  });
  return loading;
}

/**
 * The core of the variant that env asks for, for so many threads (numThreads of options; default env's). It
 * is loaded once; a failed load is tried again. Where the core for threads cannot be loaded, it warns and
 * loads the core for a single thread.
 */
export async function loadCore(numThreads?: unknown): Promise<Core> {
  const variant = variantFor(env.wasm);
  const wanted = await resolveThreads(numThreads);
  if (wanted > 1) {
    try {
      const core = await loadOnce(variant, true);
      await engines.get(core)?.threads?.use(core, wanted);
      return core;
    } catch (error) {
      warnThreads(error instanceof Error ? error.message : String(error));
    }
  }
  return loadOnce(variant, false);
}

/** Adds something of the user's to all cores, those included that are loaded later. */
export async function addToCores(key: string, add: (core: Core) => void): Promise<void> {
  await loadCore();
  const loaded = await Promise.all(cores.values());
  await Promise.all(loaded.map((core) => loadTools(core)));
  for (const core of loaded) add(core);
  additions.set(key, add);
}

/** Takes it out of all cores again; returns whether it was there. */
export function removeFromCores(key: string, remove: (core: Core) => void): boolean {
  if (!additions.delete(key)) return false;
  for (const core of cores.values()) {
    core.then(remove, () => {});
  }
  return true;
}

/** Begins to fetch and compile the module that loadCore() will load by these settings. */
export async function prefetchMain(settings: WasmEnv): Promise<void> {
  try {
    const variant = variantFor(settings);
    const threaded = (await likelyThreads(settings.numThreads)) > 1;
    prefetch(
      threaded
        ? [`requant-${variant}-threads.wasm`, `kernels-${variant}-threads.wasm`]
        : [`requant-${variant}.wasm`],
      settings,
    );
  } catch {
    // loadCore() reports the error.
  }
}

/** Parts of the engine that not every model needs. */
export type EnginePart = 'operators' | 'tools' | 'lowBits';

/** Begins to fetch and compile these parts, for a core with so many threads (default: env's). */
export async function prefetchParts(
  parts: readonly EnginePart[],
  numThreads: unknown = env.wasm.numThreads,
): Promise<void> {
  try {
    const variant = variantFor(env.wasm);
    const suffix = (await likelyThreads(numThreads)) > 1 ? '-threads' : '';
    // The tools call the operators, and those pack weights for the kernels for few bits.
    const files = new Set<WasmFile>(parts.length > 0 ? [`requant-operators${suffix}.wasm`] : []);
    if (parts.includes('tools')) files.add(`requant-tools${suffix}.wasm`);
    if (parts.includes('lowBits')) files.add(`requant-lowbits-${variant}${suffix}.wasm`);
    // The main module comes first: on a slow line the parts would delay it.
    await compiled(`requant-${variant}${suffix}.wasm`);
    prefetch([...files]);
  } catch {
    // The later load reports the error.
  }
}

/** The number of threads that a core has by now. */
export function threadsOf(core: Core): number {
  return engines.get(core)?.threads?.count ?? 1;
}

/**
 * The number of threads that a session uses for this option: by default all of its core; missing ones are
 * started. Warns when the core is for a single thread.
 */
export async function sessionThreads(core: Core, numThreads: unknown): Promise<number> {
  if (numThreads === undefined) return threadsOf(core);
  const wanted = await resolveThreads(numThreads);
  if (wanted === 1) return 1;
  const threads = engines.get(core)?.threads;
  if (threads) return threads.use(core, wanted);
  if (typeof numThreads === 'number' && numThreads > 1) {
    warnThreads(
      'the model was loaded for one thread. Set numThreads when it is loaded, or env.wasm.numThreads',
    );
  }
  return 1;
}

/**
 * Loads the extended operators of a core, once. Given the `functions` of a model's operators (entries of the
 * function table), it loads them only if one is missing.
 */
export async function loadOperators(core: Core, functions?: readonly number[]): Promise<void> {
  const parts = engines.get(core)?.parts;
  if (functions === undefined || parts?.lack(functions)) await parts?.operators();
}

/** Loads the tools of a core, once, and the extended operators, which they call. */
export async function loadTools(core: Core): Promise<void> {
  await engines.get(core)?.parts.tools();
}

/**
 * Loads the kernels for few bits of a core, once, and the extended operators, which pack weights for them (a
 * saved plan has packed weights).
 */
export async function loadLowBits(core: Core, packing = true): Promise<void> {
  await Promise.all([packing ? loadOperators(core) : undefined, engines.get(core)?.loadLowBits()]);
}

/** Begins to fetch and compile the module that loadLowBits() will load. */
export function prefetchLowBits(core: Core): void {
  const engine = engines.get(core);
  if (!engine) return;
  const suffix = engine.threads ? '-threads' : '';
  prefetch([`requant-lowbits-${engine.variant}${suffix}.wasm`, `requant-operators${suffix}.wasm`]);
}

/** The variant of a loaded core. */
export function variantOf(core: Core): Variant {
  return engines.get(core)?.variant ?? 'simd128';
}

/** Makes the next load create a new core, after this one crashed. */
export function forgetCore(core: Core): void {
  const engine = engines.get(core);
  if (!engine) return;
  cores.delete(engine.key);
  engine.threads?.terminate();
}

// Locates the package's files that are not imported: wasm modules, scripts of workers.

import { RequantError } from './base/errors.js';
import { importNode, isNode } from './base/host.js';
import { type Location, locate } from './base/source.js';

/** Names of the package's wasm modules. */
export type WasmFile =
  | `requant-${'simd128' | 'relaxed' | 'operators' | 'tools'}${'' | '-threads'}.wasm`
  | `requant-lowbits-${'simd128' | 'relaxed'}${'' | '-threads'}.wasm`
  | `kernels-${'simd128' | 'relaxed'}-threads.wasm`;

/** Names of the scripts that run in Workers: that of {@link createWorker}, and that of threads. */
export type WorkerFile = 'worker_main.js' | 'kernel_worker.js';

/** The locations of the wasm modules. Bundlers find the files by exactly this form. */
export const wasmFiles: Record<WasmFile, () => URL> = {
  'requant-simd128.wasm': () => new URL('./requant-simd128.wasm', import.meta.url),
  'requant-relaxed.wasm': () => new URL('./requant-relaxed.wasm', import.meta.url),
  'requant-operators.wasm': () => new URL('./requant-operators.wasm', import.meta.url),
  'requant-operators-threads.wasm': () =>
    new URL('./requant-operators-threads.wasm', import.meta.url),
  'requant-tools.wasm': () => new URL('./requant-tools.wasm', import.meta.url),
  'requant-tools-threads.wasm': () => new URL('./requant-tools-threads.wasm', import.meta.url),
  'requant-simd128-threads.wasm': () => new URL('./requant-simd128-threads.wasm', import.meta.url),
  'requant-relaxed-threads.wasm': () => new URL('./requant-relaxed-threads.wasm', import.meta.url),
  'requant-lowbits-simd128.wasm': () => new URL('./requant-lowbits-simd128.wasm', import.meta.url),
  'requant-lowbits-relaxed.wasm': () => new URL('./requant-lowbits-relaxed.wasm', import.meta.url),
  'requant-lowbits-simd128-threads.wasm': () =>
    new URL('./requant-lowbits-simd128-threads.wasm', import.meta.url),
  'requant-lowbits-relaxed-threads.wasm': () =>
    new URL('./requant-lowbits-relaxed-threads.wasm', import.meta.url),
  'kernels-simd128-threads.wasm': () => new URL('./kernels-simd128-threads.wasm', import.meta.url),
  'kernels-relaxed-threads.wasm': () => new URL('./kernels-relaxed-threads.wasm', import.meta.url),
};

/** The script of a Worker, as the file beside it describes it. */
export interface WorkerScript {
  file: WorkerFile;
  /** import.meta.url of the file that starts the script, and that file's name. */
  from: string;
  name: string;
  /**
   * Starts the script in the form by which bundlers find it; the file that contains this form lies beside the
   * script.
   */
  bundled: () => Worker;
}

/** The location of the package's JavaScript; missing where a bundler made a CommonJS file of it. */
const here: string | undefined = import.meta.url;

/**
 * The location of a file of the package. In a page it is where the bundler put it, which `bundled` expresses
 * in the form that bundlers know. In Node that may be the address that pages have it at (Next.js), or a file
 * beside a bundle that nobody copied; then it is the file beside the package's JavaScript, or in the
 * installed package.
 *
 * @throws RequantError LOAD_FAILED when it is in none of these places (Node).
 */
export async function locateOwn(file: string, bundled?: () => URL): Promise<Location> {
  if (!isNode && bundled) return locate(bundled());
  const { access } = await importNode<typeof import('node:fs/promises')>('fs/promises');
  const tried: string[] = [];
  for (const place of [bundled, () => besideHere(file), () => installed(file)]) {
    let location: Location;
    try {
      if (!place) continue;
      location = await locate(await place());
    } catch {
      continue; // the location does not exist
    }
    // A URL on the network is taken without a check.
    if ('url' in location) return location;
    try {
      await access(location.path);
      return location;
    } catch {
      tried.push(location.path);
    }
  }
  throw new RequantError('LOAD_FAILED', `${file} is not there: ${tried.join(', ')}`, {
    value: file,
    hint:
      'The package must be installed where the program runs, and its bundler had better leave it out ' +
      "(Next.js: serverExternalPackages: ['requant']). For wasm files there is env.wasm.wasmPaths.",
  });
}

/** Not in the form that bundlers know, since those for the browser would pack the file twice. */
function besideHere(file: string): URL {
  return new URL(here!.replace(/[^/]*$/, file));
}

async function installed(file: string): Promise<URL> {
  const { createRequire } = await importNode<typeof import('node:module')>('module');
  const { cwd } = await importNode<typeof import('node:process')>('process');
  const { pathToFileURL } = await importNode<typeof import('node:url')>('url');
  return pathToFileURL(createRequire(`${cwd()}/`).resolve(`requant/dist/${file}`));
}

/** The script of a worker in Node. */
export async function ownScript(file: string): Promise<URL> {
  const location = await locateOwn(file);
  if ('url' in location) return new URL(location.url);
  const { pathToFileURL } = await importNode<typeof import('node:url')>('url');
  return pathToFileURL(location.path);
}

// Starts the scripts of this package in Workers of browsers and of Node, wherever the scripts are.

import { RequantError } from '../base/errors.js';
import { importNode, isNode } from '../base/host.js';
import { locate } from '../base/source.js';
import { type WorkerFile, type WorkerScript, ownScript } from '../own_files.js';
import { env } from './env.js';

/** A started worker of either kind. */
export interface WorkerPort {
  /** @throws What the platform throws for a message that cannot be copied. */
  post(message: unknown): void;
  /** Whether the process should stay alive for the worker (Node). */
  hold(busy: boolean): void;
  terminate(): Promise<void>;
}

/** Callbacks for what a worker sends. */
export interface WorkerHandlers<T> {
  message(message: T): void;
  /** The worker could not be started, or ended by itself. */
  failed(why: string, cause?: unknown): void;
}

/** The location that env.wasm.workerPaths gives for the script. */
function given(file: WorkerFile): string | URL | undefined {
  const paths = env.wasm.workerPaths;
  return typeof paths === 'string' || paths instanceof URL ? `${paths}${file}` : paths?.[file];
}

// Blob URLs of importing scripts. They are small and serve every further worker, so they are never revoked.
const importers = new Map<string, string>();

/** The address of a script of this origin that imports one of another origin. */
function importer(url: string): string {
  let made = importers.get(url);
  if (made === undefined) {
    const script = `import ${JSON.stringify(url)};\n`;
    made = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
    importers.set(url, made);
  }
  return made;
}

/** Whether a Worker of this page can be started from that address. */
function isOwn(url: string): boolean {
  return new URL(url).origin === globalThis.origin || /^(blob|data):/.test(url);
}

function startInPage({ file, from, name, bundled }: WorkerScript): Worker {
  const options: WorkerOptions = { type: 'module' };
  const address = given(file);
  if (address !== undefined) {
    const base = typeof document === 'object' ? document.baseURI : globalThis.location.href;
    const url = new URL(address, base).href;
    return new Worker(isOwn(url) ? url : importer(url), options);
  }
  // The package was imported from another origin unchanged; bundlers would have made other files of it.
  if (/^https?:/.test(from) && new URL(from).pathname.endsWith(`/${name}`) && !isOwn(from)) {
    return new Worker(importer(new URL(file, from).href), options);
  }
  return bundled();
}

async function addressInNode(file: WorkerFile): Promise<URL> {
  const address = given(file);
  if (address === undefined) return ownScript(file);
  const location = await locate(address);
  if ('url' in location) {
    throw new RequantError('LOAD_FAILED', `Node cannot start a worker from ${location.url}`, {
      value: 'env.wasm.workerPaths',
      hint: 'Give a path or a file: URL.',
    });
  }
  const { pathToFileURL } = await importNode<typeof import('node:url')>('url');
  return pathToFileURL(location.path);
}

/**
 * Starts a worker. Later errors go to `handlers`.
 *
 * @throws What the platform throws, and RequantError LOAD_FAILED.
 */
export async function startWorker<T>(
  script: WorkerScript,
  handlers: WorkerHandlers<T>,
): Promise<WorkerPort> {
  if (isNode) {
    const { Worker: NodeWorker } =
      await importNode<typeof import('node:worker_threads')>('worker_threads');
    const url = await addressInNode(script.file);
    // Some of the process's own options, such as --input-type, cannot be combined with a file.
    const worker = new NodeWorker(url, { execArgv: [] });
    worker.on('message', (message: T) => handlers.message(message));
    worker.on('error', (error) => handlers.failed((error as Error).message, error));
    worker.on('exit', (code) => handlers.failed(`it ended with ${code}`));
    return {
      post: (message) => worker.postMessage(message),
      hold: (busy) => (busy ? worker.ref() : worker.unref()),
      terminate: async () => {
        await worker.terminate();
      },
    };
  }
  const worker = startInPage(script);
  worker.onmessage = (event: MessageEvent<T>) => handlers.message(event.data);
  worker.onerror = (event) => handlers.failed(event.message || 'its script could not be loaded');
  worker.onmessageerror = () => handlers.failed('a message could not be read');
  return {
    post: (message) => worker.postMessage(message),
    hold: () => {},
    terminate: () => {
      worker.terminate();
      return Promise.resolve();
    },
  };
}

/** The remedy when a worker does not start. */
export const workerHint = isNode
  ? "The package's files must lie together, or env.wasm.workerPaths must say where its workers' scripts are."
  : "The workers' scripts must be where the package's JavaScript is, or where env.wasm.workerPaths says; of " +
    'another origin, their server must send Access-Control-Allow-Origin, and a Content-Security-Policy must ' +
    'have worker-src blob: and that origin, which script-src must have as well.';

// The threads of the engine: how many are wanted, whether they are possible, and their workers.

import { invalidArgument, show } from '../base/errors.js';
import { warnOnce } from '../base/log.js';
import { importNode, isNode } from '../base/host.js';
import type { Core } from '../core.js';
import { kernelWorker } from '../kernel_worker_script.js';
import { env } from './env.js';
import type { KernelAnswer, KernelJob } from './kernel_thread.js';
import { MAILBOX_BYTES, Mailbox } from './mailbox.js';
import { type WorkerPort, startWorker, workerHint } from './start_worker.js';

/** The core divides a step among at most so many threads (kMaxThreads of src/base/parallel.h). */
const MOST_THREADS = 16;
/** The most threads that 'auto' takes: more rarely help with one image at a time. */
const MOST_AUTO_THREADS = 4;

/** Warns once that there will be fewer threads than asked for. */
export function warnThreads(why: string): void {
  warnOnce(`runs on one thread: ${why}`);
}

/** The reason why threads are impossible here; undefined when they are possible. */
function threadsMissing(): string | undefined {
  if (!isNode && globalThis.crossOriginIsolated !== true) {
    return (
      'the page is not cross-origin isolated. Its server must send the headers ' +
      'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp'
    );
  }
  if (typeof SharedArrayBuffer !== 'function') return 'there is no SharedArrayBuffer';
  if (env.wasm.wasmBinary) return 'env.wasm.wasmBinary is a module for one thread';
  return undefined;
}

async function processors(): Promise<number> {
  if (isNode) return (await importNode<typeof import('node:os')>('os')).availableParallelism();
  return navigator.hardwareConcurrency || 1;
}

/** The number of threads that the option will probably give; problems are reported elsewhere. */
export async function likelyThreads(option: unknown): Promise<number> {
  if (option === undefined || option === 1 || threadsMissing() !== undefined) return 1;
  return option === 'auto' || option === 0
    ? Math.min(MOST_AUTO_THREADS, await processors())
    : Math.min(Number(option), MOST_THREADS);
}

/**
 * The number of threads to use for this option (default: env.wasm.numThreads); one, with a warning, where
 * more are impossible.
 */
export async function resolveThreads(
  option: unknown,
  name = 'options.numThreads',
): Promise<number> {
  if (option === undefined) {
    return resolveThreads(env.wasm.numThreads ?? 1, 'env.wasm.numThreads');
  }
  // onnxruntime-web spells 'auto' as 0.
  const auto = option === 'auto' || option === 0;
  if (!auto && !(typeof option === 'number' && Number.isSafeInteger(option) && option > 0)) {
    throw invalidArgument(`${name} is ${show(option)}`, name, "Use a positive integer or 'auto'.");
  }
  const missing = option === 1 ? undefined : threadsMissing();
  if (missing !== undefined && !auto) warnThreads(missing);
  return likelyThreads(option);
}

/** Memory that threads share. Some browsers cannot reserve the largest size. */
export function sharedMemory(): WebAssembly.Memory {
  // web/scripts/modules/share_memory.mjs declares the same number of pages in the modules.
  const initial = 256;
  for (let maximum = 65536; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) {
      if (maximum <= 4096) throw error;
    }
  }
}

/** Starts a thread; resolves when it can take work. */
async function startThread(job: KernelJob): Promise<WorkerPort> {
  let settle: (error?: Error) => void;
  const ready = new Promise<void>((resolve, reject) => {
    settle = (error) => (error ? reject(error) : resolve());
  });
  // Nobody may be waiting for it.
  ready.catch(() => {});
  const thread = await startWorker<KernelAnswer>(kernelWorker, {
    message: (message) => settle('error' in message ? new Error(message.error) : undefined),
    failed: (why) => settle(new Error(why)),
  });
  thread.post(job);
  try {
    await ready;
  } catch (error) {
    await thread.terminate();
    throw error;
  }
  // The thread waits for work for ever, which must not keep the process alive.
  thread.hold(false);
  return thread;
}

/** The threads of one core beside the calling one. They are started when first wanted and then kept. */
export class KernelThreads {
  readonly memory = sharedMemory();
  readonly #buffer = new SharedArrayBuffer((MOST_THREADS - 1) * MAILBOX_BYTES);
  readonly #mailboxes = Array.from(
    { length: MOST_THREADS - 1 },
    (_, index) => new Mailbox(this.#buffer, index),
  );
  readonly #compile: () => Promise<WebAssembly.Module>;
  #module: Promise<WebAssembly.Module> | undefined;
  readonly #threads: WorkerPort[] = [];
  #starting: Promise<void> = Promise.resolve();

  /** @param compile Compiles the module that has only the kernels. */
  constructor(compile: () => Promise<WebAssembly.Module>) {
    this.#compile = compile;
  }

  /** Imports of the core (bindings/threads.cpp). */
  readonly imports = {
    rq_post: (part: number, kernel: number, params: number): void =>
      this.#mailboxes[part - 1]!.post(kernel, params),
    rq_finish: (part: number): number => (this.#mailboxes[part - 1]!.finish() ? 0 : 1),
  };

  /** The number of threads so far, the caller included. */
  get count(): number {
    return this.#threads.length + 1;
  }

  /** Starts threads until there are `wanted`; returns how many there are. */
  async use(core: Core, wanted: number): Promise<number> {
    // Starts run one after another, so that each counts the threads of those before it.
    this.#starting = this.#starting.then(() => this.#start(core, wanted));
    await this.#starting;
    return Math.min(wanted, this.count);
  }

  async #start(core: Core, wanted: number): Promise<void> {
    const have = this.#threads.length;
    if (wanted <= have + 1) return;
    try {
      this.#module ??= this.#compile();
      const module = await this.#module;
      const kernels = core.threadKernels().split(' ');
      const jobs = Array.from({ length: wanted - 1 - have }, (_, index) => ({
        module,
        memory: this.memory,
        mailboxes: this.#buffer,
        index: have + index,
        kernels,
      }));
      const started = await Promise.allSettled(jobs.map((job) => startThread(job)));
      // The mailboxes in use must be the first ones.
      let failed: unknown;
      for (const result of started) {
        if (result.status === 'rejected') failed ??= result.reason;
        else if (failed === undefined) this.#threads.push(result.value);
        else void result.value.terminate();
      }
      core.useThreads(this.count);
      if (failed !== undefined) throw failed;
    } catch (error) {
      this.#module = undefined;
      const why = error instanceof Error ? error.message : String(error);
      const hint = (error as { hint?: string }).hint ?? workerHint;
      warnThreads(`threads could not be started (${why}). ${hint}`);
    }
  }

  /** Ends the threads of a core that nobody will call again. */
  terminate(): void {
    for (const thread of this.#threads.splice(0)) void thread.terminate();
  }
}

// A thread of the engine: it has only the kernels, on the memory of the core that started it.

import { importNode, isNode } from '../base/host.js';
import { serveMailbox } from './mailbox.js';

/** The first message to the thread. */
export interface KernelJob {
  /** dist/kernels-VARIANT-threads.wasm */
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  mailboxes: SharedArrayBuffer;
  /** Index of the thread's mailbox. */
  index: number;
  /** Names of exports, in the order of the numbers in mailboxes. */
  kernels: readonly string[];
}

/** The thread's only answer. */
export type KernelAnswer = { ready: true } | { error: string };

async function begin(job: KernelJob, answer: (message: KernelAnswer) => void): Promise<void> {
  try {
    const { exports } = await WebAssembly.instantiate(job.module, {
      core: { memory: job.memory },
    });
    const kernels = job.kernels.map((name) => {
      const kernel = exports[name];
      if (typeof kernel !== 'function') throw new Error(`the kernel ${name} is missing`);
      return kernel as (params: number) => void;
    });
    answer({ ready: true });
    // The answer must leave first, since this call never returns.
    setTimeout(() => serveMailbox(job.mailboxes, job.index, kernels), 0);
  } catch (error) {
    answer({ error: error instanceof Error ? error.message : String(error) });
  }
}

/** Waits for the job with which the thread is started. */
export async function startKernelThread(): Promise<void> {
  if (isNode) {
    const { parentPort } = await importNode<typeof import('node:worker_threads')>('worker_threads');
    if (!parentPort) throw new Error('kernel_worker runs in a worker only');
    parentPort.once('message', (job: KernelJob) => {
      void begin(job, (message) => parentPort.postMessage(message));
    });
    return;
  }
  const scope = globalThis as unknown as {
    postMessage(message: unknown): void;
    onmessage: (event: MessageEvent<KernelJob>) => void;
  };
  scope.onmessage = (event) => void begin(event.data, (message) => scope.postMessage(message));
}

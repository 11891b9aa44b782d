// The near end of a worker: starts it, sends calls and settles their promises.

import { abortError } from '../base/abort.js';
import { RequantError } from '../base/errors.js';
import type { ModuleProvider } from '../engine/modules.js';
import { type WorkerPort, startWorker, workerHint } from '../engine/start_worker.js';
import type { WasmFile } from '../own_files.js';
import { mainWorker } from '../worker_main_script.js';
import { type Response, packError, unpackError } from './worker_protocol.js';

/** The error for a worker that does not start. */
function notStarted(why: string, cause: unknown): RequantError {
  const hint = (cause instanceof RequantError && cause.hint) || workerHint;
  return new RequantError('LOAD_FAILED', `the worker cannot be started: ${why}`, { cause, hint });
}

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  signal: AbortSignal | undefined;
  onAbort: () => void;
  onProgress: ((value: never) => void) | undefined;
  next: (() => Promise<{ done: boolean; value?: unknown }>) | undefined;
  close: (() => void) | undefined;
  answer: CallExtras['answer'];
  /** As in {@link CallExtras}. */
  uses: readonly object[];
}

export interface CallExtras {
  signal?: AbortSignal | undefined;
  onProgress?: ((value: never) => void) | undefined;
  /** An iterable that the worker reads, and how to send an item. */
  source?: Iterable<unknown> | AsyncIterable<unknown>;
  pack?: (item: never) => unknown;
  /** Calls a function of the caller for the worker. */
  answer?: ((name: string, args: never) => unknown) | undefined;
  /** Objects that must not be forgotten while the call runs. */
  uses?: readonly object[];
}

/** Calls to a worker. Each has an id, may report progress, read an iterable of ours, and be aborted. */
export class Connection {
  #port: WorkerPort | undefined;
  #closed: RequantError | undefined;
  #lastId = 0;
  readonly #calls = new Map<number, PendingCall>();
  #ready: () => void = () => {};
  #notReady: (error: RequantError) => void = () => {};
  readonly #modules: ModuleProvider;

  /** @param modules Gives the worker modules that are compiled here. */
  constructor(modules: ModuleProvider) {
    this.#modules = modules;
  }

  async open(): Promise<void> {
    const ready = new Promise<void>((resolve, reject) => {
      this.#ready = resolve;
      this.#notReady = reject;
    });
    let started = false;
    const failed = (why: string, cause?: unknown) =>
      started
        ? new RequantError('INTERNAL', `the worker failed: ${why}`, { cause })
        : notStarted(why, cause);
    const open = async () => {
      try {
        this.#port = await startWorker<Response>(mainWorker, {
          message: (response) => this.#receive(response),
          failed: (why, cause) => this.#close(failed(why, cause)),
        });
      } catch (error) {
        throw failed((error as Error).message, error);
      }
    };
    await Promise.all([open(), ready]);
    started = true;
    this.#port?.hold(false);
  }

  call<T>(method: string, args: unknown[], extras: CallExtras = {}): Promise<T> {
    const { signal, onProgress, source, pack, answer, uses = [] } = extras;
    if (this.#closed) return Promise.reject(this.#closed);
    if (signal?.aborted) return Promise.reject(abortError(signal));
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise<T>((resolve, reject) => {
      const onAbort = () => this.#abandon(id, abortError(signal!));
      const iterator = source && iterate(source);
      this.#calls.set(id, {
        resolve: resolve as (value: unknown) => void,
        reject,
        signal,
        onAbort,
        onProgress,
        next:
          iterator &&
          (async () => {
            const step = await iterator.next();
            if (step.done) return { done: true };
            return { done: false, value: pack ? pack(step.value as never) : step.value };
          }),
        uses,
        answer,
        close: iterator && (() => void Promise.resolve(iterator.return?.()).catch(() => {})),
      });
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#port?.hold(true);
      try {
        this.#port?.post({ kind: 'call', id, method, args });
      } catch (error) {
        // An argument, such as a function, cannot be copied.
        this.#settle(id)?.reject(
          new RequantError('INVALID_ARGUMENT', (error as Error).message, { cause: error }),
        );
      }
    });
  }

  async terminate(): Promise<void> {
    this.#close(new RequantError('DISPOSED', 'the worker was terminated'));
    await this.#port?.terminate();
  }

  #settle(id: number): PendingCall | undefined {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    call?.signal?.removeEventListener('abort', call.onAbort);
    // The iterable is closed even if it was read to its end: a generator may have files to close.
    call?.close?.();
    if (this.#calls.size === 0) this.#port?.hold(false);
    return call;
  }

  /** Fails the call now, since the worker may be too busy to hear of it for a while. */
  #abandon(id: number, error: unknown): void {
    this.#port?.post({ kind: 'abort', id });
    this.#settle(id)?.reject(error);
  }

  #report(id: number, call: PendingCall, value: unknown): void {
    try {
      call.onProgress?.(value as never);
    } catch (error) {
      this.#abandon(id, error);
    }
  }

  #receive(response: Response): void {
    if (response.kind === 'ready') {
      this.#ready();
      return;
    }
    if (response.kind === 'module') {
      void this.#sendModule(response.file);
      return;
    }
    const { id, kind } = response;
    const call = this.#calls.get(id);
    if (!call) {
      // The result of an abandoned call that ran to its end is disposed of.
      const ref = kind === 'result' && (response.value as { ref?: number } | undefined)?.ref;
      if (ref) this.call('dispose', [ref]).catch(() => {});
    } else if (kind === 'progress') this.#report(id, call, response.value);
    else if (kind === 'pull') void this.#send(id, call);
    else if (kind === 'ask') void this.#answer(response, call);
    else if (kind === 'result') this.#settle(id)?.resolve(response.value);
    else this.#settle(id)?.reject(unpackError(response.error));
  }

  async #send(id: number, call: PendingCall): Promise<void> {
    try {
      const item = await call.next!();
      if (this.#calls.has(id)) this.#port?.post({ kind: 'item', id, ...item });
    } catch (error) {
      // The caller gets the very error of its iterable; the worker stops reading.
      this.#port?.post({ kind: 'failed', id, error: packError(error) });
      this.#settle(id)?.reject(error);
    }
  }

  async #answer(
    { id, question, name, args }: Response & { kind: 'ask' },
    call: PendingCall,
  ): Promise<void> {
    try {
      const value = await call.answer!(name, args as never);
      if (this.#calls.has(id)) this.#port?.post({ kind: 'answer', id, question, value });
    } catch (error) {
      // The caller gets the very error of its function; the worker stops.
      this.#port?.post({ kind: 'answer', id, question, error: packError(error) });
      this.#settle(id)?.reject(error);
    }
  }

  async #sendModule(file: WasmFile): Promise<void> {
    const answer = { kind: 'module', file } as const;
    try {
      this.#port?.post({ ...answer, module: await this.#modules(file) });
    } catch (error) {
      this.#port?.post({ ...answer, error: packError(error) });
    }
  }

  #close(error: RequantError): void {
    this.#closed ??= error;
    this.#notReady(this.#closed);
    for (const id of [...this.#calls.keys()]) {
      this.#settle(id)?.reject(this.#closed);
    }
  }
}

function iterate(
  source: Iterable<unknown> | AsyncIterable<unknown>,
): Iterator<unknown> | AsyncIterator<unknown> {
  return Symbol.asyncIterator in source
    ? source[Symbol.asyncIterator]()
    : source[Symbol.iterator]();
}

// The near end of a worker: starts it, sends calls and settles their promises.

import { abortError } from './abort.js';
import { RequantError } from './errors.js';
import { ownScript } from './own_files.js';
import { importNode, isNode } from './source.js';
import { type Request, type Response, packError, unpackError } from './worker_protocol.js';

/** A worker of either kind: a browser's Worker or Node's worker_threads. */
interface Port {
  post(message: Request): void;
  /** Whether the process should stay alive for it (Node). */
  hold(busy: boolean): void;
  terminate(): Promise<void>;
}

interface Handlers {
  message(response: Response): void;
  failed(why: string, cause?: unknown): void;
}

/** The error for a worker that does not start. */
function notStarted(why: string, cause: unknown): RequantError {
  return new RequantError('LOAD_FAILED', `the worker cannot be started: ${why}`, {
    cause,
    hint: isNode
      ? ((cause as Partial<RequantError> | undefined)?.hint ??
        'The file worker_main.js must be there.')
      : "A page can only start workers of its own origin: serve the package's files from there, or " +
        'import it in a worker of your own, which a blob URL can start.',
  });
}

async function openPort(handlers: Handlers): Promise<Port> {
  if (isNode) {
    const { Worker: NodeWorker } =
      await importNode<typeof import('node:worker_threads')>('worker_threads');
    const script = await ownScript('worker_main.js');
    const worker = new NodeWorker(script);
    worker.on('message', (response: Response) => handlers.message(response));
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
  // Bundlers find the worker's file by exactly this form.
  const worker = new Worker(new URL('./worker_main.js', import.meta.url), { type: 'module' });
  worker.onmessage = (event: MessageEvent<Response>) => handlers.message(event.data);
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

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  signal: AbortSignal | undefined;
  onAbort: () => void;
  onProgress: ((value: never) => void) | undefined;
  next: (() => Promise<{ done: boolean; value?: unknown }>) | undefined;
  close: (() => void) | undefined;
  /** As of {@link CallExtras}. */
  uses: readonly object[];
}

export interface CallExtras {
  signal?: AbortSignal | undefined;
  onProgress?: ((value: never) => void) | undefined;
  /** An iterable that the worker reads, and how an item is sent. */
  source?: Iterable<unknown> | AsyncIterable<unknown>;
  pack?: (item: never) => unknown;
  /** What must not be taken for forgotten while the call runs. */
  uses?: readonly object[];
}

/** Calls to a worker: each has an id, may report progress, read an iterable of ours, and be aborted. */
export class Connection {
  #port: Port | undefined;
  #closed: RequantError | undefined;
  #lastId = 0;
  readonly #calls = new Map<number, PendingCall>();
  #ready: () => void = () => {};
  #notReady: (error: RequantError) => void = () => {};

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
        this.#port = await openPort({
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
    const { signal, onProgress, source, pack, uses = [] } = extras;
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
        close: iterator && (() => void Promise.resolve(iterator.return?.()).catch(() => {})),
      });
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#port?.hold(true);
      try {
        this.#port?.post({ kind: 'call', id, method, args });
      } catch (error) {
        // An argument that cannot be copied, such as a function.
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
    // Whether it was read to its end or not: a generator may have files to close.
    call?.close?.();
    if (this.#calls.size === 0) this.#port?.hold(false);
    return call;
  }

  /** Fails the call now: the worker may be busy for a while before it hears of it. */
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
    const { id, kind } = response;
    const call = this.#calls.get(id);
    if (!call) {
      // What an abandoned call has made all the same.
      const ref = kind === 'result' && (response.value as { ref?: number } | undefined)?.ref;
      if (ref) this.call('dispose', [ref]).catch(() => {});
    } else if (kind === 'progress') this.#report(id, call, response.value);
    else if (kind === 'pull') void this.#send(id, call);
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

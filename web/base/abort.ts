// Cancels work, and lets the event loop run during long work on one thread.

import { RequantError, invalidArgument, show } from './errors.js';

/** The error of a call whose signal fired. */
export function abortError(signal: AbortSignal): RequantError {
  return new RequantError('ABORTED', 'the operation was aborted', { cause: signal.reason });
}

/** Throws ABORTED when the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal);
}

/** The promise, or ABORTED as soon as the signal fires. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = () => reject(abortError(signal));
    if (signal.aborted) {
      promise.catch(() => {});
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

let channel: MessageChannel | undefined;
const waiting: (() => void)[] = [];

/** Resolves in a later task, so that timers, events and painting run before. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') {
      setImmediate(resolve);
    } else if (typeof MessageChannel === 'function') {
      // Messages are not throttled to one every 4 ms, as nested timeouts are.
      if (!channel) {
        channel = new MessageChannel();
        channel.port1.onmessage = () => waiting.shift()?.();
      }
      waiting.push(resolve);
      channel.port2.postMessage(null);
    } else {
      setTimeout(resolve, 0);
    }
  });
}

/** Lets the event loop run every few milliseconds and then checks the signal. */
export class Breather {
  #last = performance.now();
  readonly #signal: AbortSignal | undefined;
  readonly #interval: number;

  constructor(signal?: AbortSignal, interval = 30) {
    this.#signal = signal;
    this.#interval = interval;
  }

  /** Call this between two pieces of work. */
  async breathe(now = false): Promise<void> {
    throwIfAborted(this.#signal);
    if (!now && performance.now() - this.#last < this.#interval) return;
    await nextTask();
    this.#last = performance.now();
    throwIfAborted(this.#signal);
  }
}

/** The items of an iterable of either kind; throws ABORTED when the signal fires, also while waiting. */
export async function* items<T>(
  source: Iterable<T> | AsyncIterable<T>,
  signal?: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  throwIfAborted(signal);
  const isAsync = Symbol.asyncIterator in source;
  const iterator = isAsync ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let finished = false;
  try {
    for (;;) {
      const next = iterator.next();
      const step = isAsync
        ? await abortable(Promise.resolve(next), signal)
        : (next as IteratorResult<T>);
      if (step.done) {
        finished = true;
        return;
      }
      yield step.value;
      throwIfAborted(signal);
    }
  } catch (error) {
    // A source that throws has ended by itself; ABORTED means that we ended it.
    if (!(error instanceof RequantError && error.code === 'ABORTED')) finished = true;
    throw error;
  } finally {
    // Lets a generator close its files; an error that it throws comes too late.
    if (!finished && iterator.return) {
      void Promise.resolve(iterator.return()).catch(() => {});
    }
  }
}

/** Throws INVALID_ARGUMENT, naming the option, for a value that cannot be iterated. */
export function checkIterable(source: unknown, name: string): void {
  const iterable =
    typeof source === 'object' &&
    source !== null &&
    (Symbol.asyncIterator in source || Symbol.iterator in source);
  if (iterable) return;
  throw invalidArgument(
    `${name} must be an array, an iterable or an async iterable, not ${show(source)}`,
    name,
  );
}

/** The number of items, for arrays and iterables with a `length`. */
export function lengthOf(source: object): number | undefined {
  const { length } = source as { length?: unknown };
  return typeof length === 'number' ? length : undefined;
}

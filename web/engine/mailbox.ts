// How the thread that runs a session hands parts of its steps to kernel workers: a mailbox for each
// of them, in memory that both see. The caller never sleeps: a page's own thread must not, and a
// part takes microseconds. A worker spins for a while and then sleeps.

/** A cache line of its own, and the one that processors fetch along with it. */
export const MAILBOX_BYTES = 128;

// Words of a mailbox.
const STATE = 0;
const KERNEL = 1;
const PARAMS = 2;
const SLEEPS = 3;

// States: the caller posts; the worker takes, then the mailbox is idle again, or failed.
const IDLE = 0;
const POSTED = 1;
const TAKEN = 2;
const FAILED = 3;

/** How long a worker looks at its mailbox before it sleeps: longer than the gaps between the steps of a
 * run and between runs that follow each other. */
const SPIN_MS = 2;

// Tells the processor that this is a loop that waits, where JavaScript can
// (https://github.com/tc39/proposal-atomics-microwait).
const pause = (Atomics as unknown as { pause?: () => void }).pause ?? (() => {});

/** The caller's side of one mailbox. */
export class Mailbox {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer, index: number) {
    this.#words = wordsAt(buffer, index);
  }

  /** Asks for a kernel, by its number, on the parameters at this address. */
  post(kernel: number, params: number): void {
    const words = this.#words;
    words[KERNEL] = kernel;
    words[PARAMS] = params;
    Atomics.store(words, STATE, POSTED);
    if (Atomics.load(words, SLEEPS) !== 0) Atomics.notify(words, STATE);
  }

  /**
   * Waits until it is done. False: the caller must do it, because the worker has not begun (it
   * never will) or failed.
   */
  finish(): boolean {
    const words = this.#words;
    if (Atomics.compareExchange(words, STATE, POSTED, IDLE) === POSTED) return false;
    for (;;) {
      const state = Atomics.load(words, STATE);
      if (state === IDLE) return true;
      if (state === FAILED) {
        Atomics.store(words, STATE, IDLE);
        return false;
      }
      pause();
    }
  }
}

function wordsAt(buffer: SharedArrayBuffer, index: number): Int32Array {
  return new Int32Array(buffer, index * MAILBOX_BYTES, MAILBOX_BYTES / 4);
}

/** The worker's side: runs what is posted, for ever. */
export function serveMailbox(
  buffer: SharedArrayBuffer,
  index: number,
  kernels: readonly ((params: number) => void)[],
): never {
  const words = wordsAt(buffer, index);
  for (;;) {
    let spins = 0;
    let end = 0;
    while (Atomics.load(words, STATE) !== POSTED) {
      pause();
      // Asking for the time costs as much as many looks.
      spins += 1;
      if (spins % 64 !== 0) continue;
      const now = performance.now();
      if (end === 0) end = now + SPIN_MS;
      if (now < end) continue;
      // The caller looks at SLEEPS after it has posted, and wait() at the state after SLEEPS is set:
      // one of the two sees the other.
      Atomics.store(words, SLEEPS, 1);
      Atomics.wait(words, STATE, IDLE);
      Atomics.store(words, SLEEPS, 0);
      end = 0;
    }
    // The caller may have taken it back.
    if (Atomics.compareExchange(words, STATE, POSTED, TAKEN) !== POSTED) continue;
    let state = IDLE;
    try {
      kernels[words[KERNEL]!]!(words[PARAMS]!);
    } catch {
      state = FAILED;
    }
    Atomics.store(words, STATE, state);
  }
}

// Hands parts of steps from the thread that runs a session to kernel workers: each has a mailbox in memory
// that both see. The caller never sleeps, since a page's own thread must not and a part takes microseconds. A
// worker spins for a while and then sleeps.
//
//     caller:   IDLE -- post --> POSTED                        IDLE
//     worker:                    POSTED -- take --> TAKEN -- done --> IDLE or FAILED

/** A mailbox has a cache line of its own, and the one that processors fetch along with it. */
export const MAILBOX_BYTES = 128;

// Indices of a mailbox's words.
const STATE = 0;
const KERNEL = 1;
const PARAMS = 2;
const SLEEPS = 3;

// States. The caller posts; the worker takes, and leaves the mailbox idle or failed.
const IDLE = 0;
const POSTED = 1;
const TAKEN = 2;
const FAILED = 3;

/**
 * How long a worker spins before it sleeps: longer than the gaps between the steps of a run and between
 * consecutive runs.
 */
const SPIN_MS = 2;

// Tells the processor that a loop waits, where JavaScript can
// (https://github.com/tc39/proposal-atomics-microwait).
const pause = (Atomics as unknown as { pause?: () => void }).pause ?? (() => {});

/** The caller's side of one mailbox. */
export class Mailbox {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer, index: number) {
    this.#words = wordsAt(buffer, index);
  }

  /** Posts a kernel, by its number, with the parameters at this address. */
  post(kernel: number, params: number): void {
    const words = this.#words;
    words[KERNEL] = kernel;
    words[PARAMS] = params;
    Atomics.store(words, STATE, POSTED);
    if (Atomics.load(words, SLEEPS) !== 0) Atomics.notify(words, STATE);
  }

  /**
   * Waits until the part is done. Returns false if the caller must compute it, because the worker has not
   * begun (it never will) or failed.
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

/** The worker's side: runs posted parts for ever. */
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
      // Reading the clock costs as much as many looks at the mailbox.
      spins += 1;
      if (spins % 64 !== 0) continue;
      const now = performance.now();
      if (end === 0) end = now + SPIN_MS;
      if (now < end) continue;
      // The caller looks at SLEEPS after it has posted; wait() looks at the state after SLEEPS is set. So one
      // of the two notices the other.
      Atomics.store(words, SLEEPS, 1);
      Atomics.wait(words, STATE, IDLE);
      Atomics.store(words, SLEEPS, 0);
      end = 0;
    }
    // The caller may have taken the part back.
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

// The state of a search as bytes: every result so far, by the name of the step that made it. A search that goes
// on walks the same way and finds the results of the steps that are done.
//
//   "RQSEARCH1" | hash of the rest, 4 bytes | JSON

import { invalidArgument } from '../base/errors.js';
import { hashOf } from '../base/hash.js';

const MAGIC = 'RQSEARCH1';
const START = MAGIC.length + 4;

// JSON has no NaN and no infinities.
const written = (_key: string, value: unknown) =>
  typeof value === 'number' && !Number.isFinite(value) ? { number: String(value) } : value;
const read = (_key: string, value: unknown) => {
  const { number } = (value ?? {}) as { number?: unknown };
  return typeof number === 'string' ? Number(number) : value;
};

/** What the names of steps begin with that are attempts. */
export const ATTEMPT = 'attempt ';

/** Results by the names of steps. */
export class SearchState {
  readonly #results: Record<string, unknown> = {};
  readonly #origin: string;

  /**
   * @param origin What the results depend on, as text.
   * @param resume The state of a search that goes on.
   * @throws RequantError INVALID_ARGUMENT for bytes that are no state, are damaged, or are of another search.
   */
  constructor(origin: string, resume?: Uint8Array) {
    this.#origin = origin;
    if (!resume) return;
    const refuse = (why: string) =>
      invalidArgument(
        `options.resume ${why}`,
        'options.resume',
        'Give the bytes that onCheckpoint got, with the same model, samples and options.',
      );
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    if (resume.length < START || text(resume.subarray(0, MAGIC.length)) !== MAGIC) {
      throw refuse('is no state of a search');
    }
    const view = new DataView(resume.buffer, resume.byteOffset, resume.byteLength);
    const body = resume.subarray(START);
    if (view.getUint32(MAGIC.length, true) !== hashOf(body)) throw refuse('is damaged');
    const state = JSON.parse(text(body), read) as { origin: string; results: object };
    if (state.origin !== origin) throw refuse('is of another search');
    Object.assign(this.#results, state.results);
  }

  /** The result of a step, if it is done. */
  get<T>(step: string): T | undefined {
    return this.#results[step] as T | undefined;
  }

  set(step: string, result: unknown): void {
    this.#results[step] = result;
  }

  /** The number of attempts that are done. */
  get attempts(): number {
    return Object.keys(this.#results).filter((step) => step.startsWith(ATTEMPT)).length;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const text = JSON.stringify({ origin: this.#origin, results: this.#results }, written);
    const body = new TextEncoder().encode(text);
    const bytes = new Uint8Array(START + body.length);
    bytes.set(new TextEncoder().encode(MAGIC));
    new DataView(bytes.buffer).setUint32(MAGIC.length, hashOf(body), true);
    bytes.set(body, START);
    return bytes;
  }
}

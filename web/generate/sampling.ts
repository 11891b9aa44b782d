// Chooses the next token from logits.

import { RequantError, invalidArgument } from '../base/errors.js';
import { randomNumbers } from '../base/shuffle.js';

/** How the next token is chosen. Without options it is the most probable one. */
export interface SamplingOptions {
  /** Divides the logits; above 0 tokens are drawn at random. Default: 0, the most probable token. */
  temperature?: number;
  /** Draws among so many of the most probable tokens only; 0: among all (default). */
  topK?: number;
  /**
   * Draws among the most probable tokens that together have this probability (nucleus sampling, Holtzman et
   * al., arXiv:1904.09751). Default: 1, among all.
   */
  topP?: number;
  /**
   * Positive logits of tokens that occurred are divided by this number, negative ones multiplied (Keskar et
   * al., arXiv:1909.05858). Default: 1.
   */
  repetitionPenalty?: number;
  /** Ids that are never chosen. */
  suppress?: readonly number[];
  /** The same seed draws the same tokens. Default: 0. */
  seed?: number;
}

function inRange(name: string, value: number, low: number, high: number, whole = false): number {
  if (
    typeof value === 'number' &&
    value >= low &&
    value <= high &&
    (!whole || Number.isInteger(value))
  ) {
    return value;
  }
  const range = high === Infinity ? `at least ${low}` : `from ${low} to ${high}`;
  throw invalidArgument(
    `${name} must be ${whole ? 'an integer' : 'a number'} ${range}, not ${String(value)}`,
    name,
  );
}

function indexOfLargest(logits: Float32Array): number {
  let best = -1;
  for (let id = 0; id < logits.length; id++) {
    if (logits[id]! > (best < 0 ? -Infinity : logits[best]!)) best = id;
  }
  if (best >= 0) return best;
  throw new RequantError(
    'INVALID_MODEL',
    'the model gave no logit that is a number above -Infinity',
    {
      value: 'logits',
      hint: 'Compare the decoder with its float reference by compare().',
    },
  );
}

/** @internal Chooses tokens, one after another, with the random numbers of one seed. */
export class Sampler {
  readonly #temperature: number;
  readonly #topK: number;
  readonly #topP: number;
  readonly #penalty: number;
  readonly #suppress: readonly number[];
  readonly #random: () => number;

  /** Throws INVALID_ARGUMENT for options out of range. */
  constructor(options: SamplingOptions) {
    this.#temperature = inRange('temperature', options.temperature ?? 0, 0, Infinity);
    this.#topK = inRange('topK', options.topK ?? 0, 0, Infinity, true);
    this.#topP = inRange('topP', options.topP ?? 1, Number.MIN_VALUE, 1);
    this.#penalty = inRange(
      'repetitionPenalty',
      options.repetitionPenalty ?? 1,
      Number.MIN_VALUE,
      Infinity,
    );
    this.#suppress = options.suppress ?? [];
    this.#random = randomNumbers(inRange('seed', options.seed ?? 0, 0, 2 ** 32 - 1, true));
  }

  /** Chooses a token. Changes `logits`. `seen`: the ids that occurred. */
  next(logits: Float32Array, seen: ReadonlySet<number>): number {
    if (this.#penalty !== 1) {
      for (const id of seen) {
        const logit = logits[id]!;
        logits[id] = logit > 0 ? logit / this.#penalty : logit * this.#penalty;
      }
    }
    for (const id of this.#suppress) logits[id] = -Infinity;
    const best = indexOfLargest(logits);
    if (this.#temperature === 0 || this.#topK === 1) return best;
    const top = logits[best]!;
    // Weights relative to the most probable token, so that none overflows.
    const weights = logits.map((logit) => Math.exp((logit - top) / this.#temperature));
    const least = this.#leastWeight(weights);
    let total = 0;
    for (const weight of weights) if (weight >= least) total += weight;
    let left = this.#random() * total;
    let last = best;
    for (let id = 0; id < weights.length; id++) {
      const weight = weights[id]!;
      if (!(weight >= least) || weight === 0) continue;
      last = id;
      left -= weight;
      if (left < 0) break;
    }
    return last;
  }

  /** The smallest weight among the tokens that top-k and then top-p leave. */
  #leastWeight(weights: Float32Array): number {
    if (this.#topK === 0 && this.#topP === 1) return 0;
    const sorted = weights.slice().sort().reverse();
    const count = this.#topK === 0 ? sorted.length : Math.min(this.#topK, sorted.length);
    let total = 0;
    for (let at = 0; at < count; at++) total += sorted[at]!;
    let sum = 0;
    for (let at = 0; at < count; at++) {
      sum += sorted[at]!;
      if (sum >= this.#topP * total) return sorted[at]!;
    }
    return sorted[count - 1]!;
  }
}

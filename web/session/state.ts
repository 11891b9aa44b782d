/// <reference lib="esnext.disposable" preserve="true" />

import { throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkOptions } from '../base/options.js';
import { type Tensor } from '../base/tensor.js';
import { type TensorLike, tensorOf } from '../base/tensor_like.js';
import type { CoreState } from '../core.js';
import { Handle, makeDisposable } from '../engine/heap.js';
import { type Feeds, ownFeeds, toTensor, withFeeds } from '../engine/tensors.js';
import { type Fetches, type RunOptions, runArguments, takeResults } from './fetches.js';
import type { Plan } from './plan.js';
import type { StatePair } from './state_pairs.js';

/** Options of {@link InferenceSession.state}. */
export interface StateOptions {
  /**
   * The number of tokens to reserve memory for at the first run. Default: 0; the memory then doubles
   * whenever it is full.
   */
  capacity?: number;
  /**
   * Bits of a remembered number: 32 keeps floats as they are. 8 keeps float32 keys and values
   * [batch, heads, tokens, width] that stay in place as bytes with a scale for each token of each head, in little
   * more than a quarter of the memory; errors are up to half of 1/127 of the largest number of a token's head, and
   * {@link StateEntry.codes} tells for which pairs. Pairs that the first run computes for good stay floats.
   * Default: 32.
   */
  bits?: 8 | 32;
}

/** @internal Throws INVALID_ARGUMENT for options out of range. */
export function checkStateOptions(options: unknown): asserts options is StateOptions {
  checkOptions(options, { capacity: 'any', bits: 'any' }, 'options');
  const { capacity, bits = 32 } = options as StateOptions;
  checkInteger(capacity, 0, MOST_INT, 'capacity');
  if (bits !== 8 && bits !== 32)
    throw invalidArgument(`bits must be 8 or 32, not ${show(bits)}`, 'bits');
}

/** A pair of a {@link SessionState} and what it holds. */
export interface StateEntry extends Required<StatePair> {
  /** The number of tokens that it holds. */
  readonly tokens: number;
  /**
   * Whether the last run wrote new tokens behind the old ones. Otherwise it copied the past, because
   * something else than a Concat or an attention operator makes the output of it.
   */
  readonly inPlace: boolean;
  /** Whether the last run kept it as codes of 8 bits ({@link StateOptions.bits}). */
  readonly codes: boolean;
}

/**
 * Remembers for one sequence of runs of a session: the keys and values of a decoder's past.
 * {@link InferenceSession.state} makes it. The tensors stay in the engine, and a run adds to them what is
 * new.
 *
 * ```js
 * using state = session.state('auto');
 * let { logits } = await state.run(prompt);
 * for (;;) ({ logits } = await state.run(feedsOf(nextToken(logits))));
 * ```
 */
export class SessionState {
  readonly #handle: Handle<CoreState>;
  readonly #outputs: readonly string[];
  readonly #staysInEngine: (name: string) => boolean;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    handle: Handle<CoreState>,
    outputs: readonly string[],
    staysInEngine: (name: string) => boolean,
  ) {
    this.#handle = handle;
    this.#staysInEngine = staysInEngine;
    const presents = this.pairs().map(({ present }) => present);
    this.#outputs = outputs.filter((name) => !presents.includes(name));
  }

  /**
   * Computes the outputs for these inputs and for what is remembered, and remembers the outputs of the pairs,
   * which it does not return. After an error the state is as before.
   *
   * @param feeds A tensor for every input that is not remembered, as for {@link InferenceSession.run}.
   * @throws RequantError what InferenceSession.run throws, and INVALID_ARGUMENT for a feed that is remembered.
   */
  run(feeds: Feeds, options?: RunOptions): Promise<Record<string, Tensor>>;
  run(
    feeds: Feeds,
    fetches: Fetches | undefined,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(
    feeds: Feeds,
    second?: Fetches | RunOptions,
    third?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    const { targets, options } = runArguments(second, third, this.#outputs);
    throwIfAborted(options.signal);
    const { core } = this.#handle;
    const results = withFeeds(core, ownFeeds(feeds), (coreFeeds) =>
      this.#handle.call((state) => state.run(...coreFeeds)),
    );
    return takeResults(core, results, targets, this.#staysInEngine);
  }

  /** The pairs, and how many tokens each holds. */
  pairs(): StateEntry[] {
    return this.#handle.call((state) => state.pairs());
  }

  /** The number of tokens that are remembered, by the pairs that grow. */
  get tokens(): number {
    return this.pairs().find(({ once }) => !once)?.tokens ?? 0;
  }

  /** Bytes that the pairs take in the engine, with the room for more tokens. */
  get bytes(): number {
    return this.#handle.object.bytes();
  }

  /** The plan of the last run, as that of {@link InferenceSession.plan}; undefined before the first run. */
  plan(): Plan | undefined {
    const plan = this.#handle.json<Partial<Plan>>((state) => state.plan());
    return plan.steps ? (plan as Plan) : undefined;
  }

  /**
   * Forgets all tokens behind the first `tokens` ones. Pairs that the first run computes for good stay.
   *
   * @throws RequantError INVALID_ARGUMENT for another number than 0 to {@link tokens}, or when a pair holds
   * fewer (some models keep the last tokens only).
   */
  truncate(tokens: number): void {
    const most = this.tokens;
    if (!Number.isInteger(tokens) || tokens < 0 || tokens > most) {
      throw invalidArgument(
        `cannot keep ${tokens} of ${most} tokens`,
        'tokens',
        'Give an integer from 0 to tokens.',
      );
    }
    const pairs = this.pairs();
    const other = pairs.find(({ once, tokens: held }) => !once && held !== most);
    if (other && tokens !== most && tokens !== 0) {
      throw invalidArgument(
        `"${other.past}" holds ${other.tokens} of ${most} tokens`,
        other.past,
        'Make a new state and run the tokens again.',
      );
    }
    pairs.forEach(({ once, tokens: held }, at) => {
      if (once) return;
      this.#handle.call((state) => state.truncate(at, Math.min(tokens, held)));
    });
  }

  /**
   * Makes sequence `i` of the batch what sequence `indices[i]` was, as a beam search does.
   *
   * @throws RequantError INVALID_ARGUMENT for a sequence that is not there.
   */
  select(indices: readonly number[]): void {
    const wrong = indices.find((index) => !Number.isSafeInteger(index));
    if (wrong !== undefined) throw invalidArgument(`${wrong} is no sequence`, 'indices');
    this.#handle.call((state) => state.select([...indices]));
  }

  /** Another state of the same session that remembers the same. */
  clone(): SessionState {
    const copy = this.#handle.call((state) => state.copy());
    const handle = new Handle(this.#handle.core, copy, 'state');
    return new SessionState(handle, this.#outputs, this.#staysInEngine);
  }

  /** Copies of what is remembered, codes as floats, by the names of the inputs, for {@link load}; empty before a run. */
  toTensors(): Record<string, Tensor> {
    const tensors: Record<string, Tensor> = {};
    this.pairs().forEach(({ past }, at) => {
      const copy = this.#handle.call((state) => state.get(at));
      if (copy) tensors[past] = toTensor(this.#handle.core, copy);
    });
    return tensors;
  }

  /**
   * Remembers these tensors instead, which may come from another session of the model.
   *
   * @throws RequantError INVALID_ARGUMENT when one is missing, SHAPE_MISMATCH, TYPE_MISMATCH.
   */
  load(tensors: Readonly<Record<string, TensorLike>>): void {
    const own: Record<string, Tensor> = {};
    for (const { past } of this.pairs()) {
      const tensor = tensorOf(tensors[past], `tensor "${past}"`, past);
      if (!tensor) {
        throw invalidArgument(
          `the tensor of "${past}" is missing`,
          past,
          'Load what toTensors() gave.',
        );
      }
      own[past] = tensor;
    }
    withFeeds(this.#handle.core, own, (coreFeeds) =>
      this.#handle.call((state) => state.load(...coreFeeds)),
    );
  }

  /** Gives the memory back; the session stays usable. */
  dispose(): void {
    this.#handle.dispose();
  }
}

makeDisposable(SessionState, function (this: SessionState) {
  this.dispose();
});

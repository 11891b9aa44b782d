/// <reference lib="esnext.disposable" preserve="true" />

// A decoder and the memory of the tokens that it has read.

import { throwIfAborted } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { Tensor, type TensorType } from '../base/tensor.js';
import { type TensorLike } from '../base/tensor_like.js';
import { makeDisposable } from '../engine/heap.js';
import type { InferenceSession } from '../session/session.js';
import { type DecoderNames, findNames } from './names.js';
import { type Past, pastOfSession } from './past.js';

/** Options of {@link Decoder}. */
export interface DecoderOptions {
  /** Inputs that stay the same, such as `encoder_hidden_states`. */
  feeds?: Readonly<Record<string, TensorLike>>;
  /**
   * The input of the next run for outputs whose names do not tell: `{ present: past }`. Names of Optimum
   * (`present.0.key`, `past_key_values.0.key`) and of onnxruntime-genai are found.
   */
  pairs?: Readonly<Record<string, string>>;
  /**
   * A session for the first tokens, for exports in two files (`decoder_model.onnx` and
   * `decoder_with_past_model.onnx`).
   */
  first?: InferenceSession;
  /** The number of tokens to reserve memory for at once. Default: 0; it doubles when it is full. */
  capacity?: number;
  /** Bits of the keys and values that it remembers, as {@link requant!StateOptions.bits}. Default: 32. */
  bits?: 8 | 32;
}

interface Side {
  session: InferenceSession;
  names: DecoderNames;
}

/** Integers of the type that an input takes. */
function integers(type: string, values: readonly number[], dims: readonly number[]): Tensor {
  return new Tensor(type as TensorType, type === 'int64' ? values.map(BigInt) : [...values], dims);
}

/**
 * A language model, or the decoder of a speech or translation model, with the keys and values of the tokens
 * that it has read, so that every run computes new tokens only.
 *
 * ```js
 * const decoder = new Decoder(await InferenceSession.create('model.onnx'));
 * const logits = await decoder.append([5, 17, 3]);
 * ```
 */
export class Decoder {
  readonly #main: Side;
  readonly #first: Side | undefined;
  readonly #feeds: Readonly<Record<string, TensorLike>>;
  #past: Past;
  #tokens: number[] = [];
  #busy = false;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /**
   * @param session the decoder, of this thread or of a worker ({@link WorkerSession}); it stays the caller's.
   * @throws RequantError INVALID_ARGUMENT for a model that is no decoder with a past, or when an input is
   * missing in `feeds`.
   */
  constructor(session: InferenceSession, options?: DecoderOptions);
  /** @internal A copy of `twin`. */
  constructor(session: InferenceSession, options: DecoderOptions, twin: Decoder);
  constructor(session: InferenceSession, options: DecoderOptions = {}, twin?: Decoder) {
    if (twin) {
      this.#main = twin.#main;
      this.#first = twin.#first;
      this.#feeds = twin.#feeds;
      this.#past = twin.#past.clone();
      this.#tokens = [...twin.#tokens];
      return;
    }
    const { feeds = {}, pairs, first, capacity = 0, bits = 32 } = options;
    this.#feeds = feeds;
    this.#main = { session, names: findNames(session, pairs) };
    if (this.#main.names.memory.length === 0) {
      throw invalidArgument(
        'no output of the model is the past of its next run',
        'session',
        'Export the decoder with a past (Optimum: --task text-generation-with-past), or give `pairs`.',
      );
    }
    this.#first = first && { session: first, names: findNames(first, {}) };
    for (const { names } of this.#first ? [this.#first] : [this.#main]) {
      const missing = names.others.find((name) => !(name in feeds));
      if (missing === undefined) continue;
      throw invalidArgument(`the input "${missing}" is not fed`, missing, 'Give it in `feeds`.');
    }
    this.#past = pastOfSession(session, this.#main.names.memory, { capacity, bits });
  }

  /** The ids of the tokens that it has read. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** The number of tokens that it has read. */
  get length(): number {
    return this.#tokens.length;
  }

  /**
   * Reads tokens.
   *
   * @returns the logits of the token after the last one, [vocabulary], the caller's own.
   * @throws RequantError INVALID_ARGUMENT without tokens, for ids that are no integers from 0 on, or while
   * another call runs; ABORTED, and whatever InferenceSession.run throws. The decoder is then as before.
   */
  async append(
    tokens: readonly number[],
    options: { signal?: AbortSignal } = {},
  ): Promise<Float32Array> {
    const wrong = tokens.find((id) => !Number.isSafeInteger(id) || id < 0);
    if (tokens.length === 0 || wrong !== undefined) {
      const what = tokens.length === 0 ? 'there are no tokens to read' : `${wrong} is no token id`;
      throw invalidArgument(what, 'tokens', 'Give integers from 0 on, as a tokenizer makes them.');
    }
    if (this.#busy) {
      throw invalidArgument('the decoder is reading already', 'tokens', 'Wait for append().');
    }
    throwIfAborted(options.signal);
    this.#busy = true;
    try {
      return await this.#append([...tokens], options.signal);
    } finally {
      this.#busy = false;
    }
  }

  async #append(tokens: number[], signal: AbortSignal | undefined): Promise<Float32Array> {
    const logits = await this.#run(tokens, signal);
    const all = logits.type === 'float32' ? (logits.data as Float32Array) : logits.toFloat32();
    this.#tokens = [...this.#tokens, ...tokens];
    return all.slice(all.length - logits.dims.at(-1)!);
  }

  async #run(tokens: number[], signal: AbortSignal | undefined): Promise<Tensor> {
    const { names } = this.#main;
    if (this.length > 0 || !this.#first) {
      return this.#past.run(this.#feedsOf(names, tokens), names.logits, signal);
    }
    const { session, names: own } = this.#first;
    const fetches = [own.logits, ...names.memory.map(({ present }) => present)];
    const feeds = this.#feedsOf(own, tokens);
    const outputs = await session.run(feeds, fetches, signal ? { signal } : {});
    this.#past.take(outputs);
    return outputs[own.logits]!;
  }

  #feedsOf(names: DecoderNames, tokens: readonly number[]): Record<string, TensorLike> {
    const { ids, mask, positions, branch, kept, others } = names;
    const before = this.length;
    const now = tokens.length;
    const feeds: Record<string, TensorLike> = {};
    for (const name of others) feeds[name] = this.#feeds[name]!;
    feeds[ids.name] = integers(ids.type, tokens, [1, now]);
    if (mask) {
      const ones = Array.from({ length: before + now }, () => 1);
      feeds[mask.name] = integers(mask.type, ones, [1, before + now]);
    }
    if (positions) {
      const places = Array.from({ length: now }, (_, at) => before + at);
      feeds[positions.name] = integers(positions.type, places, [1, now]);
    }
    if (branch) feeds[branch.name] = new Tensor('bool', [before > 0], [1]);
    if (kept) {
      feeds[kept.name] = integers(
        kept.type,
        [1],
        kept.shape.map(() => 1),
      );
    }
    return feeds;
  }

  /**
   * Forgets all tokens behind the first `length` ones.
   *
   * @throws RequantError INVALID_ARGUMENT for another number than 0 to {@link length}.
   */
  truncate(length: number): void {
    if (!Number.isInteger(length) || length < 0 || length > this.length) {
      throw invalidArgument(
        `cannot keep ${length} of ${this.length} tokens`,
        'length',
        'Give an integer from 0 to length.',
      );
    }
    if (length === this.length) return;
    this.#past.truncate(length, this.length);
    this.#tokens = this.#tokens.slice(0, length);
  }

  /** Another decoder of the same session that has read the same tokens. */
  clone(): Decoder {
    return new Decoder(this.#main.session, {}, this);
  }

  /** Gives the memory of the past back; the session stays usable. */
  dispose(): void {
    this.#past.dispose();
  }
}

makeDisposable(Decoder, function (this: Decoder) {
  this.dispose();
});

// A decoder and the memory of the tokens that it has read.

import { throwIfAborted } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { Tensor, type TensorLike, type TensorType } from '../base/tensor.js';
import type { InferenceSession } from '../session/session.js';
import { type DecoderNames, type Memory, findNames } from './names.js';

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
}

interface Side {
  session: InferenceSession;
  names: DecoderNames;
}

/** The elements [0, end) of an axis. */
function sliced(tensor: Tensor, axis: number, end: number): Tensor {
  const dims = tensor.dims.map((dim, at) => (at === axis ? end : dim));
  const rows = tensor.dims.slice(0, axis).reduce((a, b) => a * b, 1);
  const inner = tensor.dims.slice(axis + 1).reduce((a, b) => a * b, 1);
  const from = tensor.data as Float32Array;
  const length = tensor.dims[axis]! * inner;
  const data = new (from.constructor as Float32ArrayConstructor)(rows * end * inner);
  for (let row = 0; row < rows; row++) {
    data.set(from.subarray(row * length, row * length + end * inner), row * end * inner);
  }
  return new Tensor(tensor.type, data as Tensor['data'], dims);
}

/** The past of a decoder that has read nothing. */
function emptyPast({ past, axis }: Memory): Tensor {
  const dims = past.shape.map((dim, at) => (at === axis ? 0 : typeof dim === 'number' ? dim : 1));
  return new Tensor(past.type as TensorType, [], dims);
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
  #past = new Map<string, Tensor>();
  #tokens: number[] = [];
  #busy = false;

  /**
   * @param session the decoder; it stays the caller's.
   * @throws RequantError INVALID_ARGUMENT for a model that is no decoder with a past, or when an input is
   * missing in `feeds`.
   */
  constructor(session: InferenceSession, options: DecoderOptions = {}) {
    const { feeds = {}, pairs, first } = options;
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
    const begun = this.length > 0;
    const { session, names } = (!begun && this.#first) || this.#main;
    const { memory } = this.#main.names;
    const fetches = [names.logits];
    for (const { present, cross } of memory) {
      if (!(cross && begun)) fetches.push(present);
    }
    const outputs = await session.run(
      this.#feedsOf(names, tokens),
      fetches,
      signal ? { signal } : {},
    );
    const past = new Map(this.#past);
    for (const { past: input, present, cross } of memory) {
      if (!(cross && begun)) past.set(input.name, outputs[present]!);
    }
    const logits = outputs[names.logits]!;
    const all = logits.type === 'float32' ? (logits.data as Float32Array) : logits.toFloat32();
    this.#past = past;
    this.#tokens = [...this.#tokens, ...tokens];
    return all.slice(all.length - logits.dims.at(-1)!);
  }

  #feedsOf(names: DecoderNames, tokens: readonly number[]): Record<string, TensorLike> {
    const { ids, mask, positions, branch, kept, memory, others } = names;
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
    for (const one of memory) {
      feeds[one.past.name] = this.#past.get(one.past.name) ?? emptyPast(one);
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
    const past = new Map<string, Tensor>();
    if (length > 0) {
      for (const { past: input, axis, cross } of this.#main.names.memory) {
        const tensor = this.#past.get(input.name)!;
        // Some models keep a window of the last tokens only.
        if (!cross && tensor.dims[axis] !== this.length) {
          throw invalidArgument(
            `"${input.name}" holds ${tensor.dims[axis]} of ${this.length} tokens`,
            input.name,
            'Make a new Decoder and append the tokens again.',
          );
        }
        past.set(input.name, cross ? tensor : sliced(tensor, axis, length));
      }
    }
    this.#past = past;
    this.#tokens = this.#tokens.slice(0, length);
  }

  /** Another decoder of the same session that has read the same tokens. Nothing is copied. */
  clone(): Decoder {
    const options: DecoderOptions = { feeds: this.#feeds };
    const pairs = Object.fromEntries(
      this.#main.names.memory.map(({ past, present }) => [present, past.name]),
    );
    if (this.#first) options.first = this.#first.session;
    const twin = new Decoder(this.#main.session, { ...options, pairs });
    twin.#past = new Map(this.#past);
    twin.#tokens = [...this.#tokens];
    return twin;
  }
}

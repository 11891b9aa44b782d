/**
 * requant/generate: language models and other decoders, token by token.
 *
 * @packageDocumentation
 */

import { throwIfAborted } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import type { InferenceSession } from '../session/session.js';
import { Decoder, type DecoderOptions } from './decoder.js';
import { Sampler, type SamplingOptions } from './sampling.js';

export { Decoder, type DecoderOptions } from './decoder.js';
export type { SamplingOptions } from './sampling.js';

/** Options of {@link generate}. */
export interface GenerateOptions extends SamplingOptions, DecoderOptions {
  /** Stops after so many tokens. Default: 128. */
  maxNewTokens?: number;
  /** Ids behind which it stops. They are yielded, too. */
  stop?: number | readonly number[];
  /** Stops with an error ABORTED, before the next token. */
  signal?: AbortSignal;
}

/**
 * Reads a prompt, and yields the ids of the tokens that follow, as they come.
 *
 * ```js
 * const session = await InferenceSession.create('model_q4.onnx');
 * for await (const id of generate(session, tokenizer.encode('Once upon a time').ids, { stop: 2 })) {
 *   process.stdout.write(tokenizer.decode([id]));
 * }
 * ```
 *
 * @param model a session of a decoder, or a {@link Decoder} that goes on behind the tokens that it has read.
 * @param prompt token ids of any tokenizer; for the decoder of a speech or translation model, the tokens that
 * it starts with.
 * @returns 'stop' after an id of `stop`, 'length' after `maxNewTokens`.
 * @throws RequantError what {@link Decoder} and its `append` throw, and INVALID_ARGUMENT for options out of
 * range.
 */
export async function* generate(
  model: InferenceSession | Decoder,
  prompt: Iterable<number | bigint>,
  options: GenerateOptions = {},
): AsyncGenerator<number, 'stop' | 'length', undefined> {
  const { maxNewTokens = 128, stop = [], signal } = options;
  if (!Number.isInteger(maxNewTokens) || maxNewTokens < 1) {
    throw invalidArgument(
      `maxNewTokens must be an integer from 1 on, not ${maxNewTokens}`,
      'maxNewTokens',
    );
  }
  const sampler = new Sampler(options);
  const stops = new Set(typeof stop === 'number' ? [stop] : stop);
  const decoder = model instanceof Decoder ? model : new Decoder(model, options);
  let tokens = Array.from(prompt, Number);
  const seen = new Set([...decoder.tokens, ...tokens]);
  const passed = signal ? { signal } : {};
  for (let made = 0; ;) {
    const logits = await decoder.append(tokens, passed);
    throwIfAborted(signal);
    const id = sampler.next(logits, seen);
    seen.add(id);
    yield id;
    if (stops.has(id)) return 'stop';
    if (++made === maxNewTokens) return 'length';
    tokens = [id];
  }
}

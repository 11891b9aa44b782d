// Which inputs and outputs of a decoder mean what, by the names that exporters give them.

import { invalidArgument } from '../base/errors.js';
import type { InferenceSession } from '../session/session.js';
import type { ValueMetadata } from '../session/plan.js';
import { pastOf, statePairs } from '../session/state_pairs.js';

/** @internal A pair of values: what a run gives for the next run. */
export interface Memory {
  past: ValueMetadata;
  /** Name of the output. */
  present: string;
  /** The axis of the past that grows, one for each token. */
  axis: number;
  /** Whether it belongs to the encoder's result, which the first run computes once and for all. */
  cross: boolean;
}

/** @internal The inputs and outputs of a decoder, by what they mean. */
export interface DecoderNames {
  /** Token ids, [1, tokens] int64 or int32. */
  ids: ValueMetadata;
  /** Ones for all tokens, [1, past + tokens]. */
  mask: ValueMetadata | undefined;
  /** Places of the tokens, [1, tokens]. */
  positions: ValueMetadata | undefined;
  /** bool[1], whether there is a past (merged decoders of Optimum). */
  branch: ValueMetadata | undefined;
  /** int64[], the number of last tokens to compute logits for. */
  kept: ValueMetadata | undefined;
  /** Name of the output [1, tokens or kept, vocabulary]. */
  logits: string;
  memory: readonly Memory[];
  /** Names of inputs that the program must feed. */
  others: readonly string[];
}

const find = (session: InferenceSession, ...names: string[]): ValueMetadata | undefined =>
  session.inputMetadata.find(({ name }) => names.includes(name));

function lengthAxis({ name, shape }: ValueMetadata): number {
  const open = shape.flatMap((dim, axis) => (typeof dim === 'number' || axis === 0 ? [] : [axis]));
  if (open.length === 1) return open[0]!;
  throw invalidArgument(
    `the input "${name}" of shape [${shape.map((dim) => dim ?? '?').join(', ')}] has ${open.length} open axes ` +
      'behind the batch, so the axis of tokens cannot be told',
    name,
    'Export the decoder with one open axis in each past value.',
  );
}

/** @internal Throws INVALID_ARGUMENT for a model that is no decoder with a past. */
export function findNames(
  session: InferenceSession,
  pairs: Readonly<Record<string, string>> | undefined,
): DecoderNames {
  const ids = find(session, 'input_ids', 'decoder_input_ids');
  if (!ids) {
    throw invalidArgument(
      `the model has no input "input_ids"; it has ${session.inputNames.join(', ')}`,
      'session',
      'Give a decoder that takes token ids.',
    );
  }
  const mask = find(session, 'attention_mask', 'decoder_attention_mask');
  const positions = find(session, 'position_ids');
  const branch = find(session, 'use_cache_branch');
  const kept = find(session, 'num_logits_to_keep', 'logits_to_keep');
  const logits = session.outputNames.find((name) => name === 'logits') ?? session.outputNames[0]!;
  const { inputMetadata: inputs, outputNames: outputs } = session;
  const named = outputs.flatMap((present) => {
    const past = pairs?.[present] ?? pastOf(present, inputs);
    return past === undefined ? [] : [{ past, present }];
  });
  const checked = named.length > 0 ? statePairs(named, inputs, outputs) : [];
  const memory: Memory[] = checked.map(({ past: name, present, once = false }) => {
    const past = find(session, name)!;
    return { past, present, axis: lengthAxis(past), cross: once };
  });
  const known = [ids, mask, positions, branch, kept, ...memory.map(({ past }) => past)];
  const others = session.inputNames.filter((name) => !known.some((one) => one?.name === name));
  const lost = others.find((name) => /^past/.test(name));
  if (lost !== undefined) {
    throw invalidArgument(
      `no output goes with the input "${lost}"`,
      lost,
      "Name it in `pairs`: { 'present.0.key': 'past_key_values.0.key', ... }.",
    );
  }
  return { ids, mask, positions, branch, kept, logits, memory, others };
}

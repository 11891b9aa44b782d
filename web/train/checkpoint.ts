// The state of a training as bytes, with which train() goes on later or elsewhere.
//
//   "RQTRAIN1" | length of the header | header, JSON | state of the core | state of the best epoch

import { invalidArgument } from '../base/errors.js';
import { hashOf } from '../base/hash.js';
import { checkBytes } from '../base/options.js';
import type { Quality } from './quality.js';

/** The best epoch so far. */
export interface BestEpoch {
  /** Counted from 0; -1: the model that training began with. */
  epoch: number;
  quality: Quality;
}

export interface Checkpoint {
  /** Epochs that are done. */
  epoch: number;
  /** Samples of an epoch, if the dataset told or was walked over. */
  length: number | undefined;
  /** The options that followed from the first samples. */
  loss: string;
  measuredBatches: number;
  frozen: boolean;
  state: Uint8Array;
  best: BestEpoch | undefined;
  bestState: Uint8Array | undefined;
}

const MAGIC = 'RQTRAIN1';

// JSON has no infinities.
type Written = Omit<Quality, 'snr' | 'metric'> & {
  snr: string;
  metric?: Omit<NonNullable<Quality['metric']>, 'value'> & { value: string };
};
const written = ({ metric, ...quality }: Quality): Written => ({
  ...quality,
  snr: String(quality.snr),
  ...(metric ? { metric: { ...metric, value: String(metric.value) } } : {}),
});
const read = ({ metric, ...quality }: Written): Quality => ({
  ...quality,
  snr: Number(quality.snr),
  ...(metric ? { metric: { ...metric, value: Number(metric.value) } } : {}),
});

export function writeCheckpoint(checkpoint: Checkpoint): Uint8Array<ArrayBuffer> {
  const { state, best, bestState = new Uint8Array(), ...rest } = checkpoint;
  const header = new TextEncoder().encode(
    JSON.stringify({
      ...rest,
      ...(best ? { best: { ...best, quality: written(best.quality) } } : {}),
      bytes: [state.length, bestState.length],
      hash: hashOf(state, bestState),
    }),
  );
  const start = MAGIC.length + 4;
  const bytes = new Uint8Array(start + header.length + state.length + bestState.length);
  bytes.set(new TextEncoder().encode(MAGIC));
  new DataView(bytes.buffer).setUint32(MAGIC.length, header.length, true);
  bytes.set(header, start);
  bytes.set(state, start + header.length);
  bytes.set(bestState, start + header.length + state.length);
  return bytes;
}

/** Throws INVALID_ARGUMENT for bytes that are no checkpoint, or are damaged. */
export function readCheckpoint(given: Uint8Array): Checkpoint {
  checkBytes(given, 'options.resume');
  const refuse = (why: string) =>
    invalidArgument(
      `options.resume ${why}`,
      'options.resume',
      'Give the bytes that onCheckpoint got.',
    );
  const start = MAGIC.length + 4;
  const text = (from: number, to: number) => new TextDecoder().decode(given.subarray(from, to));
  if (given.length < start || text(0, MAGIC.length) !== MAGIC) {
    throw refuse('is no state of a training');
  }
  const view = new DataView(given.buffer, given.byteOffset, given.byteLength);
  const end = start + view.getUint32(MAGIC.length, true);
  let header: Omit<Checkpoint, 'state' | 'best' | 'bestState'> & {
    best?: { epoch: number; quality: Written };
    bytes: [number, number];
    hash: number;
  };
  try {
    header = JSON.parse(text(start, end));
  } catch {
    throw refuse('is damaged');
  }
  const { best, bytes: sizes, hash, ...rest } = header;
  if (end + sizes[0] + sizes[1] !== given.length) throw refuse('is damaged');
  const state = given.subarray(end, end + sizes[0]);
  const bestState = given.subarray(end + sizes[0]);
  if (hashOf(state, bestState) !== hash) throw refuse('is damaged');
  return {
    ...rest,
    length: rest.length,
    state,
    best: best && { epoch: best.epoch, quality: read(best.quality) },
    bestState: bestState.length > 0 ? bestState : undefined,
  };
}

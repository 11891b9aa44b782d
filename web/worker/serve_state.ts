// The worker's side of WorkerState.

import { InferenceSession } from '../session/session.js';
import { SessionState, type StateOptions } from '../session/state.js';
import type { StatePair } from '../session/state_pairs.js';
import { type Objects, placedTensors } from './serve_run.js';
import { type PackedFeeds, packFeeds, unpackFeeds } from './worker_protocol.js';

// The constructors are not public; instanceof needs only these types.
const sessionType = InferenceSession as unknown as abstract new () => InferenceSession;
const stateType = SessionState as unknown as abstract new () => SessionState;

/** The methods of the protocol that concern states. */
export function stateMethods(objects: Objects) {
  const { get, keep } = objects;
  const placed = placedTensors(objects);
  const stateOf = (key: number) => get(key, stateType);
  return {
    state(
      _call: unknown,
      session: number,
      pairs: 'auto' | Readonly<Record<string, string>> | readonly StatePair[],
      options: StateOptions,
    ) {
      const state = get(session, sessionType).state(pairs, options);
      return { ref: keep(state), presents: state.pairs().map(({ present }) => present) };
    },
    async runState(_call: unknown, key: number, feeds: PackedFeeds, fetches?: string[]) {
      return packFeeds(await stateOf(key).run(unpackFeeds(feeds, placed), fetches), placed);
    },
    statePairs: (_call: unknown, key: number) => stateOf(key).pairs(),
    stateTokens: (_call: unknown, key: number) => stateOf(key).tokens,
    stateBytes: (_call: unknown, key: number) => stateOf(key).bytes,
    statePlan: (_call: unknown, key: number) => stateOf(key).plan(),
    truncateState: (_call: unknown, key: number, tokens: number) => stateOf(key).truncate(tokens),
    selectState: (_call: unknown, key: number, indices: number[]) => stateOf(key).select(indices),
    cloneState: (_call: unknown, key: number) => keep(stateOf(key).clone()),
    stateTensors: (_call: unknown, key: number) => packFeeds(stateOf(key).toTensors()),
    loadState: (_call: unknown, key: number, tensors: PackedFeeds) =>
      stateOf(key).load(unpackFeeds(tensors, placed)),
  };
}

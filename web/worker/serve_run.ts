// The worker's side of WorkerSession.run and of tensors that stay in its engine.

import { Tensor } from '../base/tensor.js';
import { placeOf } from '../base/tensor_place.js';
import { InferenceSession } from '../session/session.js';
import type { SessionState } from '../session/state.js';
import { type PackedFeeds, type PlacedTensors, packFeeds, unpackFeeds } from './worker_protocol.js';

type Kept = InferenceSession | SessionState | Tensor;

/** The objects of the worker. */
export interface Objects {
  get<T extends Kept>(key: number, type: abstract new (...args: never[]) => T): T;
  keep(object: SessionState | Tensor): number;
}

// The constructor is not public; instanceof needs only this type.
const sessionType = InferenceSession as unknown as abstract new () => InferenceSession;

/** Numbers for the tensors in this thread's engine. */
export function placedTensors({ get, keep }: Objects): PlacedTensors {
  return {
    numberOf: (tensor) => (placeOf(tensor) ? keep(tensor) : undefined),
    tensorOf: (number) => get(number, Tensor),
  };
}

/** The methods of the protocol that concern runs. */
export function runMethods(objects: Objects) {
  const placed = placedTensors(objects);
  return {
    async run(_call: unknown, session: number, feeds: PackedFeeds, fetches?: string[]) {
      const own = unpackFeeds(feeds, placed);
      return packFeeds(await objects.get(session, sessionType).run(own, fetches), placed);
    },
    readTensor: (_call: unknown, tensor: number) => placeOf(objects.get(tensor, Tensor))?.read(),
  };
}

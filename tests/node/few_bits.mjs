// Functions that the tests of few bits share: random integers that are the same everywhere, and one run of a
// session.

import { InferenceSession } from '../../dist/index.js';

/**
 * A generator of integers in [least, most] from a state of 1 to 2^31 - 2 (Lehmer's generator, Park and Miller
 * 1988).
 */
export function integersFrom(state) {
  return (least, most) => {
    state = (state * 48271) % 2147483647;
    return least + (state % (most - least + 1));
  };
}

/** A generator for a seed of 1 and above; neighboring seeds give unrelated numbers. */
export function randomSource(seed) {
  let state = 48271 * seed;
  for (let i = 0; i < 5; i++) state = (state * 48271) % 2147483647;
  return integersFrom(state);
}

/** All outputs of one run as arrays, the plan's steps, and the saved plan. */
export async function runOnce(source, feeds, options) {
  const session = await InferenceSession.create(source, options);
  const outputs = await session.run(feeds);
  const { steps } = session.plan();
  const saved = session.toPlan();
  session.dispose();
  return { outputs: Object.values(outputs).map(({ data }) => [...data]), steps, saved };
}

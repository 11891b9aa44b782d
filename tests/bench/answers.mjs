// Answers of a classifier on samples, and parts of samples, for the benchmarks of accuracy.

import { InferenceSession } from 'requant';
import { argmax } from '../node/shared_models.mjs';

/** The likeliest class of each sample and its label, [class, label]. */
export async function answersOf(candidate, samples) {
  const session = await InferenceSession.create(candidate);
  const answers = [];
  for await (const { feeds, label } of samples) {
    answers.push([argmax(Object.values(await session.run(feeds))[0].data), label]);
  }
  await session.release();
  return answers;
}

async function* between(samples, begin, end) {
  let index = 0;
  for await (const sample of samples) {
    if (index >= end) return;
    if (index++ >= begin) yield sample;
  }
}

/** The samples from `begin` on, before `end`. */
export const part = (samples, begin, end) => ({
  length: end - begin,
  [Symbol.asyncIterator]: () => between(samples, begin, end),
});

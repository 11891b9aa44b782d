// A thread of the pool: a session of its own, which answers one picture after another.

import { workerData } from 'piscina';
import { InferenceSession } from 'requant';
import { CLASSES, feedsOf } from './clothes.mjs';

const session = await InferenceSession.create(workerData.plan);

/** The name of the clothes in a picture of 28 x 28 bytes, and how sure the network is. */
export default async function classify(pixels) {
  const { logits } = await session.run(feedsOf(pixels));
  const scores = [...logits.data];
  const most = Math.max(...scores);
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return { class: CLASSES[scores.indexOf(most)], share: 1 / sum };
}

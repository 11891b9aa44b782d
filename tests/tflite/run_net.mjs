// Runs a Net of net.mjs.

import { InferenceSession, Tensor } from '../../dist/index.js';

export const asTensor = ({ type, data, dims }) => new Tensor(type, data, dims);

/** The outputs, in their order. */
export async function runNet(net, options) {
  const session = await InferenceSession.create(net.bytes(), options);
  const feeds = Object.fromEntries(
    Object.entries(net.feeds).map(([name, feed]) => [name, asTensor(feed)]),
  );
  const results = await session.run(feeds);
  await session.release();
  return session.outputNames.map((name) => results[name]);
}

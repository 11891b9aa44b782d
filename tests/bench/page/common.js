// The code of every engine's page: timing on demand, and a cold start if the address asks for one.

import { normals } from '../numbers.js';

/** The same numbers as inputOf() of networks.mjs. */
const input = (size) => normals(3 * size * size);

async function read(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/**
 * Offers timing to the driver.
 * @param open Makes a session of a model: `(bytes or address, options, input, size) => { run, release }`;
 * `run` gives the first output's numbers.
 */
export function serve(open) {
  const sessions = new Map();
  globalThis.bench = {
    async open(key, url, size, options) {
      sessions.set(key, await open(await read(url), options, input(size), size));
    },
    output: async (key) => [...(await sessions.get(key).run())],
    async time(key, runs) {
      const { run } = sessions.get(key);
      const start = performance.now();
      for (let at = 0; at < runs; at++) await run();
      return (performance.now() - start) / runs;
    },
    async close(key) {
      await sessions.get(key).release();
      sessions.delete(key);
    },
  };
  const query = new URLSearchParams(location.search);
  const cold = query.get('cold');
  if (!cold) return;
  // Times count from the start of the navigation. The engine gets the model's address, so that it can load
  // model and module at the same time.
  (async () => {
    const size = Number(query.get('size'));
    const values = input(size);
    const script = performance.now();
    const { run } = await open(cold, {}, values, size);
    const session = performance.now();
    await run();
    return { script, session, first: performance.now() };
  })()
    .catch((error) => ({ error: String(error?.stack ?? error) }))
    // The page reports the times; evaluating code in the page would run in between.
    .then((times) => console.info('cold start', times));
}

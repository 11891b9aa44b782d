// A Worker of the page's own that imports the package.

import { runChecks } from './checks.js';

self.onmessage = async ({ data: { names, base } }) => {
  const read = async (name) => {
    const response = await fetch(new URL(`/requant-data/${name}`, base));
    return new Uint8Array(await response.arrayBuffer());
  };
  self.postMessage(await runChecks(names, read));
};

// The page of every bundler: runs the checks on the page, and in a Worker of its own that imports the
// package.

import { runChecks } from './checks.js';
import { generate } from './generate.js';
import { inOwnWorker } from './own.js';

const read = async (name) => {
  const response = await fetch(new URL(`/requant-data/${name}`, location.href));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
};

const HERE = ['float', 'quantize', 'w4a4', 'worker'];

async function main() {
  const threads = crossOriginIsolated ? ['threads'] : [];
  const here = await runChecks([...HERE, ...threads], read, { generate });
  const elsewhere = await inOwnWorker(['float', 'quantize', 'w4a4', ...threads]);
  return { isolated: crossOriginIsolated, ...here, ownWorker: { value: elsewhere } };
}

main().then(
  (result) => (document.body.dataset.result = JSON.stringify(result)),
  (error) => (document.body.dataset.error = String(error?.stack ?? error)),
);

// Where the benchmarks of single layers measure: in this process, or on a page of Chromium.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { FOLDER } from './networks.mjs';
import { makeParts } from './parts.js';

/**
 * Opens the process or page where parts.js runs: `{ name, call, close }`, where `call(method, ...plain data)`
 * calls it.
 * @param simd env.wasm.simd of our package: 'auto', 'relaxed' or 'simd128'
 */
export async function openPlace({ chromium = false, simd = 'auto' } = {}) {
  if (chromium) return openPageAsPlace(simd);
  const [requant, ort] = await Promise.all([import('requant'), import('onnxruntime-web')]);
  requant.env.wasm.simd = simd;
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const read = (file) => new Uint8Array(readFileSync(path.join(FOLDER, file)));
  const parts = makeParts({ requant, ort }, read);
  return {
    name: `Node ${process.versions.node}`,
    call: async (method, ...args) => parts[method](...args),
    close: () => {},
  };
}

async function openPageAsPlace(simd) {
  const [{ launch, openPage }, { buildSite, startServer }] = await Promise.all([
    import('../browser/browser.mjs'),
    import('./site.mjs'),
  ]);
  await buildSite(['parts']);
  const { server, url } = await startServer();
  const browser = await launch();
  const { page, problems } = await openPage(browser);
  await page.goto(`${url}/site/parts/?${new URLSearchParams({ simd })}`);
  await page.waitForFunction(() => globalThis.bench);
  return {
    name: `Chromium ${browser.version()}`,
    call: (method, ...args) =>
      page.evaluate(([what, rest]) => globalThis.bench[what](...rest), [method, args]),
    async close() {
      if (problems.length > 0) console.error(problems.join('\n'));
      await browser.close();
      server.close();
    },
  };
}

// Holds the size of every wasm module of the package against the budget: what a page downloads
// (brotli) and what an engine compiles (raw).

import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { ROOT } from './run.mjs';

const RAW_LIMIT = 1.0e6;
const BROTLI_LIMIT = 300e3;

const dist = path.join(ROOT, 'dist');
const modules = readdirSync(dist)
  .filter((name) => /^requant-.*\.wasm$/.test(name))
  .sort();
let failed = modules.length < 4; // two variants, each for one thread and for several
if (failed) console.error('size: the modules are not in dist: run `npm run build` first');
for (const name of modules) {
  const bytes = readFileSync(path.join(dist, name));
  const brotli = brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 22,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  }).length;
  const tooBig = bytes.length > RAW_LIMIT || brotli > BROTLI_LIMIT;
  failed ||= tooBig;
  console.log(
    `${name.padEnd(28)} raw ${(bytes.length / 1e3).toFixed(1).padStart(7)} kB of ${RAW_LIMIT / 1e3}` +
      `   brotli ${(brotli / 1e3).toFixed(1).padStart(6)} kB of ${BROTLI_LIMIT / 1e3}` +
      (tooBig ? '   TOO BIG' : ''),
  );
}
process.exitCode = failed ? 1 : 0;

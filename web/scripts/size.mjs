// Checks the size of every wasm module of the package against its budget: what a page downloads (brotli) and
// what an engine compiles (raw). The goal is at most 300 kB for a page that runs models: the main module and 35 kB
// of JavaScript. The budget is above it. Documents that name a module's size must be right within 2 %.

import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { ROOT } from './run.mjs';

const MAIN_LIMIT = { raw: 1052e3, brotli: 318.5e3 };
const OPERATORS_LIMIT = { raw: 990e3, brotli: 312.5e3 };
const TOOLS_LIMIT = { raw: 966e3, brotli: 302.5e3 };
const LOW_BITS_LIMIT = { raw: 188.5e3, brotli: 44.5e3 };

const DOCUMENTS = ['docs/architecture.md', 'docs/tflite.md'];
const TOLERANCE = 0.02;

const dist = path.join(ROOT, 'dist');
const modules = readdirSync(dist)
  .filter((name) => /^requant-.*\.wasm$/.test(name))
  .sort();
// the two variants, their low bits, operators and tools; each also for threads
let failed = modules.length < 12;
if (failed) console.error('size: the modules are not in dist: run `npm run build` first');
const measured = new Map();
for (const name of modules) {
  const bytes = readFileSync(path.join(dist, name));
  const brotli = brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 22,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  }).length;
  measured.set(name, brotli / 1e3);
  const [, part] = /^requant-(operators|tools|lowbits)?/.exec(name);
  const limit =
    { operators: OPERATORS_LIMIT, tools: TOOLS_LIMIT, lowbits: LOW_BITS_LIMIT }[part] ?? MAIN_LIMIT;
  const tooBig = bytes.length > limit.raw || brotli > limit.brotli;
  failed ||= tooBig;
  console.log(
    `${name.padEnd(28)} raw ${(bytes.length / 1e3).toFixed(1).padStart(7)} kB of ${limit.raw / 1e3}` +
      `   brotli ${(brotli / 1e3).toFixed(1).padStart(6)} kB of ${limit.brotli / 1e3}` +
      (tooBig ? '   TOO BIG' : ''),
  );
}
for (const document of DOCUMENTS) {
  const text = readFileSync(path.join(ROOT, document), 'utf8');
  for (const [, name, said] of text.matchAll(/(requant-[\w-]+\.wasm)`?[ (,]+(\d+) kB/g)) {
    const size = measured.get(name) ?? NaN;
    if (Math.abs(Number(said) / size - 1) <= TOLERANCE) continue;
    failed = true;
    console.error(`size: ${document} says ${said} kB of ${name}, which has ${size.toFixed(0)} kB`);
  }
}
process.exitCode = failed ? 1 : 0;

// Runs in Node for ARM: prints the processor's form of the dot product, the rows of the kernel tables, and
// the hashes of the named jobs.

import { readFile } from 'node:fs/promises';
import * as requant from '../../dist/index.js';
import { jobs, runJobs } from '../browser/jobs.mjs';
import { fileOf } from '../browser/site.mjs';

/**
 * Returns a function of (w, x) that computes i32x4.relaxed_dot_i8x16_i7x16_add_s of these bytes in all lanes,
 * with 0 added, and gives the first lane.
 */
function relaxedDot() {
  const body = [
    ...[0x20, 0, 0xfd, 0x0f, 0x20, 1, 0xfd, 0x0f], // i8x16.splat of both
    ...[0x41, 0, 0xfd, 0x11, 0xfd, 0x93, 2, 0xfd, 0x1b, 0, 0x0b],
  ];
  const bytes = Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 7, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 3, 2, 1, 0],
    ...[7, 5, 1, 1, 0x66, 0, 0, 10, body.length + 3, 1, body.length + 1, 0, ...body],
  ]);
  return new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.f;
}

const chosen = jobs.filter(({ title }) => process.argv.slice(2).includes(title));
const hashes = {};
await runJobs({
  requant,
  chosen,
  read: async (file) => new Uint8Array(await readFile(fileOf(file))),
  report: ({ job, way, hash }) => ((hashes[job] ??= {})[way] = hash),
});
const { variant, kernels } = await requant.engineInfo();
const dot = relaxedDot();
console.log(
  JSON.stringify({
    arch: process.arch,
    variant,
    hashes,
    products: [
      [1, 128],
      [-127, 128],
      [127, 255],
    ].map(([w, x]) => dot(w, x)),
    missing: kernels.filter(({ missing }) => missing).map(({ name }) => name),
  }),
);
process.exit(0);

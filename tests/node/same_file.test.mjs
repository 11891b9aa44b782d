// quantize() makes the same file with relaxed SIMD and without, for any number of threads, and in a worker.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import * as requant from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { files, runJobs } from '../browser/jobs.mjs';
import { ROOT } from './support.mjs';

test('the same file everywhere', { skip: !hasRelaxedSimd() && 'needs relaxed SIMD' }, async () => {
  const hashes = {};
  await runJobs({
    requant,
    chosen: files,
    read: async (file) => new Uint8Array(await readFile(path.join(ROOT, file))),
    report: ({ job, way, hash }) => ((hashes[job] ??= {})[way] = hash),
  });
  assert.equal(Object.keys(hashes).length, files.length);
  for (const [job, ways] of Object.entries(hashes)) {
    assert.deepEqual(Object.keys(ways), ['page', 'simd128', 'threads', 'worker']);
    assert.equal(new Set(Object.values(ways)).size, 1, `${job}: ${JSON.stringify(ways)}`);
  }
});

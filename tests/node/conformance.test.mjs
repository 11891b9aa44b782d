// ONNX's conformance data in the shipped session; the table in docs/conformance.md is up to date.
// REQUANT_LONG=1: in onnxruntime-web as well, and the whole document is compared.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { countsOf, report, runAll } from './conformance.mjs';
import { FOLDERS, haveData } from './onnx_test_data.mjs';
import { ROOT } from './support.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';
const LONG = Boolean(process.env.REQUANT_LONG);
const document = readFileSync(path.join(ROOT, 'docs/conformance.md'), 'utf8');
const skip = !haveData && !process.env.CI && 'needs libonnx-testdata';

/** The numbers of a folder's row: tests in scope; passed, refused and failed ones, ours and theirs. */
function rowOf(folder) {
  const line = document.split('\n').find((text) => text.startsWith(`| ${folder} |`));
  return line.split('|').slice(2, -1).map(Number);
}

test('the conformance data by folder', { skip }, async () => {
  const results = await runAll({ judges: LONG ? ['ours', 'theirs'] : ['ours'] });
  const counts = countsOf(results);
  for (const folder of FOLDERS) {
    const { inScope, ours, theirs } = counts[folder];
    const expected = [inScope, ...ours, ...(LONG ? theirs : rowOf(folder).slice(4))];
    assert.deepEqual(rowOf(folder), expected, folder);
    assert.equal(ours[2], 0, `${folder}: nothing fails`);
    if (folder.startsWith('pytorch')) assert.equal(ours[0], inScope, `${folder}: all pass`);
    assert.ok(ours[0] >= 0.9 * inScope, `${folder}: ${ours[0]} of ${inScope}`);
  }
  // Refusals, in scope or not, are typed and name the cause. Other tests out of scope run, to other numbers.
  const differ = ['training', 'random', 'wrong data'];
  for (const { name, scope, ours } of results) {
    if (ours === 'passed' || differ.includes(scope)) continue;
    assert.match(ours, /^refused: UNSUPPORTED ./, name);
  }
  if (LONG) assert.equal(document, report(results), 'node tests/node/conformance.mjs --write');
});

// The packed package in projects of real bundlers without configuration, built and opened in Chromium on an
// isolated page under a strict Content-Security-Policy: the table in bundlers/table.mjs, which
// docs/bundlers.md shows. REQUANT_LONG=1 runs all rows, which installs several hundred megabytes of npm
// packages; CI runs every other one of those that need no REQUANT_LONG.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after, before } from 'node:test';
import { launch } from './browser.mjs';
import { DOCUMENT, headOf, runRow, start, surprises } from './bundlers/run.mjs';
import { ROWS } from './bundlers/table.mjs';

const long = process.env.REQUANT_LONG === '1';

let begun;
let browser;

before(async () => {
  begun = start();
  browser = await launch();
});
after(() => browser?.close());

const MS_PER_DAY = 86_400_000;
const everyRun = ROWS.filter(({ always }) => always);
/** In CI each of two neighbors rests every other day. */
const rests = (row) =>
  Boolean(process.env.CI) && everyRun.indexOf(row) % 2 !== Math.floor(Date.now() / MS_PER_DAY) % 2;

for (const row of ROWS) {
  const skip =
    (!row.always && !long && 'REQUANT_LONG=1 runs it') ||
    (!long && rests(row) && 'CI runs it every other day');
  test(row.name, { skip, timeout: 1_200_000 }, async () => {
    const { verdicts } = await runRow(row, begun, browser);
    assert.deepEqual(surprises(row, verdicts), []);
  });
}

test('the document has every row, with its version', () => {
  const text = readFileSync(DOCUMENT, 'utf8').replace(/ +/g, ' ');
  for (const row of ROWS) assert.ok(text.includes(headOf(row)), headOf(row));
});

// docs/systems.md has every row of the five systems, with tests that exist.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support.mjs';

const SYSTEMS = { T: 19, M: 8, P: 12, B: 7, O: 10 };

const rows = readFileSync(path.join(ROOT, 'docs/systems.md'), 'utf8')
  .split('\n')
  .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()))
  .filter(([, id]) => /^[TMPBO]\d+$/.test(id ?? ''))
  .map(([, id, what, use, page, tests, missing]) => ({ id, what, use, page, tests, missing }));

test('every row of every system is there once, in order', () => {
  const wanted = Object.entries(SYSTEMS).flatMap(([system, count]) =>
    Array.from({ length: count }, (_, index) => `${system}${index + 1}`),
  );
  assert.deepEqual(
    rows.map(({ id }) => id),
    wanted,
  );
});

test('a row says how to use it, where it is described, and which tests hold it', () => {
  for (const { id, what, use, page, tests, missing } of rows) {
    assert.ok(what, id);
    if (missing === 'all of it') continue;
    assert.ok(use, `${id}: how to use it`);
    assert.match(page, /^\[.+\]\(.+\.md(#.+)?\)$/, id);
    const files = tests.split(', ');
    assert.ok(files.length > 0, id);
    for (const file of files) {
      assert.match(file, /^(node|cpp)\//, id);
      assert.ok(existsSync(path.join(ROOT, 'tests', file)), `${id}: there is no tests/${file}`);
    }
  }
});

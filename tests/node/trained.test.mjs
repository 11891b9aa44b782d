// Bounds how much 8 and 4 bits cost the trained transformers of tests/transformers/train_vit.py and train_lm.py.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { ROOT } from './support.mjs';

const SCRIPT = path.join(ROOT, 'tests/bench/trained.mjs');
const missing = (file, script) => {
  if (process.env['REQUANT_LONG'] !== '1') return 'long: set REQUANT_LONG=1';
  return (
    !existsSync(path.join(ROOT, 'build/trained', file)) &&
    `needs python3 tests/transformers/${script}`
  );
};

/** The rows of a table: name, value, difference to float. */
function rows(...args) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, SCRIPT, ...args], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout
    .split('\n')
    .slice(2)
    .filter((line) => line.startsWith('| W'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .map(([, name, value, difference]) => [name, Number(value), parseFloat(difference)]);
}

test(
  'a vision transformer loses 0.3 points at most',
  { skip: missing('vit.onnx', 'train_vit.py') },
  () => {
    const table = rows('--table', 'vit', '--rows', 'W8A8 (static|dynamic)$|W8 blocks|W4 blocks');
    assert.equal(table.length, 6);
    for (const [name, , difference] of table)
      assert.ok(difference >= -0.3, `${name}: ${difference}`);
  },
);

test(
  'a language model loses 1 % with 8 bits and 5 % with 4',
  { skip: missing('lm.onnx', 'train_lm.py') },
  () => {
    const table = rows(
      '--table',
      'lm',
      '--rows',
      'W8A8 (static|dynamic)$|W8 blocks|W4 blocks|W4A8 static$',
    );
    assert.equal(table.length, 7);
    for (const [name, , difference] of table) {
      assert.ok(difference <= (name.startsWith('W8') ? 1 : 5), `${name}: ${difference} %`);
    }
  },
);

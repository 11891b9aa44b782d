// The tables of options (web/quantize) against the rows of the core that read them, and against docs/api.md.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { operatorOptions, quantizeOptions, targets } from '../../dist/quantize/config.js';
import { parseTensor, tensorOptions } from '../../dist/quantize/tensor_options.js';
import { withOptionTables } from '../../web/scripts/option_tables.mjs';
import { ROOT, isError } from './support.mjs';

const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');

/** Names of the rows of src/quant/options.inc for these macros. */
const rowsOf = (...macros) =>
  [...read('src/quant/options.inc').matchAll(/^REQUANT_(\w+)_OPTION\(.*?"(\w+)"/gm)]
    .filter(([, macro]) => macros.includes(macro))
    .map(([, , name]) => name);

/** The strings that begin the rows of a table of the core. */
function namesIn(file, table) {
  const [, rows] = new RegExp(`${table}\\[\\] = \\{([\\s\\S]*?)\\};`).exec(read(file));
  return [...rows.matchAll(/"(\w+)"/g)].map(([, name]) => name);
}

describe('the core reads every option by its row', () => {
  // What web/quantize/parse_config.ts translates.
  const translated = ['target', 'operatorTypes', 'operators', 'recover', 'scales'];
  const without = (table, ...names) => Object.keys(table).filter((name) => !names.includes(name));
  for (const [table, rows, options] of [
    ['tensorOptions', rowsOf('TENSOR', 'OBSERVER'), Object.keys(tensorOptions)],
    ['operatorOptions', rowsOf('OPERATOR'), without(operatorOptions, 'activations', 'weights')],
    [
      'quantizeOptions',
      rowsOf('QUANTIZE'),
      without(quantizeOptions, 'activations', 'weights', ...translated),
    ],
  ]) {
    test(table, () => {
      assert.ok(rows.length > 0);
      assert.deepEqual([...rows].sort(), [...options].sort());
    });
  }
});

test('names are those of the core', () => {
  const same = (names, file, table) =>
    assert.deepEqual([...names].sort(), namesIn(file, table).sort(), table);
  same(tensorOptions.observer.of, 'src/quant/observers/table.cpp', 'kObservers');
  same(quantizeOptions.recover.of, 'src/quant/recover/table.cpp', 'kRecoveries');
  same(tensorOptions.formula.of, 'src/quant/grid/affine.cpp', 'kFormulas');
  assert.deepEqual([...quantizeOptions.target.of].sort(), Object.keys(targets).sort());
});

test('weights take the observers that the core has for them', () => {
  for (const [, name, weights] of read('src/quant/observers/table.cpp').matchAll(
    /\{"(\w+)", (true|false),/g,
  )) {
    const take = () => parseTensor({ observer: name }, 'weights', true);
    if (weights === 'true') assert.equal(take().observer, name);
    else assert.throws(take, isError('INVALID_ARGUMENT', { value: 'weights.observer' }));
  }
});

test('docs/api.md has the tables of options', async () => {
  const text = read('docs/api.md');
  assert.equal(await withOptionTables(text), text, 'run node web/scripts/option_tables.mjs');
});

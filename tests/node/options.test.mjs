// The tables of options (web/quantize, web/train) against the rows of the core that read them, and against docs/api.md.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { operatorOptions, quantizeOptions, targets } from '../../dist/quantize/config.js';
import { parseTensor, tensorOptions } from '../../dist/quantize/tensor_options.js';
import { trainerOptions } from '../../dist/train/train_options.js';
import { withOptionTables } from '../../web/scripts/option_tables.mjs';
import { ROOT, isError } from './support.mjs';

const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');

/** Names of the rows of an options.inc of src/ for these macros. */
const rowsOf = (file, ...macros) =>
  [...read(`src/${file}`).matchAll(/^REQUANT_(\w+)\(.*?"(\w+)"/gm)]
    .filter(([, macro]) => macros.includes(macro))
    .map(([, , name]) => name);

/** The strings that begin the rows of a table of the core. */
function namesIn(file, table) {
  const [, rows] = new RegExp(`${table}\\[\\] = \\{([\\s\\S]*?)\\};`).exec(read(file));
  return [...rows.matchAll(/"(\w+)"/g)].map(([, name]) => name);
}

describe('the core reads every option by its row', () => {
  // What web/quantize/parse_config.ts translates.
  const translated = [
    ...['target', 'operatorTypes', 'operators', 'recover', 'scales'],
    ...['integerNormalizations', 'narrowWeights'], // options of operators, for all of them
  ];
  const without = (table, ...names) => Object.keys(table).filter((name) => !names.includes(name));
  const quantRows = (...macros) =>
    rowsOf('quant/options.inc', ...macros.map((name) => `${name}_OPTION`));
  for (const [table, rows, options] of [
    ['tensorOptions', quantRows('TENSOR', 'OBSERVER'), Object.keys(tensorOptions)],
    [
      'operatorOptions',
      quantRows('OPERATOR'),
      without(operatorOptions, 'activations', 'weights', 'inputs', 'outputs'),
    ],
    [
      'quantizeOptions',
      quantRows('QUANTIZE', 'RECOVERY'),
      without(quantizeOptions, 'activations', 'weights', ...translated),
    ],
    [
      'trainerOptions',
      rowsOf('train/options.inc', 'TRAIN_OPTION', 'TRAIN_NUMBER'),
      [...Object.keys(trainerOptions), 'measuredBatches'], // train.ts makes the last one
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
  same(trainerOptions.optimizer.of, 'src/train/options.cpp', 'kOptimizers');
  same(trainerOptions.scales.of, 'src/train/options.cpp', 'kScales');
  same(trainerOptions.loss.of, 'src/train/options.cpp', 'kLosses');
  same(trainerOptions.fold.of, 'src/train/options.cpp', 'kFolds');
  assert.deepEqual([...quantizeOptions.target.of].sort(), Object.keys(targets).sort());
});

test('numbers of training have the limits of the core', () => {
  const rows = [
    ...read('src/train/options.inc').matchAll(
      /^REQUANT_TRAIN_NUMBER\(\w+, "(\w+)", \S+, (<=?), (\d+)\)/gm,
    ),
  ];
  const numbers = Object.keys(trainerOptions).filter(
    (name) => trainerOptions[name].kind === 'number',
  );
  assert.deepEqual(rows.map(([, name]) => name).sort(), numbers.sort());
  for (const [, name, relation, limit] of rows) {
    const { has } = trainerOptions[name];
    const most = Number(limit);
    assert.deepEqual(
      [-1e-9, 0, most - 1e-9, most, most + 1e-9, NaN].map(has),
      [false, true, true, relation === '<=', false, false],
      name,
    );
  }
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

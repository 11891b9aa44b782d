// Prepares the modules that split_core.mjs divided for loading. Functions of the main module that others call
// are not exported, since pages would have to download their names: they are entries of a table, "shared",
// and the others import them by number. (The tools import those of the operators by number, too.) Until a
// later module is loaded, its entries in the function table are empty.
//
//   node share_functions.mjs main.wasm operators.wasm tools.wasm
//
// Run it after main's functions are optimized, so that equal ones are merged.

import { readFileSync, writeFileSync } from 'node:fs';
import {
  exports,
  filterExports,
  imports,
  redirectImports,
  renameExports,
} from './wasm_sections.mjs';
import { withEmptyEntries, withTable } from './wasm_tables.mjs';

/** The exports of a module that it imports itself: by the name of the export, the import. */
function passedOn(bytes) {
  const known = imports(bytes);
  const origin = ({ kind, index }) => known.filter((entry) => entry.kind === kind)[index];
  const pairs = exports(bytes).map((entry) => [entry.name, origin(entry)]);
  return new Map(pairs.filter(([, imported]) => imported));
}

const [main, operators, tools] = process.argv.slice(2);
const whole = readFileSync(main);
const between = readFileSync(operators);

const shared = exports(whole).filter(({ name, kind }) => kind === 'function' && name[0] === '%');
// The order of the code compresses best.
const functions = [...new Set(shared.map(({ index }) => index))].sort((a, b) => a - b);
const numbers = new Map(shared.map(({ name, index }) => [name, `${functions.indexOf(index)}`]));

/** Functions of the main module that the tools would otherwise get through the operators. */
const passed = passedOn(between);
const own = exports(between).filter(({ name }) => !passed.has(name));
const ownNumbers = new Map(own.map(({ name }, at) => [name, `${at}`]));
const connect = (bytes) =>
  redirectImports(bytes, (entry) => {
    const { module, name } = passed.get(entry.name) ?? entry;
    if (module === 'operators') return { module, name: ownNumbers.get(name) };
    const number = module === 'core' ? numbers.get(name) : undefined;
    return number === undefined ? { module, name } : { module: 'shared', name: number };
  });

const unshared = filterExports(whole, ({ name }) => !numbers.has(name));
writeFileSync(main, withTable(withEmptyEntries(unshared, 'absent'), 'shared', functions));
const renamed = renameExports(between, ({ name }) => ownNumbers.get(name));
writeFileSync(operators, withEmptyEntries(connect(renamed), 'absent'));
writeFileSync(tools, connect(readFileSync(tools)));

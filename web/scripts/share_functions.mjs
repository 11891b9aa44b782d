// What split_core.mjs divided, as it is loaded: main's functions that the others call are no exports,
// whose names a page would have to download, but entries of a table, "shared", and the others import
// them from there by their numbers. (The tools import those of the operators by numbers, too.) What is
// loaded later has empty entries in the function table until then.
//
//   node share_functions.mjs main.wasm operators.wasm tools.wasm
//
// Main's functions should be optimized by now, so that equal ones are one.

import { readFileSync, writeFileSync } from 'node:fs';
import {
  exports,
  filterExports,
  imports,
  redirectImports,
  renameExports,
} from './wasm_sections.mjs';
import { withEmptyEntries, withTable } from './wasm_tables.mjs';

/** What a module exports that it imports itself: by the name of the export, the import. */
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
// In the order of the code, which compresses best.
const functions = [...new Set(shared.map(({ index }) => index))].sort((a, b) => a - b);
const numbers = new Map(shared.map(({ name, index }) => [name, `${functions.indexOf(index)}`]));

/** The tools would get by way of the operators what they find in the main module. */
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

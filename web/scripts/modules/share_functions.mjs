// Prepares the modules that divide.mjs made for loading. Functions of the main module that others call are not
// exported, since pages would have to download their names (5 kB): they are entries of a table, "shared", and
// the others import them by number. The tools import those of the operators by number, too. Until a later
// module is loaded, its entries in the function table are empty.
//
//   node share_functions.mjs main.wasm operators.wasm tools.wasm
//
// Run it after main's functions are optimized, so that equal ones are merged.

import { readFileSync, writeFileSync } from 'node:fs';
import { elementsOf, exportsOf, functionsOf, readModule, writeModule } from './binaryen.mjs';

/** Makes table entries empty that hold functions imported from this module. */
function emptyEntries(module, origin) {
  const imported = functionsOf(module).filter((entry) => entry.module === origin);
  const absent = new Set(imported.map(({ name }) => name));
  for (const { name, table, first, functions } of elementsOf(module)) {
    if (!functions.some((entry) => absent.has(entry))) continue;
    module.removeElementSegment(name);
    // A segment for each run of entries in between.
    for (let start = 0, end; start < functions.length; start = end + 1) {
      end = start;
      while (end < functions.length && !absent.has(functions[end])) end++;
      if (end === start) continue;
      const run = functions.slice(start, end);
      const offset = module.i32.const(first + start);
      module.addActiveElementSegment(table, `${name}.${start}`, run, offset);
    }
  }
  for (const name of absent) module.removeFunction(name);
}

/** Lets the imported functions come from where source({ module, base }) says: another { module, base }. */
function redirectImports(module, source) {
  for (const { name, module: origin, base, params, results } of functionsOf(module)) {
    if (!origin) continue;
    const found = source({ module: origin, base });
    module.addFunctionImport(name, found.module, found.base, params, results);
  }
}

/** The exports that are functions of the module itself and those that it imports, by what they are called. */
function ownAndPassed(module) {
  const functions = new Map(functionsOf(module).map((entry) => [entry.name, entry]));
  const own = [];
  const passed = new Map();
  for (const { name, isFunction, value } of exportsOf(module)) {
    if (!isFunction) continue;
    const known = functions.get(value);
    if (known.module) passed.set(name, known);
    else own.push({ name, value });
  }
  return { own, passed };
}

/**
 * The bytes { main, operators, tools } of the modules, prepared for loading; `modules` has their bytes as
 * wasm-split wrote them.
 */
export function shareFunctions(modules) {
  const main = readModule(modules.main);
  const operators = readModule(modules.operators);
  const tools = readModule(modules.tools);

  // The order of the code compresses best.
  const order = new Map(functionsOf(main).map(({ name }, index) => [name, index]));
  const exported = exportsOf(main).filter(({ name, isFunction }) => isFunction && name[0] === '%');
  const shared = [...new Set(exported.map(({ value }) => value))];
  shared.sort((a, b) => order.get(a) - order.get(b));
  const entries = new Map(shared.map((value, entry) => [value, entry]));
  const numbers = new Map(exported.map(({ name, value }) => [name, `${entries.get(value)}`]));

  // The tools get functions of the main module from there, not through the operators.
  const { own, passed } = ownAndPassed(operators);
  const ownNumbers = new Map(own.map(({ name }, at) => [name, `${at}`]));
  const source = (entry) => {
    const { module, base } = (entry.module === 'operators' && passed.get(entry.base)) || entry;
    if (module === 'operators') return { module, base: ownNumbers.get(base) };
    const number = module === 'core' ? numbers.get(base) : undefined;
    return number === undefined ? { module, base } : { module: 'shared', base: number };
  };
  redirectImports(tools, source);
  redirectImports(operators, source);

  for (const name of passed.keys()) operators.removeExport(name);
  for (const { name, value } of own) {
    operators.removeExport(name);
    operators.addFunctionExport(value, ownNumbers.get(name));
  }
  for (const { name } of exported) main.removeExport(name);
  emptyEntries(main, 'absent');
  emptyEntries(operators, 'absent');
  main.addTable('shared', shared.length, shared.length);
  main.addTableExport('shared', 'shared');
  main.addActiveElementSegment('shared', 'shared', shared, main.i32.const(0));

  const write = (module) => {
    const bytes = writeModule(module, true);
    module.dispose();
    return bytes;
  };
  return { main: write(main), operators: write(operators), tools: write(tools) };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const [main, operators, tools] = process.argv.slice(2);
  const files = { main, operators, tools };
  const read = Object.entries(files).map(([part, file]) => [part, readFileSync(file)]);
  const made = shareFunctions(Object.fromEntries(read));
  for (const [part, file] of Object.entries(files)) writeFileSync(file, made[part]);
}

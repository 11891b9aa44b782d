// Divides the core into the module that runs most models, the extended operators and the tools. The latter
// two are loaded on demand.
//
//   node split_core.mjs --wasm-split BIN --wasm-dis FILE --nm LLVM_NM --objects LIST
//                       --operators LIST --tools LIST
//                       core.wasm inlined.wasm main.wasm operators.wasm tools.wasm
//
// The core must be linked with mangled names. The LISTs hold the sources of the operators and of the tools.
// The functions of these sources go to their module, together with functions that only they call and literals
// that only they use (move_literals.mjs). The tools are loaded after the operators and may call everything.
// The main module may call neither by name, and the operators may not call the tools: they reach later
// modules through the function table, or through exports that the loader calls.
//
// The script reads calls from the core as it was linked, and divides inlined.wasm, the same core with small
// functions inlined. share_functions.mjs then prepares the three modules for loading.

import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { moveLiterals } from './move_literals.mjs';

function parseArguments(args) {
  const options = {};
  while (args[0]?.startsWith('--')) {
    options[args.shift().slice(2)] = args.shift();
  }
  const [core, inlined, main, operators, tools] = args;
  return { ...options, core, inlined, files: { main, operators, tools } };
}

/**
 * The objects that define each function, by its name, and the functions that several may define (inline
 * ones).
 */
function definitions(nm, objects) {
  const found = new Map();
  const inline = new Set();
  // One call for all objects: every line has the name of a file and of a symbol.
  const text = execFileSync(nm, ['--defined-only', '--print-file-name', ...objects], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  for (const line of text.split('\n')) {
    const match = /^(.*): +\S* ([TtWw]) (\S+)$/.exec(line);
    if (!match) continue;
    const [, object, kind, name] = match;
    if (kind === 'W') inline.add(name);
    if (!found.has(name)) found.set(name, new Set());
    found.get(name).add(object);
  }
  return { found, inline };
}

/**
 * Reads the functions with the functions that they call or take the address of and with their constants, the
 * exports, and the function table.
 */
function readCalls(wasmDis, core) {
  const file = `${core}.wat`;
  execFileSync(process.execPath, [wasmDis, '--all-features', core, '-o', file]);
  const calls = new Map();
  const constants = new Map();
  const exported = [];
  const table = [];
  let current;
  let numbers;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line.startsWith(' (func $')) {
      current = new Set();
      numbers = [];
      const [, name] = /^ \(func \$([^\s()]+)/.exec(line);
      calls.set(name, current);
      constants.set(name, numbers);
    } else if (line.startsWith(' (elem ')) {
      const first = Number(/\(i32\.const (\d+)\)/.exec(line)[1]);
      const names = [...line.matchAll(/\$([^\s()]+)/g)].map((match) => match[1]).slice(1);
      for (const [at, name] of names.entries()) table[first + at] = name;
    } else if (line.startsWith(' (export ')) {
      const match = /\(func \$([^\s()]+)\)/.exec(line);
      if (match) exported.push(match[1]);
    }
    for (const match of line.matchAll(/\((?:return_call|call|ref\.func) \$([^\s()]+)/g)) {
      current?.add(match[1]);
    }
    for (const [, number] of line.matchAll(/(?:i32\.const |offset=)(\d+)/g)) {
      numbers?.push(Number(number));
    }
  }
  rmSync(file);
  return { calls, constants, exported, table };
}

const features = [
  'simd',
  'bulk-memory',
  'sign-ext',
  'mutable-globals',
  'nontrapping-float-to-int',
  'multivalue',
  'reference-types',
  'exception-handling',
].map((name) => `--enable-${name}`);

const args = parseArguments(process.argv.slice(2));
const { files } = args;
const readLines = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
const objects = readLines(args.objects).map((file) => path.normalize(file));

/** Returns a test for whether an object belongs to one of the sources in a list. */
function ofList(list) {
  const prefixes = readLines(list).map((source) => `core.dir/${source}`);
  for (const prefix of prefixes) {
    if (objects.some((object) => object.includes(prefix))) continue;
    throw new Error(`${list}: there is no ${prefix.replace('core.dir/', '')}`);
  }
  return (object) => prefixes.some((prefix) => object.includes(prefix));
}

const { found: defined, inline } = definitions(args.nm, objects);
const { calls, constants, exported, table } = readCalls(args['wasm-dis'], args.core);

// Initializers of globals run at start, and the table of all operators holds the rows of an operator family
// (SomeOps()).
const stays = /^_GLOBAL__sub_I_|^__cxx_global_var_init|^_ZN7requant\d+\w+OpsEv$/;
const isTool = ofList(args.tools);
const isOperator = ofList(args.operators);
/** Functions that only objects of one kind define; a shared template belongs to no module. */
const onlyOf = (isOwn) =>
  new Set(
    [...calls.keys()].filter((name) => {
      const having = defined.get(name);
      return !stays.test(name) && having !== undefined && [...having].every(isOwn);
    }),
  );
const toolsOwn = onlyOf(isTool);
const lateOwn = onlyOf((object) => isTool(object) || isOperator(object));

/**
 * The functions that `roots` need, themselves included, beyond `known`. `later` holds functions of modules
 * that are loaded after them: the build fails if one is called by name.
 */
function reach(what, roots, later, known = new Set()) {
  const found = new Set();
  const wrong = [];
  const waiting = [...roots];
  while (waiting.length > 0) {
    const name = waiting.pop();
    if (found.has(name) || !calls.has(name)) continue;
    found.add(name);
    for (const callee of calls.get(name)) {
      if (known.has(callee)) continue;
      // The function is shared after all.
      if (inline.has(callee)) later.delete(callee);
      if (later.has(callee)) wrong.push(`- ${name} calls ${callee}`);
      else waiting.push(callee);
    }
  }
  if (wrong.length > 0) {
    console.error([`${what} functions that are loaded later:`, ...wrong].join('\n'));
    process.exit(1);
  }
  return found;
}

const entered = [...exported, ...Object.values(table)];
const main = reach(
  'the main module calls',
  entered.filter((name) => !lateOwn.has(name)),
  lateOwn,
);
const operators = reach(
  'the operators call',
  [...lateOwn].filter((name) => !toolsOwn.has(name)),
  toolsOwn,
  main,
);

/** Keep names, for the next division. */
function split(whole, names, namespace, first, second) {
  const list = `${second}.txt`;
  writeFileSync(list, names.join('\n'));
  execFileSync(args['wasm-split'], [
    ...features,
    '--quiet',
    '-g',
    whole,
    `--split-funcs=@${list}`,
    '--export-prefix=%',
    `--import-namespace=${namespace}`,
    '--placeholder-namespace=absent',
    '-o1',
    first,
    '-o2',
    second,
  ]);
}

const late = [...calls.keys()].filter((name) => !main.has(name));
const both = `${files.tools}.both`;
split(args.inlined, late, 'core', files.main, both);
split(
  both,
  late.filter((name) => !operators.has(name)),
  'operators',
  files.operators,
  files.tools,
);
rmSync(both);

// A number at the end distinguishes functions with the same name in several objects.
const namesOf = (functions) =>
  new Set([...functions].flatMap((name) => [name, name.replace(/_\d+$/, '')]));
const constantsOf = (isWanted) =>
  [...constants].flatMap(([name, numbers]) => (isWanted(name) ? numbers : []));
const mainNames = namesOf(main);
const operatorNames = namesOf(operators);
moveLiterals(
  Object.values(files),
  objects,
  (names) => {
    // A function that is missing was merged with another one.
    if (names.some((name) => !calls.has(name) || mainNames.has(name))) return 0;
    return names.some((name) => operatorNames.has(name)) ? 1 : 2;
  },
  {
    first: constantsOf((name) => main.has(name) || !defined.has(name)),
    all: constantsOf(() => true),
  },
);

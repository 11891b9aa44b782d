// Divides the core into the module that runs models and the tools, which are loaded on demand.
//
//   node split_core.mjs --wasm-split BIN --wasm-dis FILE --nm LLVM_NM --sources LIST
//                       --objects LIST --entries FILE core.wasm main.wasm tools.wasm
//
// The core must have been linked with mangled names. LIST holds the sources of the tools. Their
// functions go into the tools, and with them what only they call. Nothing else may call them by name:
// the main module reaches them through the function table, whose entries are placeholders (imports of
// "tools") until the tools are loaded, or through exports that the loader calls then. FILE gets the
// numbers of these entries as runs, each by the distance from the end of the one before it and its
// length, 16 bits each.

import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

function parseArguments(args) {
  const options = {};
  while (args[0]?.startsWith('--')) {
    options[args.shift().slice(2)] = args.shift();
  }
  const [core, main, tools] = args;
  return { ...options, core, main, tools };
}

/** Which objects define a function, by its name. */
function definitions(nm, objects) {
  const found = new Map();
  // One call for all: names of files and of symbols on every line.
  const text = execFileSync(nm, ['--defined-only', '--print-file-name', ...objects], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  for (const line of text.split('\n')) {
    const match = /^(.*): +\S* [TtWw] (\S+)$/.exec(line);
    if (!match) continue;
    const [, object, name] = match;
    if (!found.has(name)) found.set(name, new Set());
    found.get(name).add(object);
  }
  return found;
}

/** Functions with those they call or take the address of, exports, and the function table. */
function readCalls(wasmDis, core) {
  const file = `${core}.wat`;
  execFileSync(process.execPath, [wasmDis, '--all-features', core, '-o', file]);
  const calls = new Map();
  const exported = [];
  const table = [];
  let current;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line.startsWith(' (func $')) {
      current = new Set();
      calls.set(/^ \(func \$([^\s()]+)/.exec(line)[1], current);
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
  }
  rmSync(file);
  return { calls, exported, table };
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
const readLines = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
const sources = readLines(args.sources);
const objects = readLines(args.objects).map((file) => path.normalize(file));
const isTool = (object) => sources.some((source) => object.includes(`core.dir/${source}`));
for (const source of sources) {
  if (objects.some((object) => object.includes(`core.dir/${source}`))) continue;
  console.error(`${args.sources}: there is no ${source}`);
  process.exit(1);
}

const defined = definitions(args.nm, objects);
const { calls, exported, table } = readCalls(args['wasm-dis'], args.core);

// Templates belong to the tools when nobody else has them. Initializers of globals run at start, and
// the rows of an operator family (SomeOps()) are in the table of all.
const stays = /^_GLOBAL__sub_I_|^__cxx_global_var_init|^_ZN7requant\d+\w+OpsEv$/;
const own = new Set(
  [...calls.keys()].filter((name) => {
    if (stays.test(name)) return false;
    const objects = defined.get(name);
    return objects !== undefined && [...objects].every(isTool);
  }),
);
const main = new Set();
const wrong = [];
const waiting = [...exported, ...Object.values(table)].filter((name) => !own.has(name));
while (waiting.length > 0) {
  const name = waiting.pop();
  if (main.has(name) || !calls.has(name)) continue;
  main.add(name);
  for (const callee of calls.get(name)) {
    // A template of such a function, or one that the standard library calls itself.
    if (own.has(callee) && (stays.test(name) || !defined.has(name))) own.delete(callee);
    if (own.has(callee)) wrong.push([name, callee]);
    else waiting.push(callee);
  }
}
if (wrong.length > 0) {
  console.error('the main module calls functions of the tools:');
  for (const [caller, callee] of wrong) console.error(`- ${caller} calls ${callee}`);
  process.exit(1);
}

const runs = [];
let end = 0;
for (const entry of Object.keys(table).map(Number)) {
  if (main.has(table[entry])) continue;
  if (entry === end && runs.length > 0) runs[runs.length - 1] += 1;
  else runs.push(entry - end, 1);
  end = entry + 1;
}
writeFileSync(args.entries, Buffer.from(Uint16Array.from(runs).buffer));
const list = `${args.tools}.txt`;
writeFileSync(list, [...calls.keys()].filter((name) => !main.has(name)).join('\n'));
execFileSync(args['wasm-split'], [
  ...features,
  args.core,
  `--split-funcs=@${list}`,
  '--export-prefix=%',
  '--import-namespace=core',
  '--placeholder-namespace=tools',
  '-o1',
  args.main,
  '-o2',
  args.tools,
]);

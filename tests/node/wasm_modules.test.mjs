// The scripts that make the wasm modules (web/scripts/modules), on small modules written as text.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import binaryen from 'binaryen';
import {
  FEATURES,
  elementsOf,
  exportsOf,
  functionsOf,
  globalsOf,
  readModule,
  tablesOf,
  writeModule,
} from '../../web/scripts/modules/binaryen.mjs';
import { readCalls } from '../../web/scripts/modules/call_graph.mjs';
import { kernelModuleProblems } from '../../web/scripts/modules/check_kernels.mjs';
import { closeModule } from '../../web/scripts/modules/close.mjs';
import {
  ofSources,
  parseDefinitions,
  readDefinitions,
  readLines,
} from '../../web/scripts/modules/definitions.mjs';
import { makeManifest, manifestText } from '../../web/scripts/modules/manifest.mjs';
import { moveData } from '../../web/scripts/modules/move_data.mjs';
import {
  Reader,
  assemble,
  readSections,
  writeName,
  writeUnsigned,
} from '../../web/scripts/modules/sections.mjs';
import { shareFunctions } from '../../web/scripts/modules/share_functions.mjs';
import { shareMemory } from '../../web/scripts/modules/share_memory.mjs';
import { splitByManifest } from '../../web/scripts/modules/split.mjs';
import { PLACE, stamp } from '../../web/scripts/modules/stamp.mjs';
import { ROOT } from '../../web/scripts/run.mjs';

/** The bytes of a module in text form, with the names of its functions. */
function wasm(text) {
  const module = binaryen.parseText(text);
  module.setFeatures(FEATURES);
  const bytes = writeModule(module, true);
  module.dispose();
  return bytes;
}

const importsIn = (bytes) =>
  WebAssembly.Module.imports(new WebAssembly.Module(bytes)).map(
    ({ kind, module, name }) => `${kind} ${module}.${name}`,
  );
const exportsIn = (bytes) =>
  WebAssembly.Module.exports(new WebAssembly.Module(bytes)).map(
    ({ kind, name }) => `${kind} ${name}`,
  );

/** A folder that is removed after the test. */
function folder(t) {
  const made = mkdtempSync(path.join(os.tmpdir(), 'requant-modules-'));
  t.after(() => rmSync(made, { recursive: true }));
  return made;
}

// --- The call graph ---

test('calls are read from every place of a function that may hold one', () => {
  const module = readModule(
    wasm(`(module
      (type $unary (func (param i32) (result i32)))
      (import "env" "log" (func $log (param i32)))
      (memory 1)
      (table 4 4 funcref)
      (elem (i32.const 1) func $leaf $entered)
      (elem declare func $addressed)
      (tag $tag (param i32))
      (global $global (mut i32) (i32.const 0))
      (export "run" (func $run))
      (func $leaf (type $unary) (local.get 0))
      (func $entered (type $unary) (local.get 0))
      (func $addressed (type $unary) (local.get 0))
      ${Array.from('abcdefghijklmnopq', (name) => `(func $${name} (type $unary) (local.get 0))`).join('\n')}
      (func $nothing)
      (func $run (param $x i32) (result i32) (local $f funcref)
        (if (call $a (i32.const 1)) (then (drop (call $b (i32.const 2)))) (else (call $nothing)))
        (loop $loop (br_if $loop (call $c (i32.const 3))))
        (block $one (block $two (br_table $one $two (call $d (i32.const 4)))))
        (global.set $global (call $e (i32.const 5)))
        (i32.store (call $f (i32.const 0)) (i32.load (call $g (i32.const 0))))
        (local.set $f (ref.func $addressed))
        (try
          (do (throw $tag (call $h (i32.const 6))))
          (catch $tag (drop (pop i32)) (call $log (call $i (i32.const 7)))))
        (memory.copy (i32.const 0) (call $j (i32.const 8)) (call $k (i32.const 9)))
        (memory.fill (call $l (i32.const 0)) (i32.const 0) (i32.const 0))
        (drop (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
          (i32x4.splat (call $m (i32.const 0))) (v128.load (call $n (i32.const 0)))))
        (drop (memory.grow (call $o (i32.const 0))))
        (return (call_indirect (type $unary)
          (select (call $p (i32.const 1)) (i32.const 0) (local.get $x))
          (call $q (i32.const 1))))))`),
  );
  const { calls, entered } = readCalls(module);
  assert.deepEqual(
    [...calls.get('run')].sort(),
    [...'abcdefghijklmnopq', 'addressed', 'log', 'nothing'].sort(),
  );
  assert.deepEqual([...calls.get('leaf')], []);
  assert.ok(!calls.has('log'), 'an import is no function of the module');
  assert.deepEqual(entered, ['run', 'leaf', 'entered']);
  module.dispose();
});

test('an expression whose operands are not known is an error', () => {
  const module = binaryen.parseText(`(module
    (memory 1 1 shared)
    (func $f (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))))`);
  assert.throws(() => readCalls(module), /knows no operands of expressions of kind AtomicRMW/);
  module.dispose();
});

test('functions, globals, tables, exports and segments are read with their names', () => {
  const module = readModule(
    wasm(`(module
      (import "core" "add" (func $add (param i32)))
      (import "core" "base" (global $base i32))
      (import "core" "table" (table $table 3 funcref))
      (global $own i32 (i32.const 1))
      (elem $segment (table $table) (i32.const 1) func $add $run)
      (func $run)
      (export "start" (func $run))
      (export "value" (global $own)))`),
  );
  const origin = ({ name, module: from, base }) => [name, from, base];
  assert.deepEqual(functionsOf(module).map(origin), [
    ['add', 'core', 'add'],
    ['run', '', ''],
  ]);
  assert.deepEqual(globalsOf(module).map(origin), [
    ['base', 'core', 'base'],
    ['own', '', ''],
  ]);
  assert.deepEqual(tablesOf(module).map(origin), [['table', 'core', 'table']]);
  assert.deepEqual(exportsOf(module), [
    { name: 'start', isFunction: true, value: 'run' },
    { name: 'value', isFunction: false, value: 'own' },
  ]);
  assert.deepEqual(elementsOf(module), [
    { name: 'segment', table: 'table', first: 1, functions: ['add', 'run'] },
  ]);
  assert.match(writeModule(module, true).toString('latin1'), /run/);
  assert.doesNotMatch(writeModule(module).toString('latin1'), /run/);
  module.dispose();
  const moving = readModule(
    wasm(`(module (import "core" "base" (global $base i32)) (table 1 funcref) (func $f)
      (elem (offset (global.get $base)) func $f))`),
  );
  assert.throws(() => elementsOf(moving), /begins at no constant entry/);
  moving.dispose();
});

// --- The manifest ---

/** A core with these functions: { name: [the objects that define it, the functions it calls, inline] }. */
function coreOf(functions, entered) {
  const rows = Object.entries(functions);
  return {
    graph: { calls: new Map(rows.map(([name, [, calls]]) => [name, new Set(calls)])), entered },
    definitions: new Map(
      rows.map(([name, [objects, , inline = false]]) => [name, { objects, inline }]),
    ),
    sources: {
      isOperator: (object) => object.startsWith('operator'),
      isTool: (object) => object.startsWith('tool'),
    },
  };
}
const manifestOf = (functions, entered) => {
  const { graph, definitions, sources } = coreOf(functions, entered);
  const sorted = Object.entries(makeManifest(graph, definitions, sources)).map(([part, names]) => [
    part,
    [...names].sort(),
  ]);
  return Object.fromEntries(sorted);
};

test('functions go to the module of their source, and what only they call with them', () => {
  const functions = {
    run: [['main.o'], ['both', 'shared']],
    both: [['main.o'], []],
    shared: [['main.o', 'operator.o'], [], true],
    scan: [['operator.o'], ['both', 'shared', 'only_scan']],
    only_scan: [['main.o'], []],
    quantize: [['tool.o'], ['scan', 'both', 'only_quantize']],
    only_quantize: [['main.o'], []],
    unused: [['main.o'], []],
    imported_by_hand: [[], []],
  };
  assert.deepEqual(manifestOf(functions, ['run', 'scan', 'quantize', 'not_defined']), {
    main: ['both', 'run', 'shared'],
    operators: ['only_scan', 'scan'],
    tools: ['imported_by_hand', 'only_quantize', 'quantize', 'unused'],
  });
});

test('an inline function goes to the first module that calls it', () => {
  const inline = (calls) => ({
    run: [['main.o'], calls.includes('main') ? ['length'] : []],
    scan: [['operator.o'], calls.includes('operators') ? ['length'] : []],
    quantize: [['tool.o'], ['length']],
    length: [['tool.o', 'tool2.o'], [], true],
  });
  const placeOf = (calls) => {
    const parts = Object.entries(manifestOf(inline(calls), ['run', 'scan', 'quantize']));
    return parts.find(([, names]) => names.includes('length'))[0];
  };
  assert.equal(placeOf([]), 'tools');
  assert.equal(placeOf(['operators']), 'operators');
  assert.equal(placeOf(['operators', 'main']), 'main');
});

test('initializers and rows of operators stay in the main module', () => {
  const stays = ['_GLOBAL__sub_I_scan.cpp', '__cxx_global_var_init', '_ZN7requant7ScanOpsEv'];
  const functions = Object.fromEntries(stays.map((name) => [name, [['operator.o'], []]]));
  const { main, operators } = manifestOf(functions, stays);
  assert.deepEqual(main, [...stays].sort());
  assert.deepEqual(operators, []);
});

test('a call to a module that is loaded later is an error that names both functions', () => {
  const early = {
    run: [['main.o'], ['helper']],
    helper: [['main.o'], ['scan']],
    scan: [['operator.o'], []],
  };
  assert.throws(
    () => manifestOf(early, ['run', 'scan']),
    /the main module would call functions that are loaded later:\n- helper calls scan\n.*LateFunction/,
  );
  const between = {
    scan: [['operator.o'], ['quantize']],
    quantize: [['tool.o'], []],
  };
  assert.throws(
    () => manifestOf(between, ['scan', 'quantize']),
    /the operators would call functions that are loaded later:\n- scan calls quantize\n/,
  );
});

test('a manifest is written in the form of wasm-split', () => {
  const manifest = { main: ['run'], operators: ['scan', 'loop'], tools: ['quantize'] };
  assert.equal(manifestText(manifest), 'operators\nscan\nloop\n\ntools\nquantize\n');
});

test('definitions of functions are read from nm and matched with lists of sources', (t) => {
  const objects = ['build/core.dir/src/a/one.cpp.obj', 'build/core.dir/src/b/two.cpp.obj'];
  const text = [
    `${objects[0]}: 00000001 T alpha`,
    `${objects[0]}: 00000002 W inline`,
    `${objects[1]}: 00000001 W inline`,
    `${objects[1]}: 00000003 t local`,
    `${objects[1]}: 00000000 D data`,
    '',
  ].join('\n');
  const expected = new Map([
    ['alpha', { objects: [objects[0]], inline: false }],
    ['inline', { objects, inline: true }],
    ['local', { objects: [objects[1]], inline: false }],
  ]);
  assert.deepEqual(parseDefinitions(text), expected);

  const list = path.join(folder(t), 'sources.txt');
  writeFileSync(list, '# A comment\nsrc/a/\n\n');
  assert.deepEqual(readLines(list), ['src/a/']);
  const isLate = ofSources(readLines(list), objects);
  assert.deepEqual(objects.map(isLate), [true, false]);
  assert.throws(() => ofSources(['src/c/'], objects), /no object is made of src\/c\/\. Name the/);

  const nm = path.join(path.dirname(list), 'nm');
  writeFileSync(nm, `#!/bin/sh\ncat <<'END'\n${text}END\n`, { mode: 0o755 });
  assert.deepEqual(readDefinitions(nm, objects), expected);
});

// --- Dividing and loading ---

/** The wasm-split that built the package. */
function findWasmSplit() {
  const cache = path.join(ROOT, 'build/wasm/CMakeCache.txt');
  const known = existsSync(cache) ? readFileSync(cache, 'utf8') : '';
  const file = /^REQUANT_WASM_SPLIT:FILEPATH=(.*)$/m.exec(known)?.[1] ?? 'wasm-split';
  try {
    execFileSync(file, ['--version'], { stdio: 'ignore' });
    return file;
  } catch {
    return undefined;
  }
}
const wasmSplit = findWasmSplit();

// An entry of the table for each function, and a function that calls by entry.
const CORE = `(module
  (type $unary (func (param i32) (result i32)))
  (import "env" "log" (func $log (param i32)))
  (memory $memory 1)
  (data (i32.const 8) "seven")
  (table $table 4 4 funcref)
  (elem (i32.const 1) func $run $scan $quantize)
  (export "memory" (memory $memory))
  (export "__indirect_function_table" (table $table))
  (export "call" (func $call))
  (export "run" (func $run))
  (func $call (param $entry i32) (param $value i32) (result i32)
    (call_indirect (type $unary) (local.get $value) (local.get $entry)))
  (func $square (param i32) (result i32)
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (i32.mul (local.get 0) (local.get 0)))
  (func $twice (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
  (func $run (param i32) (result i32) (call $log (local.get 0)) (call $square (local.get 0)))
  (func $scan (param i32) (result i32)
    (i32.add (call $square (local.get 0)) (call $twice (local.get 0))))
  (func $quantize (param i32) (result i32)
    (call $log (i32.const 5))
    (i32.add (call $scan (local.get 0)) (i32.add (call $twice (local.get 0)) (call $square (i32.const 3))))))`;

const CORE_FUNCTIONS = {
  call: [['main.o']],
  square: [['main.o']],
  run: [['main.o']],
  scan: [['operator.o']],
  twice: [['operator.o']],
  quantize: [['tool.o']],
};

/** The bytes { main, operators, tools } of the divided CORE. */
function divideCore(t) {
  const where = folder(t);
  const whole = path.join(where, 'core.wasm');
  writeFileSync(whole, wasm(CORE));
  const { definitions, sources } = coreOf(CORE_FUNCTIONS, []);
  const module = readModule(readFileSync(whole));
  const manifest = makeManifest(readCalls(module), definitions, sources);
  module.dispose();
  const files = Object.fromEntries(
    ['main', 'operators', 'tools'].map((part) => [part, path.join(where, `${part}.wasm`)]),
  );
  splitByManifest(wasmSplit, whole, manifest, files);
  assert.equal(readFileSync(path.join(where, 'main.manifest.txt'), 'utf8'), manifestText(manifest));
  const parts = Object.entries(files).map(([part, file]) => [part, readFileSync(file)]);
  return Object.fromEntries(parts);
}

test(
  'a divided core works, and later entries are empty until their module is loaded',
  { skip: !wasmSplit && 'wasm-split is missing' },
  (t) => {
    const { main, operators, tools } = shareFunctions(divideCore(t));
    const start = (bytes, imports) =>
      new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;

    const logged = [];
    const core = start(main, { env: { log: (value) => logged.push(value) } });
    const table = core.__indirect_function_table;
    assert.equal(core.call(1, 3), 9);
    assert.deepEqual(
      [0, 1, 2, 3].map((entry) => table.get(entry) === null),
      [true, false, true, true],
    );
    assert.throws(() => core.call(2, 3), WebAssembly.RuntimeError);

    // As web/engine/load_core.ts does it.
    const shared = Object.fromEntries(
      Array.from({ length: core.shared.length }, (_, entry) => [entry, core.shared.get(entry)]),
    );
    const own = start(operators, { core, shared });
    assert.equal(core.call(2, 3), 9 + 6);
    assert.equal(table.get(3), null);
    start(tools, { core, shared, operators: own });
    assert.equal(core.call(3, 3), 15 + 6 + 9);
    assert.deepEqual(logged, [3, 5]);
    // All three use one memory.
    assert.equal(new Uint32Array(core.memory.buffer)[0], 4);
  },
);

test(
  'functions are shared by number instead of by name',
  { skip: !wasmSplit && 'wasm-split is missing' },
  (t) => {
    const divided = divideCore(t);
    assert.ok(exportsIn(divided.main).includes('function %square'));
    assert.ok(importsIn(divided.tools).includes('function operators.%square'));
    const { main, operators, tools } = shareFunctions(divided);

    const named = exportsIn(main).filter((entry) => entry.startsWith('function'));
    assert.deepEqual(named, ['function call', 'function run']);
    assert.ok(exportsIn(main).includes('table shared'));
    const functions = (bytes) => importsIn(bytes).filter((entry) => entry.startsWith('function'));
    // log is an import of the main module that the tools use: it is shared like a function.
    assert.deepEqual(functions(main), ['function env.log']);
    // The operators do not call log; wasm-opt removes the import.
    assert.deepEqual(functions(operators), ['function shared.0', 'function shared.1']);
    assert.deepEqual(functions(tools).sort(), [
      'function operators.0',
      'function operators.1',
      'function shared.0',
      'function shared.1',
    ]);
    const numbers = exportsIn(operators).filter((entry) => entry.startsWith('function'));
    assert.deepEqual(numbers, ['function 0', 'function 1']);
  },
);

// --- Other forms of modules ---

test('a module that shares its memory is the same but for the memory', () => {
  const own = wasm(`(module
    (import "env" "log" (func (param i32)))
    (import "env" "base" (global i32))
    (memory $memory 3)
    (export "memory" (memory $memory))
    (export "load" (func $load))
    (data (i32.const 8) "\\2a")
    (func $load (result i32) (i32.load8_u (i32.const 8))))`);
  const threaded = shareMemory(own);
  assert.deepEqual(importsIn(threaded).sort(), [
    'function env.log',
    'global env.base',
    'memory env.memory',
  ]);
  const unlike = (bytes) => readSections(bytes).filter(({ id }) => id !== 2 && id !== 5);
  assert.deepEqual(unlike(threaded), unlike(own));
  const memory = new WebAssembly.Memory({ initial: 256, maximum: 65536, shared: true });
  const imports = { env: { log() {}, base: 1, memory } };
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(threaded), imports);
  assert.equal(exports.load(), 42);
  assert.equal(exports.memory, memory);

  // A kernel module keeps the names of the memory that it imports.
  const kernels = shareMemory(
    wasm(`(module
      (import "core" "memory" (memory 1))
      (import "core" "table" (table 1 2 funcref))
      (import "core" "tag" (tag (param i32))))`),
  );
  assert.deepEqual(importsIn(kernels).sort(), [
    'memory core.memory',
    'table core.table',
    'tag core.tag',
  ]);
});

test('a module whose memory cannot be shared is an error', () => {
  const log = '(import "env" "log" (func))';
  assert.throws(() => shareMemory(wasm(`(module ${log} (memory 257))`)), /wants 257 pages.* 256/);
  assert.throws(() => shareMemory(wasm(`(module ${log})`)), /has no memory/);
  assert.throws(() => shareMemory(wasm('(module (memory 1))')), /has no imports/);
  assert.throws(() => shareMemory(Buffer.from('not wasm')), /not a wasm module/);
});

test('sections are read and written again byte for byte', () => {
  const bytes = wasm(CORE);
  assert.deepEqual(assemble(readSections(bytes)), bytes);
  assert.throws(() => readSections(bytes.subarray(0, -1)), /unexpected end/);
  for (const value of [0, 1, 127, 128, 16383, 16384, 65536, 2 ** 32 - 1]) {
    const reader = new Reader(Uint8Array.from([...writeUnsigned(value), 9]));
    assert.equal(reader.unsigned(), value);
    assert.equal(reader.byte(), 9);
    assert.throws(() => reader.byte(), /unexpected end/);
  }
  const reader = new Reader(Uint8Array.from([7, ...writeName('Größe')]));
  assert.equal(reader.skip(1).name(), 'Größe');
});

test('closing a module removes the exports of kernels', () => {
  const closed = closeModule(
    wasm(`(module
      (export "rq_add" (func $add)) (export "_Z3subv" (func $add)) (export "run" (func $run))
      (func $add (result i32) (i32.const 7))
      (func $run (result i32) (call $add)))`),
  );
  assert.deepEqual(exportsIn(closed), ['function run']);
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(closed));
  assert.equal(exports.run(), 7);
});

test('closing a module whose kernels are missing is an error that names them', () => {
  const open = wasm(`(module
    (import "kernels" "rq_add" (func)) (import "kernels" "rq_sub" (func)) (import "env" "log" (func)))`);
  assert.throws(() => closeModule(open), /that no vector\*\.cpp defines:\n- rq_add\n- rq_sub$/);
});

test('a kernel module with data, globals, imports or without kernels must not be merged', () => {
  const problems = (text) => kernelModuleProblems(wasm(`(module ${text})`));
  const kernel = '(func $k) (export "rq_k" (func $k))';
  const memory = '(import "core" "memory" (memory 1))';
  assert.deepEqual(problems(`${memory} ${kernel}`), []);
  assert.match(problems(`${memory} (data (i32.const 0) "a") ${kernel}`)[0], /^1 data segment/);
  assert.match(problems(`(global (mut i32) (i32.const 0)) ${kernel}`)[0], /^1 global\(s\)/);
  assert.match(problems(`(import "env" "exp" (func)) ${kernel}`)[0], /^imports env\.exp: a kernel/);
  assert.match(problems(`(import "env" "sp" (global i32)) ${kernel}`)[0], /^imports env\.sp:/);
  assert.match(problems(`(import "env" "t" (table 1 funcref)) ${kernel}`)[0], /^imports env\.t:/);
  assert.deepEqual(problems('(func $k) (export "k" (func $k))'), [
    'exports no function named rq_*',
  ]);
});

test('a build id depends on the module and on what it is used with', () => {
  const module = Buffer.from(`before ${PLACE} after`);
  const [one, other] = [stamp(module, [Buffer.from('a')]), stamp(module, [Buffer.from('b')])];
  assert.equal(one.length, module.length);
  assert.match(one.toString(), /^before [0-9a-f]{32} after$/);
  assert.notDeepEqual(one, other);
  assert.deepEqual(stamp(module, [Buffer.from('a')]), one);
  assert.notDeepEqual(
    stamp(Buffer.from(`b_fore ${PLACE} after`), []).subarray(7),
    stamp(module, []).subarray(7),
  );
  assert.equal(module.toString(), `before ${PLACE} after`, 'the given bytes stay');
  assert.throws(() => stamp(one, []), /not exactly one place/);
  assert.throws(() => stamp(Buffer.concat([module, module]), []), /not exactly one place/);
});

describe('moveData', () => {
  const main = wasm(`(module
    (memory (export "memory") 1)
    (data $kept (i32.const 0) "kept")
    (data $late (i32.const 16) "text")
    (func $at (export "at") (param i32) (result i32) (i32.load8_u (local.get 0))))`);
  const later = wasm(`(module
    (import "core" "memory" (memory 1))
    (func $at (export "at") (param i32) (result i32) (i32.load8_u (local.get 0))))`);
  const instantiate = (bytes, imports) =>
    new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;

  test('moves a segment to the module that is loaded later', () => {
    const { from, to } = moveData('late', { from: main, to: later });
    const core = instantiate(from);
    const read = () => String.fromCharCode(...[0, 1, 2, 3].map((i) => core.at(16 + i)));
    assert.equal(String.fromCharCode(core.at(0)), 'k');
    assert.equal(read(), '\0\0\0\0');
    const { at } = instantiate(to, { core });
    assert.equal(read(), 'text');
    assert.equal(at(19), 't'.charCodeAt(0));
    assert.ok(readModule(from) && readModule(to));
  });

  test('refuses a segment that is not there, and a target with data', () => {
    assert.throws(
      () => moveData('other', { from: main, to: later }),
      /no segment of data is called other/,
    );
    assert.throws(() => moveData('late', { from: main, to: main }), /data of its own/);
  });
});

// The layers of src/ (src/README.md): every #include names a folder that the including one may use.
// CMakeLists.txt links by the same table.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const SOURCES = path.join(ROOT, 'src');

// For each layer, the layers directly below it; it may use whatever they use.
const BELOW = {};
const cmake = readFileSync(path.join(ROOT, 'CMakeLists.txt'), 'utf8');
for (const [, layer, list] of cmake.matchAll(/^set\(REQUANT_BELOW_(\w+)([^)]*)\)/gm)) {
  BELOW[layer] = list.trim().split(/\s+/).filter(Boolean);
}

function visible(layer) {
  const seen = new Set([layer]);
  for (const name of seen) for (const below of BELOW[name]) seen.add(below);
  return seen;
}

function sourceFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(h|cpp|inc)$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
}

function projectIncludes(file) {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map((match) => match[1]);
}

test('the table of layers has no cycle and the expected order', () => {
  assert.deepEqual([...visible('tensor')].sort(), ['base', 'tensor']);
  for (const layer of ['ir', 'ops', 'interpret', 'onnx', 'tflite', 'passes', 'quant']) {
    assert.ok(!visible(layer).has('kernels'), `${layer} must not know kernels`);
  }
  for (const one of ['onnx', 'tflite', 'passes', 'quant']) {
    const siblings = ['onnx', 'tflite', 'passes', 'quant'].filter((name) => name !== one);
    for (const sibling of siblings) assert.ok(!visible(one).has(sibling), `${one}, ${sibling}`);
  }
  for (const layer of Object.keys(BELOW)) {
    for (const below of BELOW[layer]) {
      assert.ok(!visible(below).has(layer), `${layer} and ${below} see each other`);
    }
  }
});

test('the folders of src are the layers', () => {
  const folders = readdirSync(SOURCES, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
  assert.deepEqual(folders.sort(), Object.keys(BELOW).sort());
  const listed = /^set\(REQUANT_LAYERS([^)]*)\)/m.exec(cmake)[1].trim().split(/\s+/);
  assert.deepEqual(listed.sort(), Object.keys(BELOW).sort());
});

test('every #include in src names a file of a visible layer', () => {
  const problems = [];
  let checked = 0;
  for (const file of sourceFiles(SOURCES)) {
    const relative = path.relative(SOURCES, file);
    const layer = relative.split(path.sep)[0];
    if (!(layer in BELOW)) continue;
    for (const include of projectIncludes(file)) {
      checked += 1;
      const target = include.split('/')[0];
      if (!(target in BELOW)) problems.push(`${relative}: "${include}" is not a path from src/`);
      else if (!visible(layer).has(target)) problems.push(`${relative}: "${include}"`);
    }
  }
  assert.deepEqual(problems, []);
  assert.ok(checked > 0);
});

// Folders within a layer that include each other, and why.
const CYCLES = [
  // Rows of one table (conv_q8): rows of few bits write what rows on planes of bits read, and all of them
  // know which are fast.
  ['kernels/bitserial', 'kernels/conv'],
  // Lowering adds steps to the builder, which itself adds steps that change layouts.
  ['plan/builder', 'plan/lower'],
];

test('folders within a layer see each other in one direction', () => {
  // A file in the layer's own folder forms a unit with its header.
  const unitOf = (file) => {
    const [layer, name, ...rest] = file.split('/');
    return `${layer}/${rest.length > 0 ? name : name.replace(/\.\w+$/, '')}`;
  };
  const folders = new Set();
  const seen = {};
  for (const file of sourceFiles(SOURCES)) {
    const relative = path.relative(SOURCES, file).split(path.sep).join('/');
    const unit = unitOf(relative);
    if (relative.split('/').length > 2) folders.add(unit);
    seen[unit] ??= new Set([unit]);
    for (const include of projectIncludes(file)) {
      if (include.split('/')[0] === relative.split('/')[0]) seen[unit].add(unitOf(include));
    }
  }
  for (const unit of Object.keys(seen)) {
    for (const name of seen[unit]) for (const further of seen[name]) seen[unit].add(further);
  }
  const cycles = new Set();
  for (const folder of folders) {
    const cycle = [...seen[folder]].filter((unit) => seen[unit].has(folder)).sort();
    if (cycle.length > 1) cycles.add(cycle.join(', '));
  }
  assert.deepEqual([...cycles].sort(), CYCLES.map((cycle) => cycle.join(', ')).sort());
});

// A folder that holds more has rooms to be divided into.
const MOST_FILES = 25;

test('no folder of src has more files than a reader can keep in view', () => {
  const counts = {};
  for (const entry of readdirSync(SOURCES, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const folder = path.relative(SOURCES, entry.parentPath ?? entry.path);
    counts[folder] = (counts[folder] ?? 0) + 1;
  }
  const crowded = Object.entries(counts).filter(([, count]) => count > MOST_FILES);
  assert.deepEqual(crowded, []);
});

// A longer file is about more than one thing; lists (.inc) may have any length.
const MOST_LINES = 400;

test('no file of src is longer than a reader can keep in mind', () => {
  const long = sourceFiles(SOURCES)
    .filter((file) => !file.endsWith('.inc'))
    .map((file) => [
      path.relative(SOURCES, file),
      readFileSync(file, 'utf8').split('\n').length - 1,
    ])
    .filter(([, lines]) => lines > MOST_LINES);
  assert.deepEqual(long, []);
});

test('bindings include api only', () => {
  const problems = [];
  for (const file of sourceFiles(path.join(ROOT, 'bindings'))) {
    for (const include of projectIncludes(file)) {
      const target = include.split('/')[0];
      if (target in BELOW && target !== 'api') problems.push(`${path.basename(file)}: ${include}`);
    }
  }
  assert.deepEqual(problems, []);
});

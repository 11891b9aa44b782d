// How the files of the package import each other.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';
import { ROOT } from './support.mjs';

const DIST = path.join(ROOT, 'dist');

/** The files of ours that a file loads before it runs itself. */
function importsOf(file) {
  const text = readFileSync(path.join(DIST, file), 'utf8');
  const named = [...text.matchAll(/^(?:import|export)\b[^;]*?['"](\.[^'"]*)['"];/gm)];
  return named.map(([, from]) => path.join(path.dirname(file), from));
}

/** The scripts that workers start with, by the form that bundlers know. */
function workerScripts(files) {
  const scripts = new Set();
  for (const file of files) {
    const text = readFileSync(path.join(DIST, file), 'utf8');
    const starts = text.matchAll(/new Worker\(\s*new URL\(\s*'([^']*)',\s*import\.meta\.url\)/g);
    for (const [, script] of starts) scripts.add(path.join(path.dirname(file), script));
  }
  return [...scripts].sort();
}

/** What the dynamic imports of a file name, as they are written. */
function dynamicImportsOf(file) {
  const text = readFileSync(path.join(DIST, file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  const found = [];
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      found.push(node.arguments[0].getText(source));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const scripts = () =>
  readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));

// Bundlers that make a classic script of a worker (Vite before 8, Parcel) cannot divide it into chunks.
test('no worker script reaches a dynamic import that a bundler would divide it at', () => {
  const workers = workerScripts(scripts());
  assert.deepEqual(workers, ['kernel_worker.js', 'worker_main.js']);
  for (const worker of workers) {
    const reached = new Set([worker]);
    for (const file of reached) for (const next of importsOf(file)) reached.add(next);
    assert.ok(reached.has('source.js'));
    for (const file of reached) {
      // Node's modules are imported by a name that no bundler can follow.
      const allowed = file === 'source.js' ? ['specifier'] : [];
      assert.deepEqual(dynamicImportsOf(file), allowed, `${worker} reaches ${file}`);
    }
  }
});

test('pages that only run models reach no tools by the session', () => {
  const reached = new Set(['session.js']);
  for (const file of reached) for (const next of importsOf(file)) reached.add(next);
  for (const file of ['tune.js', 'train.js', 'generate.js', 'worker_main.js']) {
    assert.ok(!reached.has(file), `session.js reaches ${file}`);
  }
});

test('no file needs itself to be loaded first', () => {
  const done = new Set();
  const follow = (file, way) => {
    assert.ok(!way.includes(file), `a circle: ${[...way, file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const next of importsOf(file)) follow(next, [...way, file]);
    done.add(file);
  };
  // core.js is Emscripten's.
  for (const file of scripts().filter((name) => name !== 'core.js')) follow(file, []);
  assert.ok(done.has('quantize.js') && done.has('cli/main.js'));
});

// The files of the package that others reach by imports. rooms.test.mjs checks their order.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';
import { ROOT } from './support.mjs';

const DIST = path.join(ROOT, 'dist');
const PAGE_ENTRIES = [
  'index.js',
  'dataset/index.js',
  'generate/index.js',
  'report/index.js',
  'transformers/index.js',
];

/** The files of ours that a file loads before it runs itself. */
function importsOf(file) {
  const text = readFileSync(path.join(DIST, file), 'utf8');
  const named = [...text.matchAll(/^(?:import|export)\b[^;]*?['"](\.[^'"]*)['"];/gm)];
  return named.map(([, from]) => path.join(path.dirname(file), from));
}

/** The scripts that workers start with, found in the form that bundlers recognize. */
function workerScripts(files) {
  const scripts = new Set();
  for (const file of files) {
    const text = readFileSync(path.join(DIST, file), 'utf8');
    const starts = text.matchAll(/new Worker\(\s*new URL\(\s*'([^']*)',\s*import\.meta\.url\)/g);
    for (const [, script] of starts) scripts.add(path.join(path.dirname(file), script));
  }
  return [...scripts].sort();
}

/** The results of `see(node, source)` for the nodes of a file's syntax tree, without undefined ones. */
function inTree(file, see) {
  const text = readFileSync(path.join(DIST, file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node) => {
    const seen = see(node, source);
    if (seen !== undefined) found.push(seen);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The specifiers of a file's dynamic imports, as they are written. */
const dynamicImportsOf = (file) =>
  inTree(file, (node, source) =>
    ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
      ? node.arguments[0].getText(source)
      : undefined,
  );

/** Names in a file that only Node has, except for those of properties. */
const nodeGlobalsOf = (file) =>
  inTree(file, (node) => {
    const names = ['process', 'Buffer', 'require', '__dirname', '__filename'];
    if (!ts.isIdentifier(node) || !names.includes(node.text)) return undefined;
    const { parent } = node;
    if (ts.isPropertyAccessExpression(parent) && parent.name === node) return undefined;
    if (ts.isPropertyAssignment(parent) && parent.name === node) return undefined;
    return node.text;
  });

/** A file and all that it loads before it runs. */
function reachedFrom(...files) {
  const reached = new Set(files);
  for (const file of reached) for (const next of importsOf(file)) reached.add(next);
  return reached;
}

const scripts = () =>
  readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));

// Bundlers that make a classic script of a Worker (Vite before 8, Parcel) cannot divide it into chunks. A
// Worker of the page's own may import whatever a page may.
test('neither pages nor Workers reach a dynamic import that a bundler would divide them at', () => {
  const workers = workerScripts(scripts());
  assert.deepEqual(workers, ['kernel_worker.js', 'worker_main.js']);
  for (const entry of [...workers, ...PAGE_ENTRIES]) {
    for (const file of reachedFrom(entry)) {
      // Node's modules are imported by a name that no bundler can follow.
      const allowed = file === 'base/host.js' ? ['specifier'] : [];
      assert.deepEqual(dynamicImportsOf(file), allowed, `${entry} reaches ${file}`);
    }
  }
});

// A bundler would replace them by a polyfill, or fail for lack of one (Parcel).
test('what a page loads names nothing that only Node has', () => {
  for (const file of reachedFrom(...PAGE_ENTRIES, 'worker_main.js', 'kernel_worker.js')) {
    assert.deepEqual(nodeGlobalsOf(file), [], file);
  }
});

test('pages that only run models reach no tools by the session', () => {
  const reached = reachedFrom('session/session.js');
  assert.ok(reached.has('engine/load_core.js'));
  for (const file of reached) {
    assert.doesNotMatch(file, /^(tune|analyze|train|export|worker)\/|^worker_main/, file);
  }
});

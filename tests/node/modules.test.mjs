// How the files of the package import each other.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support.mjs';

const DIST = path.join(ROOT, 'dist');

/** The files of ours that a file loads before it runs itself. */
function importsOf(file) {
  const text = readFileSync(path.join(DIST, file), 'utf8');
  const named = [...text.matchAll(/^(?:import|export)\b[^;]*?['"](\.[^'"]*)['"];/gm)];
  return named.map(([, from]) => path.join(path.dirname(file), from));
}

test('no file needs itself to be loaded first', () => {
  const done = new Set();
  const follow = (file, way) => {
    assert.ok(!way.includes(file), `a circle: ${[...way, file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const next of importsOf(file)) follow(next, [...way, file]);
    done.add(file);
  };
  const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' });
  // core.js is Emscripten's.
  for (const file of files.filter((name) => name.endsWith('.js') && name !== 'core.js')) {
    follow(file, []);
  }
  assert.ok(done.has('quantize.js') && done.has('cli/main.js'));
});

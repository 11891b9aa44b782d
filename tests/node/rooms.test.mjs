// The rooms of web/ (web/README.md): every import names a file of the same room or of one above it in the
// list.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support.mjs';

const WEB = path.join(ROOT, 'web');
const MOST_FILES = 25;
const MOST_LINES = 400;

/** The rooms in order: folders end in a slash, files in web/ itself are listed by name. */
const ROOMS = (() => {
  const readme = readFileSync(path.join(WEB, 'README.md'), 'utf8');
  const [, list] = /## Rooms\n[\s\S]*?\n\n((?: {4}.*\n)+)/.exec(readme);
  const rows = list.split('\n').filter((line) => /^ {4}\S/.test(line));
  return rows.map((row) => row.trim().split(/ {2,}/)[0].split(', '));
})();

const placeOf = (unit) => ROOMS.findIndex((names) => names.includes(unit));

/** The TypeScript files of web/, by relative path. */
const SOURCES = readdirSync(WEB, { recursive: true, encoding: 'utf8' })
  .map((file) => file.split(path.sep).join('/'))
  .filter((file) => file.endsWith('.ts') && !file.startsWith('scripts/'));

/** The room of a file, as the list names it. */
const roomOf = (file) =>
  file.includes('/') ? `${file.split('/')[0]}/` : file.replace(/(\.d)?\.ts$/, '');

/** The files of ours that a file imports, including types and dynamic imports. */
function importsOf(file) {
  const text = readFileSync(path.join(WEB, file), 'utf8');
  return [...text.matchAll(/(?:\bfrom|\bimport)[\s(]*'(\.[^']*)\.js'/g)].map(([, from]) => {
    const target = path.posix.join(path.posix.dirname(file), from);
    const found = SOURCES.find((name) => name === `${target}.ts` || name === `${target}.d.ts`);
    assert.ok(found, `${file} imports ${from}.js, which has no source`);
    return found;
  });
}

test('the list of rooms has every folder and file of web/, and no others', () => {
  const units = new Set(SOURCES.map(roomOf));
  assert.deepEqual(ROOMS.flat().sort(), [...units].sort());
});

test('every import names a file of the same room or of one above it', () => {
  const problems = [];
  let checked = 0;
  for (const file of SOURCES) {
    for (const imported of importsOf(file)) {
      checked += 1;
      if (placeOf(roomOf(imported)) > placeOf(roomOf(file))) problems.push(`${file}: ${imported}`);
    }
  }
  assert.deepEqual(problems, []);
  assert.ok(checked > 500);
});

test('no file imports another one dynamically, since Vite up to 7 makes Workers of one file', () => {
  const found = SOURCES.filter(
    (file) =>
      !file.startsWith('cli/') &&
      /(?<!typeof )\bimport\(\s*['"`]/.test(readFileSync(path.join(WEB, file), 'utf8')),
  );
  assert.deepEqual(found, []);
});

test('no file needs itself by way of others, types included', () => {
  const done = new Set();
  const follow = (file, way) => {
    assert.ok(!way.includes(file), `a circle: ${[...way, file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const next of importsOf(file)) follow(next, [...way, file]);
    done.add(file);
  };
  for (const file of SOURCES) follow(file, []);
  assert.equal(done.size, SOURCES.length);
});

test(`no file of web/ has more than ${MOST_LINES} lines`, () => {
  for (const file of SOURCES) {
    const lines = readFileSync(path.join(WEB, file), 'utf8').split('\n').length - 1;
    assert.ok(lines <= MOST_LINES, `${file} has ${lines} lines`);
  }
});

test(`no folder of web/ has more than ${MOST_FILES} files`, () => {
  const folders = [
    WEB,
    ...readdirSync(WEB, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name)),
  ];
  for (const folder of folders) {
    const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
    assert.ok(files.length <= MOST_FILES, `${folder} has ${files.length} files`);
  }
});

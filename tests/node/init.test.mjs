// The command `init`: the projects that it writes, and where it refuses. tests/browser/projects.test.mjs installs, builds
// and runs them.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { runCli } from '../../dist/cli/run.js';
import { version } from '../../dist/index.js';
import { ROOT } from './support.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-init-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name) => path.join(folder, name);

async function requant(...args) {
  let [out, err] = ['', ''];
  const code = await runCli(args, {
    out: (text) => (out += text),
    err: (text) => (err += text),
    tty: false,
  });
  return { code, out, err };
}

const projects = JSON.parse(readFileSync(path.join(ROOT, 'demos/projects/projects.json'), 'utf8'));

test('writes every project of the list, with the version of the package', async () => {
  const { out: list } = await requant('init', '--list', '--json');
  assert.deepEqual(Object.keys(JSON.parse(list)), Object.keys(projects));
  for (const [name, { files, next }] of Object.entries(projects)) {
    const { code, out, err } = await requant('init', name, '-o', at(name));
    assert.equal(code, 0, err);
    assert.equal(err, '');
    for (const command of next) assert.ok(out.includes(`\n  ${command}\n`), out);
    for (const file of ['.gitignore', ...Object.keys(files)]) {
      assert.ok(existsSync(path.join(at(name), file)), `${name}: ${file}`);
    }
    const text = readFileSync(path.join(at(name), name === 'html' ? 'index.html' : 'package.json'));
    assert.ok(text.includes(version), `${name} names no version`);
    assert.ok(!text.includes('latest'), `${name} has a place for the version`);
  }
});

test('the project for Node runs', () => {
  mkdirSync(at('node/node_modules'));
  execFileSync('ln', ['-s', ROOT, at('node/node_modules/requant')]);
  const out = execFileSync(process.execPath, ['main.js'], { cwd: at('node'), encoding: 'utf8' });
  assert.match(out, /Both say the same about 1[0-2] of 12 pictures/);
});

test('refuses unknown projects, and folders that have something', async () => {
  const unknown = await requant('init', 'vit', '-o', at('x'));
  assert.equal(unknown.code, 2);
  assert.match(unknown.err, /no project "vit". Did you mean "vite"/);
  assert.ok(!existsSync(at('x')));
  mkdirSync(at('full'));
  writeFileSync(at('full/mine.txt'), 'mine');
  const full = await requant('init', 'node', '-o', at('full'));
  assert.equal(full.code, 1);
  assert.match(full.err, /full is not empty: it has mine\.txt/);
  assert.ok(!existsSync(at('full/package.json')));
  const file = await requant('init', 'node', '-o', at('full/mine.txt'));
  assert.equal(file.code, 1);
  assert.match(file.err, /cannot write .*mine\.txt/);
  mkdirSync(at('empty'));
  assert.equal((await requant('init', 'node', '-o', at('empty'))).code, 0);
});

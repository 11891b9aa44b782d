// The demos that are programs: calibration in several processes, and a server with a pool of threads.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { cleanEnvironment, engineFlags } from './installed.mjs';
import { ROOT } from './support.mjs';

const DEMOS = path.join(ROOT, 'demos');

test('calibration in processes gives the bits of one process', () => {
  const args = [...engineFlags, path.join(DEMOS, 'calibration/run.mjs')];
  const run = (count) =>
    execFileSync(process.execPath, [...args, count, '24'], { encoding: 'utf8', stdio: 'pipe' });
  assert.match(run('2'), /^2 processes see 12, 12 samples\n[^]*merged (\w{16}), one process \1\n$/);
  assert.throws(() => run('0'), /from 1 to 24, not 0/);
});

const PISCINA = 'piscina@5.3.2';

/** The folder of the server beside the packages that it imports; undefined without a network. */
function serverFolder() {
  const folder = path.join(ROOT, 'build/demo_server');
  const modules = path.join(folder, 'node_modules');
  mkdirSync(folder, { recursive: true });
  if (!existsSync(path.join(modules, 'piscina'))) {
    writeFileSync(path.join(folder, 'package.json'), '{ "private": true }');
    const quiet = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
    try {
      execFileSync('npm', ['install', ...quiet, PISCINA], {
        cwd: folder,
        env: cleanEnvironment,
        stdio: 'pipe',
      });
    } catch {
      return undefined;
    }
  }
  rmSync(path.join(modules, 'requant'), { recursive: true, force: true });
  symlinkSync(ROOT, path.join(modules, 'requant'));
  for (const name of ['server', 'models', 'data']) {
    cpSync(path.join(DEMOS, name), path.join(folder, name), { recursive: true });
  }
  return path.join(folder, 'server');
}

const IMAGES = readFileSync(path.join(DEMOS, 'data/test-images-idx3-ubyte')).subarray(16);
const LABELS = readFileSync(path.join(DEMOS, 'data/test-labels-idx1-ubyte')).subarray(8);
const CLASSES = 'T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Boot'.split(',');

test('the server answers many pictures at once, and refuses what is none', async (t) => {
  const folder = serverFolder();
  if (!folder) return t.skip(`npm cannot install ${PISCINA}`);
  const child = spawn(process.execPath, [...engineFlags, path.join(folder, 'server.mjs')], {
    env: { ...cleanEnvironment, PORT: '0', THREADS: '2' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    const line = await new Promise((resolve, reject) => {
      child.stdout.once('data', (data) => resolve(String(data)));
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    });
    const [, url] = /^listening on (\S+), 2 threads/.exec(line);
    const ask = (body, address = '/classify', method = 'POST') =>
      fetch(url + address, { method, ...(body ? { body } : {}) });
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const answer = await ask(IMAGES.subarray(index * 784, (index + 1) * 784));
        assert.equal(answer.status, 200);
        return answer.json();
      }),
    );
    const right = answers.filter(({ class: name }, index) => name === CLASSES[LABELS[index]]);
    assert.ok(right.length >= 52, `${right.length} of 60`);
    for (const body of [new Uint8Array(783), new Uint8Array(1e6)]) {
      const refused = await ask(body);
      assert.equal(refused.status, 400);
      assert.match((await refused.json()).error, /784 bytes/);
    }
    assert.equal((await ask(undefined, '/classify', 'GET')).status, 405);
    assert.equal((await ask(undefined, '/nothing', 'GET')).status, 404);
    const health = await (await ask(undefined, '/health', 'GET')).json();
    assert.deepEqual(health, { threads: 2, queue: 0, completed: 60 });
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
  } finally {
    child.kill('SIGKILL');
  }
});

// Installs the package as npm users do: packed into a tarball, installed from nothing else.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The environment without settings of the npm process that runs the tests, which must not leak in. */
export const cleanEnvironment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^npm_(config|package|lifecycle)/i.test(name)),
);

/** Flags of this process that select features of its engine. */
export const engineFlags = process.execArgv.filter((flag) =>
  flag.startsWith('--experimental-wasm'),
);

/** Runs npm; gives its output. */
export function npm(args, cwd) {
  return execFileSync('npm', args, {
    cwd,
    env: cleanEnvironment,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/**
 * Installs the package in a new temporary folder, which the caller removes. Gives the folder and the names of
 * the packed files.
 */
export function installPackage() {
  const folder = mkdtempSync(path.join(realpathSync(os.tmpdir()), 'requant-'));
  const packed = npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], ROOT);
  const [tarball] = JSON.parse(packed);
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "private": true }');
  const file = path.join(folder, tarball.filename);
  npm(['install', '--offline', '--no-audit', '--no-fund', file], folder);
  return { folder, files: tarball.files.map(({ path: name }) => name).sort() };
}

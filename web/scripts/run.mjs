// Helpers that the build and test scripts share: running commands, and a list of stages with a summary.

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root folder of the repository. */
export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** Runs a command from the root with its output on ours; throws when it fails. */
export function run(command, args = [], { env = {} } = {}) {
  const result = spawnSync(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    // The JS tools and CMake must use the Node that runs this script, whatever is on the PATH.
    env: { ...process.env, REQUANT_NODE: process.execPath, ...env },
  });
  if (result.error) throw result.error;
  if (result.status !== 0) {
    const why = result.signal ? `was ended by ${result.signal}` : `failed (${result.status})`;
    throw new Error(`${path.basename(command)} ${args.slice(0, 3).join(' ')} ${why}`);
  }
}

/** Files below a folder (relative to the root) for which keep(name) is true, sorted. */
export function filesBelow(folder, keep) {
  let entries;
  try {
    entries = readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true });
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
  return entries
    .filter((entry) => entry.isFile() && keep(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
}

/**
 * Runs stages one after another; a stage whose `needs` failed is skipped and counts as failed.
 * Prints one table and sets the exit code.
 */
export async function runStages(stages) {
  const rows = [];
  const bad = new Set();
  for (const { name, needs = [], action } of stages) {
    const blocker = needs.find((need) => bad.has(need));
    const start = performance.now();
    let outcome = 'ok';
    if (blocker) {
      outcome = `SKIPPED: ${blocker} failed`;
    } else {
      console.log(`\n== ${name}`);
      try {
        await action();
      } catch (error) {
        outcome = `FAILED: ${error.message}`;
        console.error(outcome);
      }
    }
    if (outcome !== 'ok') bad.add(name);
    rows.push({ name, seconds: (performance.now() - start) / 1000, outcome });
  }
  const width = Math.max(...rows.map((row) => row.name.length));
  console.log('\n== Summary');
  for (const { name, seconds, outcome } of rows) {
    console.log(`${name.padEnd(width)}  ${seconds.toFixed(1).padStart(7)} s  ${outcome}`);
  }
  process.exitCode = bad.size > 0 ? 1 : 0;
}

// Runs the checks in a process of Node or of another runtime.

import { readFile, writeFile } from 'node:fs/promises';
import { runChecks } from './checks.js';
import { generate } from './generate.js';

/**
 * Runs all checks of a process on the files of a folder. The results are JSON, written to a file if one is
 * named.
 */
export async function checkHere(folder, result) {
  const read = async (name) => new Uint8Array(await readFile(`${folder}/${name}`));
  const names = ['float', 'quantize', 'w4a4', 'worker', 'threads'];
  const text = JSON.stringify(await runChecks(names, read, { generate }));
  if (result) await writeFile(result, text);
  return text;
}

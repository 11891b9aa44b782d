// The checks in a process: in Node and what runs programs for it.

import { readFile, writeFile } from 'node:fs/promises';
import { runChecks } from './checks.js';
import { generate } from './generate.js';

/** Runs all checks that a process has, on the files of a folder; the results are JSON, and a file where one is named. */
export async function checkHere(folder, result) {
  const read = async (name) => new Uint8Array(await readFile(`${folder}/${name}`));
  const names = ['float', 'quantize', 'w4a4', 'worker', 'threads'];
  const text = JSON.stringify(await runChecks(names, read, { generate }));
  if (result) await writeFile(result, text);
  return text;
}

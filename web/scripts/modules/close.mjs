// Runs after the merge: fails when the core calls a kernel that this variant does not have, and removes the
// kernels' exports in place, so that wasm-opt may inline and remove the kernels.
//
//   node close.mjs merged.wasm

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { exportsOf, functionsOf, readModule, writeModule } from './binaryen.mjs';

/** The module without the exports of kernels; an Error names kernels that it still imports. */
export function closeModule(bytes) {
  const module = readModule(bytes);
  const missing = functionsOf(module).filter((entry) => entry.module === 'kernels');
  if (missing.length > 0) {
    const names = missing.map(({ base }) => `- ${base}`);
    throw new Error(['the core calls kernels that no vector*.cpp defines:', ...names].join('\n'));
  }
  for (const { name } of exportsOf(module)) if (/^(rq_|_Z)/.test(name)) module.removeExport(name);
  const closed = writeModule(module);
  module.dispose();
  return closed;
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const [file] = process.argv.slice(2);
  try {
    writeFileSync(file, closeModule(readFileSync(file)));
  } catch (error) {
    console.error(`${path.basename(file)}: ${error.message}`);
    process.exit(1);
  }
}

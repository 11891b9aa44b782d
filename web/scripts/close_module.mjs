// Runs after the merge: fails when the core calls a kernel that this variant does not have, and removes the
// kernels' exports in place, so that wasm-opt may inline and remove the kernels.
//
//   node close_module.mjs merged.wasm

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { filterExports, imports } from './wasm_sections.mjs';

const [file] = process.argv.slice(2);
const bytes = readFileSync(file);
const missing = imports(bytes).filter((entry) => entry.module === 'kernels');
if (missing.length > 0) {
  console.error(`${path.basename(file)}: the core calls kernels that no vector*.cpp defines:`);
  for (const { name } of missing) console.error(`- ${name}`);
  process.exit(1);
}
writeFileSync(
  file,
  filterExports(bytes, ({ name }) => !/^(rq_|_Z)/.test(name)),
);

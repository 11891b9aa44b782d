// Makes the threaded form of a module: the same code, with a shared memory that the loader supplies.
//
//   node share_memory.mjs module.wasm threaded.wasm
//
// A core defines its memory and becomes one that imports it as env.memory; a kernel module imports it
// already. Nothing else differs: only one thread runs the core, so it needs no atomic operations, and kernels
// never write to the same bytes.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { memoryPages, withSharedMemory } from './wasm_sections.mjs';

/** Pages with which sharedMemory() of web/engine/threads.ts begins. */
const INITIAL_PAGES = 256;
const MOST_PAGES = 65536;

const [input, output] = process.argv.slice(2);
const bytes = readFileSync(input);
const pages = memoryPages(bytes);
if (pages > INITIAL_PAGES) {
  console.error(`${path.basename(input)} wants ${pages} pages of memory, not ${INITIAL_PAGES}`);
  process.exit(1);
}
writeFileSync(output, withSharedMemory(bytes, pages, MOST_PAGES));

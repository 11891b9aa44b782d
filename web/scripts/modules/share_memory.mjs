// Makes the threaded form of a module: the same code, with a shared memory that the loader supplies.
//
//   node share_memory.mjs module.wasm threaded.wasm
//
// A core defines its memory and becomes one that imports it as env.memory; a kernel module imports it
// already. Nothing else differs: only one thread runs the core, so it needs no atomic operations, and kernels
// never write to the same bytes.
//
// This script edits the bytes of two sections. The `binaryen` package would encode all code again, drops a
// module's data when its memory changes, and does not tell the name of an imported memory.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Reader, SECTION, assemble, readSections, writeName, writeUnsigned } from './sections.mjs';

/** Pages with which sharedMemory() of web/engine/threads.ts begins. */
const INITIAL_PAGES = 256;
const MOST_PAGES = 65536;

/** Kinds of imports. */
const [FUNCTION, TABLE, MEMORY, GLOBAL, TAG] = [0, 1, 2, 3, 4];
/** Flags of a memory: it has a maximum, and is shared. */
const HAS_MOST = 1;
const IS_SHARED = 2;

/** Reads limits, of a table or a memory; returns the minimum. */
function readLimits(reader) {
  const flags = reader.byte();
  const least = reader.unsigned();
  if (flags & HAS_MOST) reader.unsigned();
  return least;
}

/** The entries of an import section, [{ names, kind, bytes, pages }]; only memories have pages. */
function readImports(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.unsigned() }, () => {
    const start = reader.at;
    const names = [reader.name(), reader.name()];
    const kind = reader.byte();
    let pages;
    if (kind === FUNCTION) reader.unsigned();
    else if (kind === TABLE) readLimits(reader.skip(1));
    else if (kind === MEMORY) pages = readLimits(reader);
    else if (kind === GLOBAL) reader.skip(2);
    else if (kind === TAG) reader.skip(1).unsigned();
    else throw new Error(`it imports ${names.join('.')} of an unknown kind, ${kind}`);
    return { names, kind, bytes: body.subarray(start, reader.at), pages };
  });
}

/** The pages that a section of memories asks for. */
function ownPages(body) {
  const reader = new Reader(body);
  const count = reader.unsigned();
  if (count !== 1) throw new Error(`it has ${count} memories instead of one`);
  return readLimits(reader);
}

/** The module with its memory imported (as env.memory if it was its own) and shared. */
export function shareMemory(bytes) {
  const list = readSections(bytes);
  const at = list.findIndex(({ id }) => id === SECTION.import);
  if (at < 0) throw new Error('it has no imports');
  const imports = readImports(list[at].body);
  const imported = imports.find(({ kind }) => kind === MEMORY);
  const own = list.find(({ id }) => id === SECTION.memory);
  if (!imported && !own) throw new Error('it has no memory');
  const pages = imported ? imported.pages : ownPages(own.body);
  if (pages > INITIAL_PAGES) {
    throw new Error(`it wants ${pages} pages of memory, not ${INITIAL_PAGES}`);
  }
  const memory = [
    ...(imported?.names ?? ['env', 'memory']).map(writeName),
    [MEMORY, HAS_MOST | IS_SHARED, ...writeUnsigned(INITIAL_PAGES), ...writeUnsigned(MOST_PAGES)],
  ].flat();
  const kept = imports.filter((entry) => entry !== imported).map((entry) => entry.bytes);
  const body = Buffer.concat([
    Uint8Array.from(writeUnsigned(kept.length + 1)),
    ...kept,
    Uint8Array.from(memory),
  ]);
  return assemble(
    list
      .map((section, index) => (index === at ? { ...section, body } : section))
      .filter(({ id }) => id !== SECTION.memory),
  );
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const [input, output] = process.argv.slice(2);
  try {
    writeFileSync(output, shareMemory(readFileSync(input)));
  } catch (error) {
    console.error(`${path.basename(input)} cannot share its memory: ${error.message}`);
    process.exit(1);
  }
}

// Tables of functions in WebAssembly modules: makes entries empty, and adds a table by which a module gives
// functions to others without names.

import {
  END,
  I32_CONST,
  Reader,
  SECTION,
  assemble,
  imports,
  sections,
  writeName,
  writeSigned,
  writeUnsigned,
} from './wasm_sections.mjs';

const FUNCREF = 0x70;

/** Segments of the first table, [{ first, functions }]. */
function readSegments(body) {
  const reader = new Reader(body);
  const result = [];
  for (let left = reader.unsigned(); left > 0; left--) {
    if (reader.unsigned() !== 0) throw new Error('a segment of another kind');
    if (reader.byte() !== I32_CONST) throw new Error('a segment at no constant entry');
    const first = reader.unsigned();
    reader.byte();
    const functions = Array.from({ length: reader.unsigned() }, () => reader.unsigned());
    result.push({ first, functions });
  }
  return result;
}

function writeSegment({ first, functions }) {
  const numbers = [functions.length, ...functions].flatMap(writeUnsigned);
  return [0, I32_CONST, ...writeSigned(first), END, ...numbers];
}

/** The module with empty table entries in place of the functions that it imports from `module`. */
export function withEmptyEntries(bytes, module) {
  const functions = imports(bytes).filter(({ kind }) => kind === 'function');
  const list = sections(bytes).map((section) => {
    if (section.id !== SECTION.elem) return section;
    const segments = [];
    for (const { first, functions: entries } of readSegments(section.body)) {
      let open;
      for (const [at, index] of entries.entries()) {
        if (functions[index]?.module === module) {
          open = undefined;
          continue;
        }
        if (!open) segments.push((open = { first: first + at, functions: [] }));
        open.functions.push(index);
      }
    }
    const parts = [writeUnsigned(segments.length), ...segments.map(writeSegment)];
    return { id: section.id, body: Uint8Array.from(parts.flat()) };
  });
  return assemble(list);
}

/** Appends an entry to a section that begins with the number of its entries. */
function append(section, entry) {
  const reader = new Reader(section.body);
  const count = reader.unsigned();
  const entries = section.body.subarray(reader.at);
  const body = Buffer.concat([
    Uint8Array.from(writeUnsigned(count + 1)),
    entries,
    Uint8Array.from(entry),
  ]);
  return { id: section.id, body };
}

/** The module with an additional table, exported by this name, that holds these functions. */
export function withTable(bytes, name, functions) {
  const tables = new Reader(sections(bytes).find(({ id }) => id === SECTION.table).body).unsigned();
  const size = writeUnsigned(functions.length);
  const entries = {
    [SECTION.table]: [FUNCREF, 1, ...size, ...size],
    [SECTION.export]: [...writeName(name), 1, ...writeUnsigned(tables)],
    [SECTION.elem]: [
      2, // active, of a table with a number, of functions
      ...writeUnsigned(tables),
      ...[I32_CONST, 0, END, 0],
      ...size,
      ...functions.flatMap(writeUnsigned),
    ],
  };
  return assemble(
    sections(bytes).map((section) =>
      section.id in entries ? append(section, entries[section.id]) : section,
    ),
  );
}

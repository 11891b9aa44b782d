// Reads string literals in object files (of Clang, for WebAssembly), and the functions that use them. Source:
// WebAssembly tool conventions, "WebAssembly Object File Linking".

import { Reader, SECTION, imports, readData, sections } from './wasm_sections.mjs';

const SYMBOL_TABLE = 8;
const SEGMENT_INFO = 5;
/** Kinds of symbols. */
const FUNCTION = 0;
const DATA = 1;
const SECTION_SYMBOL = 3;
/** Flags: STRINGS of a segment (it holds literals), the others of symbols. */
const STRINGS = 1;
const UNDEFINED = 0x10;
const EXPLICIT_NAME = 0x40;
/** Relocations without an addend: functions, types, globals, tags and tables by number. */
const PLAIN = new Set([0, 1, 2, 6, 7, 10, 12, 13, 18, 19, 20, 24, 26]);

/** { literals: the segments with literals, symbols: [{ kind, name, index, offset }] }. */
function readLinking(reader) {
  const found = { literals: [], symbols: [] };
  reader.unsigned(); // its version
  while (reader.at < reader.bytes.length) {
    const type = reader.byte();
    const size = reader.unsigned();
    const next = reader.at + size;
    let left = type === SEGMENT_INFO || type === SYMBOL_TABLE ? reader.unsigned() : 0;
    for (; left > 0; left--) {
      if (type === SEGMENT_INFO) {
        reader.name();
        reader.unsigned();
        found.literals.push((reader.unsigned() & STRINGS) !== 0);
        continue;
      }
      const kind = reader.byte();
      const flags = reader.unsigned();
      const defined = !(flags & UNDEFINED);
      const symbol = { kind };
      if (kind === DATA) symbol.name = reader.name();
      if (kind !== DATA || defined) symbol.index = reader.unsigned();
      if (kind === DATA && defined) {
        symbol.offset = reader.unsigned();
        reader.unsigned();
      } else if (kind !== DATA && kind !== SECTION_SYMBOL && (defined || flags & EXPLICIT_NAME)) {
        symbol.name = reader.name();
      }
      found.symbols.push(symbol);
    }
    reader.at = next;
  }
  return found;
}

/** [{ offset, index }]: the position in a section, and the symbol. */
function readRelocations(reader) {
  reader.unsigned(); // the section's number
  const found = [];
  for (let left = reader.unsigned(); left > 0; left--) {
    const type = reader.byte();
    const offset = reader.unsigned();
    const index = reader.unsigned();
    if (!PLAIN.has(type)) reader.unsigned();
    found.push({ offset, index });
  }
  return found;
}

/** The offsets at which function bodies end. */
function readCode(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.unsigned() }, () => {
    const size = reader.unsigned();
    return (reader.at += size);
  });
}

/**
 * Adds the literals of an object to `users`: by content (as latin1), the names of the functions that use
 * them, or undefined if data does.
 */
export function addLiterals(object, users) {
  const custom = new Map();
  const plain = new Map();
  for (const { id, body } of sections(object)) {
    const reader = new Reader(body);
    if (id === 0) custom.set(reader.name(), new Reader(body.subarray(reader.at)));
    else plain.set(id, body);
  }
  const { literals, symbols } = readLinking(custom.get('linking'));
  const data = readData(object);
  const names = new Map();
  for (const { kind, index, name } of symbols) {
    if (kind === FUNCTION) names.set(index, [...(names.get(index) ?? []), name]);
  }
  const use = (index, functions) => {
    const symbol = symbols[index];
    if (symbol.kind !== DATA || symbol.index === undefined || !literals[symbol.index]) return;
    const bytes = data[symbol.index].bytes.subarray(symbol.offset);
    const text = Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('latin1');
    if (!users.has(text)) users.set(text, new Set());
    for (const name of functions) users.get(text).add(name);
  };
  for (const { index } of readRelocations(custom.get('reloc.DATA') ?? new Reader([0, 0]))) {
    use(index, [undefined]);
  }
  const ends = plain.has(SECTION.code) ? readCode(plain.get(SECTION.code)) : [];
  const imported = imports(object).filter(({ kind }) => kind === 'function').length;
  let at = 0;
  for (const { offset, index } of readRelocations(custom.get('reloc.CODE') ?? new Reader([0, 0]))) {
    while (offset >= ends[at]) at++;
    use(index, names.get(imported + at) ?? [undefined]);
  }
}

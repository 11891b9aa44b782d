// Just enough of the WebAssembly binary format to read a module's imports, exports, globals and data, to drop
// exports, to redirect imports and to share the memory; wasm_tables.mjs handles tables. Source: WebAssembly
// core specification, "Binary Format / Modules".

export const SECTION = {
  import: 2,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  elem: 9,
  code: 10,
  data: 11,
};
export const I32_CONST = 0x41;
export const END = 0x0b;
const KINDS = ['function', 'table', 'memory', 'global', 'tag'];

export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  byte() {
    if (this.at >= this.bytes.length) throw new Error('unexpected end of the wasm module');
    return this.bytes[this.at++];
  }
  // Reads LEB128; callers do not need values of 64 bits.
  unsigned() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
  name() {
    const length = this.unsigned();
    const text = new TextDecoder().decode(this.bytes.subarray(this.at, this.at + length));
    this.at += length;
    return text;
  }
  /** Reads limits; gives the minimum. */
  limits() {
    const flags = this.byte();
    const least = this.unsigned();
    if (flags & 1) this.unsigned();
    return least;
  }
}

export function writeUnsigned(value) {
  const out = [];
  do {
    const low = value % 128;
    value = Math.floor(value / 128);
    out.push(value > 0 ? low | 0x80 : low);
  } while (value > 0);
  return out;
}

/** Writes signed LEB128 of a number that is not negative. */
export function writeSigned(value) {
  const out = writeUnsigned(value);
  // The highest of the last byte's seven bits is the sign.
  if (out.at(-1) & 0x40) out.push(out.pop() | 0x80, 0);
  return out;
}

/** All sections of a module in order: {id, body}. */
export function sections(bytes) {
  const reader = new Reader(bytes);
  const magic = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
  for (const expected of magic) {
    if (reader.byte() !== expected) throw new Error('not a wasm module of version 1');
  }
  const result = [];
  while (reader.at < bytes.length) {
    const id = reader.byte();
    const size = reader.unsigned();
    result.push({ id, body: bytes.subarray(reader.at, reader.at + size) });
    reader.at += size;
  }
  return result;
}

/** Assembles sections to a module. */
export function assemble(list) {
  const parts = [Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00)];
  for (const { id, body } of list) {
    parts.push(Uint8Array.from([id, ...writeUnsigned(body.length)]), body);
  }
  return Buffer.concat(parts);
}

/** The number of entries in the section with this id (0 if there is none). */
export function entryCount(bytes, id) {
  const section = sections(bytes).find((entry) => entry.id === id);
  return section ? new Reader(section.body).unsigned() : 0;
}

/** The imports, [{module, name, kind, raw, pages}]; only memories have pages. */
export function imports(bytes) {
  const section = sections(bytes).find((entry) => entry.id === SECTION.import);
  if (!section) return [];
  const reader = new Reader(section.body);
  const count = reader.unsigned();
  const result = [];
  for (let i = 0; i < count; i++) {
    const start = reader.at;
    const module = reader.name();
    const name = reader.name();
    const kind = KINDS[reader.byte()];
    let pages;
    if (kind === 'function') reader.unsigned();
    if (kind === 'table') {
      reader.byte();
      reader.limits();
    }
    if (kind === 'memory') pages = reader.limits();
    if (kind === 'global') reader.at += 2;
    if (kind === 'tag') {
      reader.byte();
      reader.unsigned();
    }
    result.push({ module, name, kind, raw: section.body.subarray(start, reader.at), pages });
  }
  return result;
}

function exportEntries(body) {
  const reader = new Reader(body);
  const count = reader.unsigned();
  const result = [];
  for (let i = 0; i < count; i++) {
    const start = reader.at;
    const name = reader.name();
    const kind = KINDS[reader.byte()];
    const index = reader.unsigned();
    result.push({ name, kind, index, raw: body.subarray(start, reader.at) });
  }
  return result;
}

/** The exports, [{name, kind, index, raw}]; the index counts imports of the kind first. */
export function exports(bytes) {
  const section = sections(bytes).find((entry) => entry.id === SECTION.export);
  return section ? exportEntries(section.body) : [];
}

/** The module with its exports renamed to nameOf({name, kind}), without those for which that is undefined. */
export function renameExports(bytes, nameOf) {
  const list = sections(bytes).map((section) => {
    if (section.id !== SECTION.export) return section;
    const kept = [];
    for (const entry of exportEntries(section.body)) {
      const name = nameOf(entry);
      if (name === undefined) continue;
      // The kind and index of an export follow its name.
      const kind = entry.raw.subarray(writeName(entry.name).length);
      kept.push(Uint8Array.from(writeName(name)), kind);
    }
    const body = Buffer.concat([Uint8Array.from(writeUnsigned(kept.length / 2)), ...kept]);
    return { id: section.id, body };
  });
  return assemble(list);
}

/** The module with only those exports for which keep({name, kind}) is true. */
export function filterExports(bytes, keep) {
  return renameExports(bytes, (entry) => (keep(entry) ? entry.name : undefined));
}

/** The module with every import replaced by source({ module, name }), which gives { module, name }. */
export function redirectImports(bytes, source) {
  const entries = imports(bytes).map((entry) => {
    const { module, name } = source(entry);
    // The kind of an import follows its two names.
    const kind = entry.raw.subarray(writeName(entry.module).length + writeName(entry.name).length);
    return Buffer.concat([Uint8Array.from([...writeName(module), ...writeName(name)]), kind]);
  });
  const body = Buffer.concat([Uint8Array.from(writeUnsigned(entries.length)), ...entries]);
  return assemble(
    sections(bytes).map((entry) => (entry.id === SECTION.import ? { ...entry, body } : entry)),
  );
}

/** The module's data at fixed addresses, [{ offset, bytes }], as views of the module. */
export function readData(bytes) {
  const section = sections(bytes).find((entry) => entry.id === SECTION.data);
  const reader = new Reader(section?.body ?? [0]);
  return Array.from({ length: reader.unsigned() }, () => {
    if (reader.unsigned() !== 0 || reader.byte() !== I32_CONST) {
      throw new Error('data at no constant address');
    }
    const offset = reader.unsigned();
    reader.byte();
    const size = reader.unsigned();
    reader.at += size;
    return { offset, bytes: reader.bytes.subarray(reader.at - size, reader.at) };
  });
}

/** Adds data, [{ offset, bytes }], to a module without data. */
export function withData(bytes, data) {
  const parts = data.map(({ offset, bytes: content }) => {
    const head = [0, I32_CONST, ...writeSigned(offset), END, ...writeUnsigned(content.length)];
    return Buffer.concat([Uint8Array.from(head), content]);
  });
  const body = Buffer.concat([Uint8Array.from(writeUnsigned(parts.length)), ...parts]);
  const list = sections(bytes);
  const code = list.findIndex(({ id }) => id === SECTION.code);
  return assemble([
    ...list.slice(0, code + 1),
    { id: SECTION.data, body },
    ...list.slice(code + 1),
  ]);
}

/** The initial pages of the module's one memory, its own or imported. */
export function memoryPages(bytes) {
  const imported = imports(bytes).find((entry) => entry.kind === 'memory');
  if (imported) return imported.pages;
  const section = sections(bytes).find((entry) => entry.id === SECTION.memory);
  if (!section) throw new Error('the module has no memory');
  const reader = new Reader(section.body);
  if (reader.unsigned() !== 1) throw new Error('the module has more than one memory');
  return reader.limits();
}

export function writeName(text) {
  const bytes = new TextEncoder().encode(text);
  return [...writeUnsigned(bytes.length), ...bytes];
}

/** The module with its memory imported (as env.memory if it was its own) and shared. */
export function withSharedMemory(bytes, pages, mostPages) {
  const entries = imports(bytes);
  const memory = entries.find((entry) => entry.kind === 'memory');
  const { module, name } = memory ?? { module: 'env', name: 'memory' };
  const shared = Uint8Array.from([
    ...writeName(module),
    ...writeName(name),
    KINDS.indexOf('memory'),
    3, // flags: has a maximum, is shared
    ...writeUnsigned(pages),
    ...writeUnsigned(mostPages),
  ]);
  const kept = entries.filter((entry) => entry !== memory).map((entry) => entry.raw);
  const body = Buffer.concat([Uint8Array.from(writeUnsigned(kept.length + 1)), ...kept, shared]);
  const list = sections(bytes).filter(({ id }) => id !== SECTION.memory);
  const index = list.findIndex(({ id }) => id === SECTION.import);
  if (index < 0) throw new Error('the module has no imports');
  list[index] = { id: SECTION.import, body };
  return assemble(list);
}

// Moves a segment of data, which the linker made of one section of the sources, from one module to another
// that is loaded later and shares its memory. Until then the memory holds zeros there.
//
//   node web/scripts/modules/move_data.mjs SECTION FROM.wasm TO.wasm
//
// Source: WebAssembly core specification, "Binary Format / Modules"; the names of data segments are in
// "Appendix / Custom Sections" of its extended name section.

import { readFileSync, writeFileSync } from 'node:fs';
import { Reader, SECTION, assemble, readSections, writeUnsigned } from './sections.mjs';

const DATA_NAMES = 9;
const I32_CONST = 0x41;
const END = 0x0b;

/** The parts of the section "name", [{ id, body }]; undefined for any other section. */
function nameParts({ id, body }) {
  if (id !== SECTION.custom) return undefined;
  const reader = new Reader(body);
  if (reader.name() !== 'name') return undefined;
  const parts = [];
  while (reader.at < body.length) {
    const part = reader.byte();
    const size = reader.unsigned();
    parts.push({ id: part, body: body.subarray(reader.at, reader.at + size) });
    reader.skip(size);
  }
  return parts;
}

/** The names of the data segments by their indices. */
function dataNames(sections) {
  const names = new Map();
  for (const section of sections) {
    const part = nameParts(section)?.find(({ id }) => id === DATA_NAMES);
    if (!part) continue;
    const reader = new Reader(part.body);
    for (let left = reader.unsigned(); left > 0; --left)
      names.set(reader.unsigned(), reader.name());
  }
  return names;
}

/** The active segments of the section with data, each as its bytes. */
function readSegments(body) {
  const reader = new Reader(body);
  const segments = [];
  for (let left = reader.unsigned(); left > 0; --left) {
    const start = reader.at;
    if (reader.unsigned() !== 0 || reader.byte() !== I32_CONST) {
      throw new Error('a segment of data is not at a fixed address');
    }
    while (reader.byte() >= 0x80); // the address, signed
    if (reader.byte() !== END) throw new Error('a segment of data is not at a fixed address');
    reader.skip(reader.unsigned());
    segments.push(body.subarray(start, reader.at));
  }
  return segments;
}

const dataOf = (segments) => ({
  id: SECTION.data,
  body: Buffer.concat([Uint8Array.from(writeUnsigned(segments.length)), ...segments]),
});

/** The sections without names of data segments, whose indices change. */
function withoutDataNames(sections) {
  return sections.map((section) => {
    const parts = nameParts(section);
    if (!parts) return section;
    const head = section.body.subarray(0, new Reader(section.body).unsigned() + 1);
    const kept = parts.filter(({ id }) => id !== DATA_NAMES);
    const bodies = kept.flatMap(({ id, body }) => [
      Uint8Array.from([id, ...writeUnsigned(body.length)]),
      body,
    ]);
    return { id: SECTION.custom, body: Buffer.concat([head, ...bodies]) };
  });
}

const countOf = (number) => ({
  id: SECTION.dataCount,
  body: Uint8Array.from(writeUnsigned(number)),
});

/** The bytes { from, to } of the two modules with the segment of that name in the other one. */
export function moveData(name, { from, to }) {
  const source = readSections(from);
  const names = dataNames(source);
  const data = source.find(({ id }) => id === SECTION.data);
  const segments = data ? readSegments(data.body) : [];
  const at = segments.findIndex((_, index) => names.get(index) === name);
  if (at < 0) throw new Error(`no segment of data is called ${name}`);
  const target = readSections(to);
  if (target.some(({ id }) => id === SECTION.data)) {
    throw new Error('the module that is loaded later has data of its own');
  }
  const left = segments.filter((_, index) => index !== at);
  const rest = withoutDataNames(source).map((section) => {
    if (section.id === SECTION.data) return dataOf(left);
    return section.id === SECTION.dataCount ? countOf(left.length) : section;
  });
  const moved = target
    .filter(({ id }) => id !== SECTION.dataCount)
    .flatMap((section) => {
      const own = dataOf([segments[at]]);
      return section.id === SECTION.code ? [countOf(1), section, own] : [section];
    });
  return { from: assemble(rest), to: assemble(moved) };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const [name, from, to] = process.argv.slice(2);
  try {
    const moved = moveData(name, { from: readFileSync(from), to: readFileSync(to) });
    writeFileSync(from, moved.from);
    writeFileSync(to, moved.to);
  } catch (error) {
    console.error(`move_data: ${error.message}`);
    process.exit(1);
  }
}

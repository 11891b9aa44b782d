// The sections of a WebAssembly module, as bytes. Source: WebAssembly core specification, "Binary Format /
// Modules".

/** The ids of sections that scripts of this folder edit. */
export const SECTION = { custom: 0, import: 2, memory: 5, code: 10, data: 11, dataCount: 12 };
const HEAD = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00);

export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  skip(count) {
    this.at += count;
    return this;
  }
  byte() {
    if (this.at >= this.bytes.length) throw new Error('unexpected end of the wasm module');
    return this.bytes[this.at++];
  }
  /** Reads LEB128 of at most 53 bits. */
  unsigned() {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }
  name() {
    const length = this.unsigned();
    this.skip(length);
    return new TextDecoder().decode(this.bytes.subarray(this.at - length, this.at));
  }
}

/** The bytes of a number in LEB128. */
export function writeUnsigned(value) {
  const out = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...out, rest];
    out.push((rest % 128) | 0x80);
  }
}

/** The bytes of a name: its length, then its UTF-8. */
export function writeName(text) {
  const bytes = new TextEncoder().encode(text);
  return [...writeUnsigned(bytes.length), ...bytes];
}

/** All sections of a module in order, [{ id, body }]. */
export function readSections(bytes) {
  if (Buffer.compare(HEAD, bytes.subarray(0, HEAD.length)) !== 0) {
    throw new Error('not a wasm module of version 1');
  }
  const reader = new Reader(bytes).skip(HEAD.length);
  const found = [];
  while (reader.at < bytes.length) {
    const id = reader.byte();
    const size = reader.unsigned();
    if (reader.at + size > bytes.length) throw new Error('unexpected end of the wasm module');
    found.push({ id, body: bytes.subarray(reader.at, reader.at + size) });
    reader.skip(size);
  }
  return found;
}

/** The module of these sections. */
export function assemble(list) {
  const parts = list.flatMap(({ id, body }) => [
    Uint8Array.from([id, ...writeUnsigned(body.length)]),
    body,
  ]);
  return Buffer.concat([HEAD, ...parts]);
}

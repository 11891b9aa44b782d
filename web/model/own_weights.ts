// Takes the large weights out of an ONNX file, so that they reach the core's memory one by one: each can then be given
// back alone, and a file on a disk is never in JavaScript's memory as a whole.
//
// The rest of the file is a model whose weights lie in an external file, and this external file is the file itself. The
// field numbers are those of
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto

import { throwIfAborted } from '../base/abort.js';
import type { RandomFile } from './byte_ranges.js';

/** The name that a model without its weights has for its own file. No path has this character. */
export const OWN_FILE = '\0';

/** Smaller files are read as they are, and smaller weights stay where they are. */
const LEAST_FILE = 4 << 20;
const LEAST_WEIGHTS = 1 << 18;
const WINDOW = 1 << 16;

const GRAPH = 7; // of ModelProto
const INITIALIZER = 5; // of GraphProto
const RAW_DATA = 9; // of TensorProto
const EXTERNAL_DATA = 13;
const DATA_LOCATION = 14;

/** A field of a protobuf message: all of it from `start` to `end`, its contents from `body` on. */
interface Field {
  readonly number: number;
  /** Whether it has a length, as bytes and messages. */
  readonly long: boolean;
  readonly start: number;
  readonly body: number;
  readonly end: number;
}

/** Bytes, or those of the file from `start` to `end`. */
type Part = Uint8Array | { readonly start: number; readonly end: number };

const sizeOf = (part: Part) => (part instanceof Uint8Array ? part.length : part.end - part.start);
const sizeOfAll = (parts: readonly Part[]) => parts.reduce((sum, part) => sum + sizeOf(part), 0);

function varint(value: number): number[] {
  const bytes = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}

const header = (number: number, size: number) =>
  Uint8Array.from([...varint(number * 8 + 2), ...varint(size)]);

/** The fields that say where the weights of a tensor lie. */
function locationOf(offset: number, size: number): Uint8Array {
  const text = (number: number, value: string) => {
    const bytes = [...new TextEncoder().encode(value)];
    return [...header(number, bytes.length), ...bytes];
  };
  const entry = (key: string, value: string) => {
    const both = [...text(1, key), ...text(2, value)];
    return [...header(EXTERNAL_DATA, both.length), ...both];
  };
  return Uint8Array.from([
    ...entry('location', OWN_FILE),
    ...entry('offset', `${offset}`),
    ...entry('length', `${size}`),
    ...varint(DATA_LOCATION * 8),
    1,
  ]);
}

/** No protobuf message, or one that ends too early. The core says what is wrong with it. */
class NoMessage extends Error {}

class Cutter {
  readonly #file: RandomFile;
  readonly #signal: AbortSignal | undefined;
  #window: Uint8Array = new Uint8Array(0);
  #from = 0;

  constructor(file: RandomFile, signal: AbortSignal | undefined) {
    this.#file = file;
    this.#signal = signal;
  }

  async #varint(at: number): Promise<{ value: number; next: number }> {
    // A varint has at most ten bytes.
    if (at < this.#from || at + 10 > this.#from + this.#window.length) {
      throwIfAborted(this.#signal);
      this.#window = await this.#file.readAt(at, Math.min(WINDOW, this.#file.size - at));
      this.#from = at;
    }
    let value = 0;
    let scale = 1;
    for (let i = at - this.#from; i < this.#window.length && scale < 2 ** 63; i++, scale *= 128) {
      const byte = this.#window[i]!;
      value += (byte % 128) * scale;
      if (byte < 128) return { value, next: this.#from + i + 1 };
    }
    throw new NoMessage();
  }

  async fields(begin: number, end: number): Promise<Field[]> {
    const fields: Field[] = [];
    for (let start = begin; start < end;) {
      const key = await this.#varint(start);
      const type = key.value % 8;
      let body = key.next;
      let next = body;
      if (type === 0) next = (await this.#varint(body)).next;
      else if (type === 1) next += 8;
      else if (type === 5) next += 4;
      else if (type === 2) {
        const length = await this.#varint(body);
        body = length.next;
        next = body + length.value;
      } else throw new NoMessage();
      if (next > end) throw new NoMessage();
      fields.push({
        number: Math.floor(key.value / 8),
        long: type === 2,
        start,
        body,
        end: next,
      });
      start = next;
    }
    return fields;
  }

  /** The parts of a message, with other ones for some fields. */
  async #replace(
    message: Field,
    replace: (field: Field) => readonly Part[] | undefined | Promise<readonly Part[] | undefined>,
  ): Promise<readonly Part[] | undefined> {
    const parts: Part[] = [];
    let copied = message.body;
    for (const field of await this.fields(message.body, message.end)) {
      const other = await replace(field);
      if (!other) continue;
      parts.push({ start: copied, end: field.start }, ...other);
      copied = field.end;
    }
    if (parts.length === 0) return undefined;
    parts.push({ start: copied, end: message.end });
    return [header(message.number, sizeOfAll(parts)), ...parts];
  }

  #tensor(tensor: Field): Promise<readonly Part[] | undefined> {
    return this.#replace(tensor, ({ number, long, body, end }) =>
      number === RAW_DATA && long && end - body >= LEAST_WEIGHTS
        ? [locationOf(body, end - body)]
        : undefined,
    );
  }

  #graph(graph: Field): Promise<readonly Part[] | undefined> {
    return this.#replace(graph, (field) =>
      field.number === INITIALIZER && field.long && field.end - field.body >= LEAST_WEIGHTS
        ? this.#tensor(field)
        : undefined,
    );
  }

  async cut(): Promise<Uint8Array | undefined> {
    const all = { number: 0, long: true, start: 0, body: 0, end: this.#file.size };
    const parts = await this.#replace(all, (field) =>
      field.number === GRAPH && field.long ? this.#graph(field) : undefined,
    );
    return parts && this.#join(parts.slice(1));
  }

  async #join(parts: readonly Part[]): Promise<Uint8Array> {
    const bytes = new Uint8Array(sizeOfAll(parts));
    let at = 0;
    for (const part of parts) {
      throwIfAborted(this.#signal);
      bytes.set(
        part instanceof Uint8Array
          ? part
          : await this.#file.readAt(part.start, part.end - part.start),
        at,
      );
      at += sizeOf(part);
    }
    return bytes;
  }
}

/**
 * @internal The file without its large weights, which it says to lie in the file {@link OWN_FILE}; undefined for a file
 * that has none, or is small, or is no ONNX file.
 */
export async function withoutWeights(
  file: RandomFile,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  if (file.size < LEAST_FILE) return undefined;
  try {
    return await new Cutter(file, signal).cut();
  } catch (error) {
    if (error instanceof NoMessage) return undefined;
    throw error;
  }
}

// Reads ONNX's TensorProto, which the files of test_data_set_* folders hold. Fields and types:
// onnx/onnx.proto, message TensorProto; wire format: Protocol Buffers Encoding
// (protobuf.dev/programming-guides/encoding).

import { RequantError } from '../base/errors.js';
import { checkBytes } from '../base/options.js';
import { isSmallFloat } from '../base/half.js';
import {
  Tensor,
  type TensorType,
  bytesPerElement,
  elementCount,
  tensorFromBytes,
} from '../base/tensor.js';
import { typeOfNumber } from '../base/type_numbers.js';

function damaged(what: string): RequantError {
  return new RequantError('INVALID_ARGUMENT', `the TensorProto is damaged: ${what}`, {
    hint: 'The file must hold one serialized onnx.TensorProto.',
  });
}

class Reader {
  at = 0;
  readonly #view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw damaged('it ends inside a number');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw damaged('a number has more than 64 bits');
  }

  chunk(): Uint8Array {
    const size = this.varint();
    if (size > BigInt(this.bytes.length - this.at)) throw damaged('it ends inside a field');
    const start = this.at;
    this.at += Number(size);
    return this.bytes.subarray(start, this.at);
  }

  fixed(size: 4 | 8): number {
    if (this.at + size > this.bytes.length) throw damaged('it ends inside a number');
    const at = this.at;
    this.at += size;
    return size === 4 ? this.#view.getFloat32(at, true) : this.#view.getFloat64(at, true);
  }

  skip(wire: number): void {
    if (wire === 0) this.varint();
    else if (wire === 1) this.fixed(8);
    else if (wire === 2) this.chunk();
    else if (wire === 5) this.fixed(4);
    else throw damaged(`wire type ${wire}`);
  }
}

/** Reads repeated numbers, which are stored packed (one chunk) or one by one. */
function readRepeated<T>(reader: Reader, wire: number, values: T[], read: (from: Reader) => T) {
  if (wire !== 2) {
    values.push(read(reader));
    return;
  }
  const inner = new Reader(reader.chunk());
  while (!inner.done) values.push(read(inner));
}

const signed = (from: Reader) => BigInt.asIntN(64, from.varint());

function fromRaw(type: TensorType, raw: Uint8Array, dims: number[]): Tensor {
  if (type === 'string') throw damaged('it has strings as raw data');
  const wanted = elementCount(dims) * bytesPerElement(type);
  if (raw.length !== wanted) throw damaged(`${raw.length} bytes of data instead of ${wanted}`);
  return tensorFromBytes(type, new Uint8Array(raw), dims);
}

/**
 * Reads one serialized TensorProto.
 *
 * @throws RequantError INVALID_ARGUMENT for damaged bytes, UNSUPPORTED for element types that the engine lacks
 * and for data in another file.
 */
export function parseTensorProto(bytes: Uint8Array): { name: string; tensor: Tensor } {
  checkBytes(bytes);
  const reader = new Reader(bytes);
  const dims: number[] = [];
  const floats: number[] = [];
  const ints: bigint[] = [];
  const texts: string[] = [];
  let number = 0;
  let name = '';
  let raw: Uint8Array | undefined;
  while (!reader.done) {
    const key = Number(reader.varint());
    const field = Math.floor(key / 8);
    const wire = key % 8;
    switch (field) {
      case 1: {
        const values: bigint[] = [];
        readRepeated(reader, wire, values, signed);
        dims.push(...values.map(Number));
        break;
      }
      case 2:
        number = Number(reader.varint());
        break;
      case 4:
        readRepeated(reader, wire, floats, (from) => from.fixed(4));
        break;
      case 10:
        readRepeated(reader, wire, floats, (from) => from.fixed(8));
        break;
      case 5:
      case 7:
        readRepeated(reader, wire, ints, signed);
        break;
      case 11:
        readRepeated(reader, wire, ints, (from) => from.varint());
        break;
      case 6:
        texts.push(new TextDecoder('utf-8', { ignoreBOM: true }).decode(reader.chunk()));
        break;
      case 8:
        name = new TextDecoder().decode(reader.chunk());
        break;
      case 9:
        raw = reader.chunk();
        break;
      case 14:
        if (reader.varint() === 1n) {
          throw new RequantError('UNSUPPORTED', `tensor "${name}" keeps its data in another file`);
        }
        break;
      default:
        reader.skip(wire);
    }
  }
  const type = typeOfNumber(number);
  if (!type) {
    throw new RequantError('UNSUPPORTED', `tensor "${name}" has element type ${number}`, {
      value: name,
      hint: 'Numbers are those of onnx.TensorProto.DataType.',
    });
  }
  if (dims.some((dim) => dim < 0)) throw damaged('a negative dimension');
  if (raw) return { name, tensor: fromRaw(type, raw, dims) };
  const size = elementCount(dims);
  const isReal = type === 'float32' || type === 'float64';
  const given = (type === 'string' ? texts : isReal ? floats : ints).length;
  if (given !== size) throw damaged(`${given} elements instead of ${size}`);
  if (type === 'string') return { name, tensor: new Tensor(type, texts, dims) };
  const values = isReal ? floats : type === 'int64' || type === 'uint64' ? ints : ints.map(Number);
  // The field of small floats has bit patterns.
  if (isSmallFloat(type)) {
    const array = type.startsWith('float8') ? Uint8Array : Uint16Array;
    return { name, tensor: new Tensor(type, array.from(values as number[]), dims) };
  }
  return { name, tensor: new Tensor(type, values, dims) };
}

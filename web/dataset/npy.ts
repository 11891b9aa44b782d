// Reads and writes NumPy's array files. Format:
// numpy.org/doc/stable/reference/generated/numpy.lib.format.html; .npz is a ZIP archive of them (PKWARE
// APPNOTE 6.3.10, sections 4.3 and 4.4).

import { RequantError } from '../base/errors.js';
import { checkBytes } from '../base/options.js';
import { Tensor, type TensorType, bytesOf, elementCount, tensorFromBytes } from '../base/tensor.js';
import { checkTensor } from '../base/tensor_like.js';
import { decompress } from './inflate.js';

const typeByDescr: Readonly<Record<string, TensorType>> = {
  f2: 'float16',
  f4: 'float32',
  f8: 'float64',
  i1: 'int8',
  i2: 'int16',
  i4: 'int32',
  i8: 'int64',
  u1: 'uint8',
  u2: 'uint16',
  u4: 'uint32',
  u8: 'uint64',
  b1: 'bool',
};

function damaged(name: string, what: string): RequantError {
  return new RequantError('INVALID_ARGUMENT', `${name} is no NumPy file: ${what}`, { value: name });
}

/** Reverses the order of the axes: Fortran order becomes row-major order. */
function fromFortran(data: Uint8Array, dims: number[], size: number): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(data.length);
  const index = dims.map(() => 0);
  const strides: number[] = [];
  let stride = 1;
  for (const dim of dims) {
    strides.push(stride);
    stride *= dim;
  }
  for (let at = 0; at < data.length; at += size) {
    const from = index.reduce((sum, value, axis) => sum + value * strides[axis]!, 0) * size;
    for (let byte = 0; byte < size; byte++) result[at + byte] = data[from + byte]!;
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      index[axis]! += 1;
      if (index[axis]! < dims[axis]!) break;
      index[axis] = 0;
    }
  }
  return result;
}

/** Reads a .npy file. Throws INVALID_ARGUMENT for damaged files, UNSUPPORTED for other types. */
export function parseNpy(bytes: Uint8Array, name = 'the file'): Tensor {
  checkBytes(bytes);
  if (bytes.length < 10 || String.fromCharCode(...bytes.subarray(1, 6)) !== 'NUMPY') {
    throw damaged(name, 'it does not begin with the magic string');
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = bytes[6]! >= 2;
  if (wide && bytes.length < 12) throw damaged(name, 'the header is cut off');
  const start = wide ? 12 : 10;
  const end = start + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  if (end > bytes.length) throw damaged(name, 'the header is cut off');
  const header = new TextDecoder('latin1').decode(bytes.subarray(start, end));
  const descr = /'descr':\s*'([<>|=])([a-zA-Z]\d+)'/.exec(header);
  const fortran = /'fortran_order':\s*(True|False)/.exec(header);
  const shape = /'shape':\s*\(([\d,\sL]*)\)/.exec(header);
  if (!fortran || !shape) throw damaged(name, `header ${header.trim()}`);
  const type = descr ? typeByDescr[descr[2]!] : undefined;
  if (!descr || !type) {
    throw new RequantError(
      'UNSUPPORTED',
      `${name} holds elements of another kind: ${header.trim()}`,
      {
        value: name,
        hint: 'Save numbers or booleans, such as array.astype("float32").',
      },
    );
  }
  const dims = shape[1]!
    .split(',')
    .map((part) => part.trim().replace(/L$/, ''))
    .filter(Boolean)
    .map(Number);
  const size = Number(descr[2]!.slice(1));
  const wanted = elementCount(dims) * size;
  if (bytes.length - end < wanted) {
    throw damaged(name, `${bytes.length - end} bytes of data instead of ${wanted}`);
  }
  let data: Uint8Array<ArrayBuffer> = new Uint8Array(bytes.subarray(end, end + wanted));
  if (descr[1] === '>' && size > 1) {
    for (let at = 0; at < data.length; at += size) data.subarray(at, at + size).reverse();
  }
  if (fortran[1] === 'True' && dims.length > 1) data = fromFortran(data, dims, size);
  return tensorFromBytes(type, data, dims);
}

/** The bytes of a .npy file (version 1.0). */
export function writeNpy(tensor: Tensor): Uint8Array<ArrayBuffer> {
  checkTensor(tensor);
  const kind = Object.entries(typeByDescr).find(([, type]) => type === tensor.type)![0];
  const order = kind.endsWith('1') ? '|' : '<';
  const shape = `(${tensor.dims.join(', ')}${tensor.dims.length === 1 ? ',' : ''})`;
  const header = `{'descr': '${order}${kind}', 'fortran_order': False, 'shape': ${shape}, }`;
  // The data begins at a multiple of 64 bytes; the header ends with a newline.
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
  const data = bytesOf(tensor.data);
  const bytes = new Uint8Array(10 + padded.length + data.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
  new DataView(bytes.buffer).setUint16(8, padded.length, true);
  bytes.set(new TextEncoder().encode(padded), 10);
  bytes.set(data, 10 + padded.length);
  return bytes;
}

const END_OF_DIRECTORY = 0x06054b50;
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_HEADER = 0x04034b50;

/** Reads a .npz file, stored or deflated: arrays by name, without the ending ".npy". */
export async function parseNpz(bytes: Uint8Array, name = 'the file'): Promise<Map<string, Tensor>> {
  checkBytes(bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const u16 = (at: number) => {
    if (at + 2 > bytes.length) throw damaged(name, 'it is cut off');
    return view.getUint16(at, true);
  };
  const u32 = (at: number) => {
    if (at < 0 || at + 4 > bytes.length) throw damaged(name, 'it is cut off');
    return view.getUint32(at, true);
  };
  // The end record is the last part of the file, except for a comment of at most 65535 bytes.
  let end = bytes.length - 22;
  const lowest = Math.max(0, end - 65535);
  while (end >= lowest && u32(end) !== END_OF_DIRECTORY) end -= 1;
  if (end < lowest) throw damaged(name, 'no ZIP directory');
  const arrays = new Map<string, Tensor>();
  let at = u32(end + 16);
  for (let left = u16(end + 10); left > 0; left--) {
    if (u32(at) !== DIRECTORY_ENTRY) throw damaged(name, 'the ZIP directory is damaged');
    const method = u16(at + 10);
    const packed = u32(at + 20);
    const size = u32(at + 24);
    const nameSize = u16(at + 28);
    const next = at + 46 + nameSize + u16(at + 30) + u16(at + 32);
    const local = u32(at + 42);
    const entry = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameSize));
    at = next;
    if (!entry.endsWith('.npy')) continue;
    const label = `${name}:${entry}`;
    if ([packed, size, local].includes(0xffffffff)) {
      throw new RequantError('UNSUPPORTED', `${label} is larger than 4 GB`, { value: entry });
    }
    if (u32(local) !== LOCAL_HEADER) throw damaged(label, 'its ZIP header is damaged');
    const start = local + 30 + u16(local + 26) + u16(local + 28);
    if (start + packed > bytes.length) throw damaged(label, 'it is cut off');
    const content = bytes.subarray(start, start + packed);
    let array: Uint8Array;
    if (method === 0) array = content;
    else if (method === 8) array = await decompress(content, 'deflate-raw', label, size);
    else {
      throw new RequantError('UNSUPPORTED', `${label} is packed with ZIP method ${method}`, {
        value: entry,
        hint: 'numpy.savez and numpy.savez_compressed write what can be read.',
      });
    }
    arrays.set(entry.slice(0, -'.npy'.length), parseNpy(array, label));
  }
  if (arrays.size === 0) throw damaged(name, 'it holds no arrays');
  return arrays;
}

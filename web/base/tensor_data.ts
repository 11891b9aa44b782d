import { RequantError, invalidArgument, show } from './errors.js';
import { type Float16Data, float16Array, toHalf } from './half.js';
import { checkTexts, packTexts } from './texts.js';

/**
 * The typed array that holds a tensor's elements: bool one byte each; float16 numbers where the engine has
 * Float16Array, else bit patterns; bfloat16 and the float8 types bit patterns ({@link Tensor.toFloat32} gives
 * their numbers). Strings are in an array.
 */
export interface TensorDataMap {
  float32: Float32Array;
  uint8: Uint8Array;
  int8: Int8Array;
  uint16: Uint16Array;
  int16: Int16Array;
  int32: Int32Array;
  int64: BigInt64Array;
  bool: Uint8Array;
  float16: Float16Data;
  float64: Float64Array;
  uint32: Uint32Array;
  uint64: BigUint64Array;
  bfloat16: Uint16Array;
  float8e4m3fn: Uint8Array;
  float8e4m3fnuz: Uint8Array;
  float8e5m2: Uint8Array;
  float8e5m2fnuz: Uint8Array;
  string: string[];
}

/** Names of the element types, as in onnxruntime-web, and those of bfloat16 and float8. */
export type TensorType = keyof TensorDataMap;

/** Names of the element types whose elements are in typed arrays. */
export type NumberType = Exclude<TensorType, 'string'>;

/** Values from which a tensor can be made. */
export type TensorInput =
  TensorDataMap[TensorType] | readonly (number | bigint | boolean)[] | readonly string[];

type ArrayType = {
  new (buffer: ArrayBufferLike): TensorDataMap[NumberType];
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
};

/** The typed arrays. */
export const arrayTypes: Record<NumberType, ArrayType> = {
  float32: Float32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
  float16: float16Array,
  float64: Float64Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bfloat16: Uint16Array,
  float8e4m3fn: Uint8Array,
  float8e4m3fnuz: Uint8Array,
  float8e5m2: Uint8Array,
  float8e5m2fnuz: Uint8Array,
};

/** Names of all element types. */
export const tensorTypes = [...Object.keys(arrayTypes), 'string'] as readonly TensorType[];

/** The bytes of a typed array, without copying; those of strings as packTexts makes them. */
export function bytesOf(data: ArrayBufferView | readonly string[]): Uint8Array {
  if (!ArrayBuffer.isView(data)) return packTexts(data);
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Largest and smallest value of each integer type, for numbers given in plain arrays. */
const integerRanges: Partial<Record<TensorType, readonly [bigint, bigint]>> = {
  uint8: [0n, 255n],
  int8: [-128n, 127n],
  uint16: [0n, 65535n],
  int16: [-32768n, 32767n],
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
};

function fromPlainArray(type: NumberType, values: readonly unknown[]): TensorDataMap[NumberType] {
  const bad = (index: number) =>
    invalidArgument(`element ${index} is ${show(values[index])}, which is no ${type}`, 'data');
  const range = integerRanges[type];
  if (type.startsWith('float8')) {
    throw invalidArgument(`a tensor of type ${type} needs its codes`, 'data', 'Give a Uint8Array.');
  }
  if (type === 'int64' || type === 'uint64') {
    const data =
      type === 'int64' ? new BigInt64Array(values.length) : new BigUint64Array(values.length);
    values.forEach((value, index) => {
      const whole =
        typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
      if (typeof whole !== 'bigint' || whole < range![0] || whole > range![1]) throw bad(index);
      data[index] = whole;
    });
    return data;
  }
  const data = new arrayTypes[type](
    new ArrayBuffer(values.length * arrayTypes[type].BYTES_PER_ELEMENT),
  ) as Float32Array | Uint8Array;
  values.forEach((value, index) => {
    if (type === 'bool') {
      if (value !== true && value !== false && value !== 0 && value !== 1) throw bad(index);
    } else if (typeof value !== 'number') {
      throw bad(index);
    } else if (range && !(Number.isInteger(value) && value >= range[0] && value <= range[1])) {
      throw bad(index);
    }
    const rounds = type === 'bfloat16' || (type === 'float16' && data instanceof Uint16Array);
    data[index] = rounds ? toHalf(type, Number(value)) : Number(value);
  });
  return data;
}

/** The data of a tensor of that type; TYPE_MISMATCH where it does not fit. */
export function checkData(type: TensorType, data: unknown): TensorDataMap[TensorType] {
  if (type === 'string') return checkTexts(data);
  const wanted = arrayTypes[type];
  if (Array.isArray(data)) return fromPlainArray(type, data);
  if (data instanceof (wanted as unknown as new () => object)) {
    return data as TensorDataMap[TensorType];
  }
  if (
    ArrayBuffer.isView(data) &&
    Object.prototype.toString.call(data) === `[object ${wanted.name}]`
  ) {
    return data as unknown as TensorDataMap[TensorType]; // from another realm, such as an iframe
  }
  const name = Object.prototype.toString.call(data);
  if (type === 'float16' && /^\[object (Float16|Uint16)Array\]$/.test(name)) {
    const view = data as ArrayBufferView;
    return new float16Array(view.buffer, view.byteOffset, view.byteLength / 2);
  }
  if (type === 'uint8' && name === '[object Uint8ClampedArray]') {
    const view = data as ArrayBufferView;
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  }
  throw new RequantError(
    'TYPE_MISMATCH',
    `a tensor of type ${type} needs a ${wanted.name} or an array, not ${show(data)}`,
    { value: 'data' },
  );
}

/** The type of a tensor that is made of this data alone. */
export function typeOf(data: unknown): TensorType {
  const name = Object.prototype.toString.call(data).slice('[object '.length, -1);
  if (name === 'Uint8ClampedArray') return 'uint8';
  if (name === 'Float16Array') return 'float16';
  const found = Object.entries(arrayTypes).find(([, array]) => array.name === name);
  if (found) return found[0] as NumberType;
  if (Array.isArray(data) && data.length > 0) {
    if (data.every((value) => typeof value === 'number')) return 'float32';
    if (data.every((value) => typeof value === 'boolean')) return 'bool';
    if (data.every((value) => typeof value === 'bigint')) return 'int64';
    if (data.every((value) => typeof value === 'string')) return 'string';
  }
  throw new RequantError('TYPE_MISMATCH', `cannot tell the element type of ${show(data)}`, {
    value: 'data',
    hint: "Name it: new Tensor('float32', data, dims).",
  });
}

/** Bytes of one element; 8 of a string, beside the bytes of its characters. */
export function bytesPerElement(type: TensorType): number {
  return type === 'string' ? 8 : arrayTypes[type].BYTES_PER_ELEMENT;
}

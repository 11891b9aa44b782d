import { RequantError, invalidArgument, show } from './errors.js';
import { type Float16Data, float16Array, isSmallFloat, toHalf, toNumbers } from './half.js';
import { freePlace, locationOf, placeOf } from './tensor_place.js';
import {
  type TensorFromImageOptions,
  type TensorToImageOptions,
  elementsToPixels,
  imageToElements,
  toDataURL,
  toImageData,
} from './tensor_image.js';

/**
 * The typed array that holds a tensor's elements: bool one byte each; float16 numbers where the engine has
 * Float16Array, else bit patterns; bfloat16 and the float8 types bit patterns ({@link Tensor.toFloat32} gives
 * their numbers).
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
}

/** Names of the element types, as in onnxruntime-web, and those of bfloat16 and float8. */
export type TensorType = keyof TensorDataMap;

/** Values from which a tensor can be made. */
export type TensorInput = TensorDataMap[TensorType] | readonly (number | bigint | boolean)[];

type ArrayType = {
  new (buffer: ArrayBufferLike): TensorDataMap[TensorType];
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
};

const arrayTypes: Record<TensorType, ArrayType> = {
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
export const tensorTypes = Object.keys(arrayTypes) as readonly TensorType[];

/** The bytes of a typed array, without copying. */
export function bytesOf(data: ArrayBufferView): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Number of elements of a tensor with these dimensions. Throws INVALID_ARGUMENT. */
export function elementCount(dims: readonly number[]): number {
  if (!Array.isArray(dims)) {
    throw invalidArgument(`dims must be an array of integers, not ${show(dims)}`, 'dims');
  }
  let size = 1;
  dims.forEach((dim, axis) => {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw invalidArgument(`dims[${axis}] must be an integer >= 0, not ${show(dim)}`, 'dims');
    }
    size *= dim;
  });
  if (!Number.isSafeInteger(size)) {
    throw invalidArgument(`a tensor of [${dims.join(', ')}] has too many elements`, 'dims');
  }
  return size;
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

function fromPlainArray(type: TensorType, values: readonly unknown[]): TensorDataMap[TensorType] {
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

function checkData(type: TensorType, data: unknown): TensorDataMap[TensorType] {
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

function typeOf(data: unknown): TensorType {
  const name = Object.prototype.toString.call(data).slice('[object '.length, -1);
  if (name === 'Uint8ClampedArray') return 'uint8';
  if (name === 'Float16Array') return 'float16';
  const found = tensorTypes.find((type) => arrayTypes[type].name === name);
  if (found) return found;
  if (Array.isArray(data) && data.length > 0) {
    if (data.every((value) => typeof value === 'number')) return 'float32';
    if (data.every((value) => typeof value === 'boolean')) return 'bool';
    if (data.every((value) => typeof value === 'bigint')) return 'int64';
  }
  throw new RequantError('TYPE_MISMATCH', `cannot tell the element type of ${show(data)}`, {
    value: 'data',
    hint: "Name it: new Tensor('float32', data, dims).",
  });
}

/**
 * Elements of one type in row-major order, with dimensions. A typed array of the right kind is not copied.
 *
 * @example
 * new Tensor('float32', new Float32Array(6), [2, 3]);
 * new Tensor('int64', [1, 2, 3]); // dims [3]
 * new Tensor(new Uint8Array(4), [2, 2]);
 */
export class Tensor<T extends TensorType = TensorType> {
  /** Type of the elements. */
  readonly type: T;
  /** The elements in row-major order. Throws UNSUPPORTED for a tensor in the engine. */
  readonly data: TensorDataMap[T];
  /** Length of each axis; empty for a scalar. */
  readonly dims: readonly number[];
  /** Number of elements. */
  readonly size: number;

  /**
   * @throws RequantError TYPE_MISMATCH when the data does not fit the type, SHAPE_MISMATCH when its length is
   * not the product of the dimensions, INVALID_ARGUMENT for an unknown type or bad dimensions.
   */
  constructor(
    type: T,
    data: TensorDataMap[T] | readonly (number | bigint | boolean)[],
    dims?: readonly number[],
  );
  /** The type follows from the array; a plain array of numbers is float32. */
  constructor(data: TensorInput, dims?: readonly number[]);
  constructor(
    first: T | TensorInput,
    second?: TensorInput | readonly number[],
    third?: readonly number[],
  ) {
    const named = typeof first === 'string';
    const type = named ? first : (typeOf(first) as T);
    if (!Object.hasOwn(arrayTypes, type)) {
      throw invalidArgument(
        `unknown tensor type ${show(type)}`,
        'type',
        `Use one of ${tensorTypes.join(', ')}.`,
      );
    }
    const data = checkData(type, named ? second : first);
    const dims = (named ? third : (second as readonly number[] | undefined)) ?? [data.length];
    const size = elementCount(dims);
    if (size !== data.length) {
      throw new RequantError(
        'SHAPE_MISMATCH',
        `dims [${dims.join(', ')}] need ${size} elements, but the data has ${data.length}`,
        { value: 'dims' },
      );
    }
    this.type = type;
    this.data = data as TensorDataMap[T];
    this.dims = [...dims];
    this.size = size;
  }

  /** The same data with other dimensions; one of them may be -1 and follows from the others. */
  reshape(dims: readonly number[]): Tensor<T> {
    if (!Array.isArray(dims)) elementCount(dims); // the constructor would take it for missing
    const open = dims.indexOf(-1);
    if (open < 0) return new Tensor<T>(this.type, this.data, dims);
    const rest = elementCount(dims.filter((_, axis) => axis !== open));
    if (rest === 0 || this.size % rest !== 0) {
      throw new RequantError(
        'SHAPE_MISMATCH',
        `${this.size} elements cannot take the shape [${dims.join(', ')}]`,
        { value: 'dims' },
      );
    }
    return new Tensor<T>(
      this.type,
      this.data,
      dims.map((dim, axis) => (axis === open ? this.size / rest : dim)),
    );
  }

  /**
   * A picture as a tensor, as onnxruntime-web makes it: by default float32 [1, 3, height, width] of pixels
   * divided by 255. `resizedWidth` and `resizedHeight` scale the picture.
   *
   * @param image An ImageData (or RGBA pixels with width and height), an HTMLImageElement that has loaded, an
   * ImageBitmap, a canvas, or a URL. All but the first need a canvas, which Node does not have.
   * @throws RequantError INVALID_ARGUMENT, LOAD_FAILED for a URL, UNSUPPORTED without a canvas.
   */
  static async fromImage(
    image:
      ImageData | HTMLImageElement | ImageBitmap | HTMLCanvasElement | OffscreenCanvas | string,
    options: TensorFromImageOptions = {},
  ): Promise<Tensor<'float32'> | Tensor<'uint8'>> {
    const { type, data, dims } = await imageToElements(image, options);
    return type === 'uint8'
      ? new Tensor('uint8', data as Uint8Array, dims)
      : new Tensor('float32', data as Float32Array, dims);
  }

  /** A tensor of an existing array, for code written for onnxruntime-web. */
  static fromPinnedBuffer<U extends TensorType>(
    type: U,
    buffer: TensorDataMap[U],
    dims?: readonly number[],
  ): Tensor<U> {
    return new Tensor(type, buffer, dims);
  }

  /**
   * Where the data is: 'cpu' (JavaScript's memory), 'engine' (see `preferredOutputLocation` of
   * {@link SessionOptions}), or 'none' after such a tensor was disposed of.
   */
  get location(): 'cpu' | 'engine' | 'none' {
    return locationOf(this);
  }

  /**
   * The tensor [1, C, H, W] (or [1, H, W, C]) as a picture: numbers less `norm.bias`, times `norm.mean` (default
   * 255). In Node the result is a plain object with the members of an ImageData.
   *
   * @throws RequantError SHAPE_MISMATCH for a tensor that is no picture, INVALID_ARGUMENT.
   */
  toImageData(options: TensorToImageOptions = {}): ImageData {
    return toImageData(elementsToPixels(this.data, this.dims, options));
  }

  /** What {@link toImageData} gives, as a PNG in a data URL; only in pages. */
  toDataURL(options: TensorToImageOptions = {}): string {
    return toDataURL(elementsToPixels(this.data, this.dims, options));
  }

  /**
   * The elements as float32 numbers: those of a half or float8 tensor exactly, others rounded to float32 where
   * they have more digits. A float32 tensor gives its own data.
   */
  toFloat32(): Float32Array {
    const { data, type } = this as Tensor;
    if (data instanceof Float32Array) return data;
    if (isSmallFloat(type) && (data instanceof Uint16Array || data instanceof Uint8Array)) {
      return toNumbers(type, data);
    }
    return Float32Array.from(data as ArrayLike<number | bigint>, Number);
  }

  /**
   * Resolves to the data: a copy if the tensor is in the engine.
   *
   * @param releaseData Whether the data of a tensor in the engine moves to JavaScript's memory instead; its
   * location is then 'cpu'.
   * @throws RequantError DISPOSED after the tensor in the engine was disposed of.
   */
  async getData(releaseData = false): Promise<TensorDataMap[T]> {
    const place = placeOf(this);
    if (!place) return this.data;
    const { data } = tensorFromBytes(this.type, await place.read(), this.dims);
    if (releaseData && placeOf(this) === place) {
      Object.defineProperty(this, 'data', { value: data, enumerable: true });
      freePlace(this, true);
    }
    return data as TensorDataMap[T];
  }

  /**
   * Gives the memory of a tensor in the engine back, whose data cannot be used any more; other tensors are
   * ordinary memory and stay as they are.
   */
  dispose(): void {
    freePlace(this, false);
  }
}

function arrayOf(type: TensorType): ArrayType {
  const array = arrayTypes[type];
  if (array) return array;
  throw new RequantError('UNSUPPORTED', `the engine returned a tensor of type ${show(type)}`);
}

/** The number of bytes of a tensor's elements. */
export function byteLength(type: TensorType, dims: readonly number[]): number {
  return elementCount(dims) * arrayOf(type).BYTES_PER_ELEMENT;
}

/** Makes a tensor over bytes that nobody else uses. */
export function tensorFromBytes(
  type: TensorType,
  bytes: Uint8Array<ArrayBuffer>,
  dims: readonly number[],
): Tensor {
  // The core may pad a scalar or empty tensor; the dimensions decide.
  const size = byteLength(type, dims);
  return new Tensor(
    type,
    new (arrayOf(type))(bytes.length === size ? bytes.buffer : bytes.buffer.slice(0, size)),
    dims,
  );
}

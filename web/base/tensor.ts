import { RequantError, invalidArgument, show } from './errors.js';
import { isSmallFloat, toNumbers } from './half.js';
import {
  type NumberType,
  type TensorDataMap,
  type TensorInput,
  type TensorType,
  arrayTypes,
  checkData,
  tensorTypes,
  typeOf,
} from './tensor_data.js';
import { freePlace, locationOf, placeOf } from './tensor_place.js';
import {
  type TensorFromImageOptions,
  type TensorToImageOptions,
  elementsToPixels,
  imageToElements,
  toDataURL,
  toImageData,
} from './tensor_image.js';
import { unpackTexts } from './texts.js';

export type { TensorDataMap, TensorInput, TensorType } from './tensor_data.js';
export { bytesOf, bytesPerElement, tensorTypes } from './tensor_data.js';

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

/** The data of a tensor of numbers. Throws TYPE_MISMATCH for strings. */
function numbersOf(tensor: Tensor): TensorDataMap[NumberType] {
  if (tensor.type !== 'string') return tensor.data as TensorDataMap[NumberType];
  throw new RequantError('TYPE_MISMATCH', 'a tensor of strings holds no numbers');
}

/**
 * Elements of one type in row-major order, with dimensions. A typed array of the right kind is not copied.
 *
 * @example
 * new Tensor('float32', new Float32Array(6), [2, 3]);
 * new Tensor('int64', [1, 2, 3]); // dims [3]
 * new Tensor(new Uint8Array(4), [2, 2]);
 * new Tensor('string', ['red', 'green'], [2]);
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
    data: TensorDataMap[T] | readonly (number | bigint | boolean)[] | readonly string[],
    dims?: readonly number[],
  );
  /** The type follows from the array; a plain array of numbers is float32, one of strings string. */
  constructor(data: TensorInput, dims?: readonly number[]);
  constructor(
    first: T | TensorInput,
    second?: TensorInput | readonly number[],
    third?: readonly number[],
  ) {
    const named = typeof first === 'string';
    const type = named ? first : (typeOf(first) as T);
    if (!tensorTypes.includes(type)) {
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
    return toImageData(elementsToPixels(numbersOf(this), this.dims, options));
  }

  /** What {@link toImageData} gives, as a PNG in a data URL; only in pages. */
  toDataURL(options: TensorToImageOptions = {}): string {
    return toDataURL(elementsToPixels(numbersOf(this), this.dims, options));
  }

  /**
   * The elements as float32 numbers: those of a half or float8 tensor exactly, others rounded to float32 where
   * they have more digits. A float32 tensor gives its own data.
   *
   * @throws RequantError TYPE_MISMATCH for strings.
   */
  toFloat32(): Float32Array {
    const { type } = this;
    const data = numbersOf(this);
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

function arrayOf(type: NumberType) {
  const array = arrayTypes[type];
  if (array) return array;
  throw new RequantError('UNSUPPORTED', `the engine returned a tensor of type ${show(type)}`);
}

/** The number of bytes of a tensor's elements. */
export function byteLength(type: NumberType, dims: readonly number[]): number {
  return elementCount(dims) * arrayOf(type).BYTES_PER_ELEMENT;
}

/** Makes a tensor over bytes that nobody else uses, such as bytesOf() gives. */
export function tensorFromBytes(
  type: TensorType,
  bytes: Uint8Array<ArrayBuffer>,
  dims: readonly number[],
): Tensor {
  if (type === 'string') {
    return new Tensor(type, unpackTexts(bytes, elementCount(dims))?.texts ?? [], dims);
  }
  // The core may pad a scalar or empty tensor; the dimensions decide.
  const size = byteLength(type, dims);
  return new Tensor(
    type,
    new (arrayOf(type))(bytes.length === size ? bytes.buffer : bytes.buffer.slice(0, size)),
    dims,
  );
}

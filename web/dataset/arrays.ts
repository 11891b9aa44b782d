// Reads arrays with many samples along their first axis, and plain numbers without a header.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { isSmallFloat } from '../base/half.js';
import { checkBytes, checkKind } from '../base/options.js';
import {
  Tensor,
  type TensorDataMap,
  type TensorType,
  bytesOf,
  elementCount,
  bytesPerElement,
  tensorFromBytes,
} from '../base/tensor.js';
import { checkTensor } from '../base/tensor_like.js';
import { type Dataset, makeDataset } from './sample.js';

/** Shape and type of a network's input; null and names stand for open dimensions. */
export interface InputShape {
  name: string;
  type: TensorType;
  dims: readonly (number | string | null)[];
}

/** Throws INVALID_ARGUMENT for values that are no inputs of a model. */
export function checkInputs(inputs: unknown): void {
  if (Array.isArray(inputs) && inputs.every((input) => Array.isArray(input?.dims))) return;
  throw invalidArgument(`inputs is ${show(inputs)}`, 'inputs', 'Give model.info.inputs.');
}

/** The same numbers with another element type. Numbers that do not fit an integer type are an error. */
export function castTensor(tensor: Tensor, type: TensorType): Tensor {
  checkTensor(tensor);
  if (tensor.type === type || type.startsWith('float8')) return tensor;
  const wide = type === 'int64' || type === 'uint64';
  const data = isSmallFloat(tensor.type) ? tensor.toFloat32() : tensor.data;
  const values = Array.from(data as ArrayLike<number | bigint>, (value) =>
    wide ? value : Number(value),
  );
  return new Tensor(type, type === 'bool' ? values.map(Boolean) : values, tensor.dims);
}

/** Elements [first, last) along the first axis, with these dimensions; shares the memory. */
function slice(tensor: Tensor, first: number, last: number, dims: readonly number[]): Tensor {
  const row = tensor.size / tensor.dims[0]!;
  const data = (tensor.data as TensorDataMap['float32']).subarray(first * row, last * row);
  return new Tensor(tensor.type, data, dims);
}

function fits(dims: readonly number[], wanted: InputShape['dims']): boolean {
  return (
    dims.length === wanted.length &&
    dims.every((dim, axis) => typeof wanted[axis] !== 'number' || wanted[axis] === dim)
  );
}

/**
 * The number of samples in an array for this input. An array of the input's own shape with a fixed first
 * dimension is one sample; otherwise the first axis counts samples, either in place of the input's first
 * (batch) axis or before it.
 */
export function sampleCount(tensor: Tensor, input: InputShape): number {
  checkTensor(tensor);
  checkKind(input, 'object', 'input');
  const { dims } = tensor;
  if (fits(dims, input.dims) && typeof input.dims[0] === 'number') return 1;
  if (dims.length === input.dims.length + 1 && fits(dims.slice(1), input.dims)) return dims[0]!;
  const batch = typeof input.dims[0] === 'number' ? input.dims[0] : 1;
  if (fits(dims.slice(1), input.dims.slice(1)) && batch > 0 && dims[0]! % batch === 0) {
    return dims[0]! / batch;
  }
  throw new RequantError(
    'SHAPE_MISMATCH',
    `an array of [${dims.join(', ')}] does not fit input "${input.name}" of ` +
      `[${input.dims.map((dim) => dim ?? '?').join(', ')}]`,
    { value: input.name, hint: 'The first axis may count samples; the others must be the same.' },
  );
}

/** Sample `index` of an array with `count` samples. */
export function sampleAt(tensor: Tensor, input: InputShape, count: number, index: number): Tensor {
  checkTensor(tensor);
  checkKind(input, 'object', 'input');
  const { dims } = tensor;
  if (count === 1 && fits(dims, input.dims)) return castTensor(tensor, input.type);
  const stacked = dims.length === input.dims.length + 1;
  const rows = stacked ? 1 : dims[0]! / count;
  const shape = stacked ? dims.slice(1) : [rows, ...dims.slice(1)];
  return castTensor(slice(tensor, index * rows, (index + 1) * rows, shape), input.type);
}

/** Makes samples of arrays by the names of the inputs; an array "label" or "labels" has the labels. */
export function arraySamples(
  arrays: ReadonlyMap<string, Tensor>,
  inputs: readonly InputShape[],
): Dataset {
  if (!(arrays instanceof Map)) {
    throw invalidArgument(`arrays must be a Map, not ${show(arrays)}`, 'arrays');
  }
  checkInputs(inputs);
  for (const [name, tensor] of arrays) checkTensor(tensor, name);
  const labels = arrays.get('labels') ?? arrays.get('label');
  const rest = [...arrays].filter(([, tensor]) => tensor !== labels);
  const parts = inputs.map((input) => {
    // A single array must be for the single input, whatever its name.
    const only = inputs.length === 1 && rest.length === 1 ? rest[0]![1] : undefined;
    const tensor = arrays.get(input.name) ?? only;
    if (!tensor) {
      throw invalidArgument(
        `there is no array for input "${input.name}"`,
        input.name,
        `There are: ${[...arrays.keys()].join(', ')}.`,
      );
    }
    return { input, tensor, count: sampleCount(tensor, input) };
  });
  const length = parts[0]?.count ?? 0;
  for (const { input, count } of parts) {
    if (count !== length) {
      throw invalidArgument(
        `input "${input.name}" has ${count} samples, "${parts[0]!.input.name}" has ${length}`,
        input.name,
      );
    }
  }
  if (labels && labels.size !== length) {
    throw invalidArgument(`there are ${labels.size} labels for ${length} samples`, 'labels');
  }
  return makeDataset(length, (index) => ({
    feeds: Object.fromEntries(
      parts.map(({ input, tensor, count }) => [input.name, sampleAt(tensor, input, count, index)]),
    ),
    ...(labels ? { label: Number(labels.data[index]) } : {}),
  }));
}

/** Reads little-endian numbers without a header as one array of samples: [N, ...dims]. */
export function parseRaw(bytes: Uint8Array, type: TensorType, dims: readonly number[]): Tensor {
  checkBytes(bytes);
  if (type === 'string') throw invalidArgument('raw bytes are no strings', 'type');
  const element = bytesPerElement(type);
  const size = elementCount(dims) * element;
  if (size === 0 || bytes.length === 0 || bytes.length % size !== 0) {
    throw invalidArgument(
      `${bytes.length} bytes are no whole number of ${type} [${dims.join(', ')}] (${size} bytes each)`,
      'shape',
    );
  }
  const copy = new Uint8Array(bytes);
  return tensorFromBytes(type, copy, [bytes.length / size, ...dims]);
}

/** The elements as bytes, little-endian. */
export function rawBytes(tensor: Tensor): Uint8Array {
  checkTensor(tensor);
  return bytesOf(tensor.data);
}

// Objects of other classes that the package takes as tensors.

import { RequantError, invalidArgument, show } from './errors.js';
import { Tensor, type TensorDataMap, type TensorInput, type TensorType } from './tensor.js';

/** What sessions take for a tensor: also one of onnxruntime-web, or of another copy of this package. */
export interface TensorLike {
  readonly type: string;
  readonly data: TensorDataMap[TensorType] | ArrayBufferView | readonly unknown[];
  readonly dims: readonly number[];
}

function dataOf(tensor: TensorLike, what: string, name: string): TensorInput {
  try {
    return tensor.data as TensorInput;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RequantError('UNSUPPORTED', `the ${what} has no data in memory: ${why}`, {
      value: name,
      hint: 'Make a new Tensor of what its getData() resolves to.',
      cause: error,
    });
  }
}

/**
 * A tensor of this class over the data of any {@link TensorLike}; undefined for other values.
 *
 * @param what What the value is, for errors, such as 'feed "image"'.
 */
export function tensorOf(value: unknown, what: string, name: string): Tensor | undefined {
  if (value instanceof Tensor) return value;
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('type' in value && 'dims' in value && 'data' in value)) return undefined;
  const tensor = value as TensorLike;
  try {
    return new Tensor(tensor.type as TensorType, dataOf(tensor, what, name), tensor.dims);
  } catch (error) {
    if (!(error instanceof RequantError) || error.value === name) throw error;
    const { code, message, hint } = error;
    throw new RequantError(code, `${what}: ${message}`, { value: name, hint, cause: error });
  }
}

/** Throws INVALID_ARGUMENT for a value that is no tensor. */
export function checkTensor(tensor: unknown, name = 'tensor'): void {
  if (tensor instanceof Tensor) return;
  throw invalidArgument(`${name} must be a Tensor, not ${show(tensor)}`, name);
}

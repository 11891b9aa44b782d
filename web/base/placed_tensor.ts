// Makes tensors whose elements are elsewhere.

import { Tensor, type TensorType, elementCount } from './tensor.js';
import { type Place, notHere, setPlace } from './tensor_place.js';

/**
 * @internal A tensor of elements at a place; reading its `data` throws UNSUPPORTED. The constructor of Tensor would need
 * data, so the object is made without it.
 */
export function placedTensor(type: TensorType, dims: readonly number[], place: Place): Tensor {
  const tensor = Object.create(Tensor.prototype, {
    type: { value: type, enumerable: true, writable: true },
    dims: { value: [...dims], enumerable: true, writable: true },
    size: { value: elementCount(dims), enumerable: true, writable: true },
    data: {
      configurable: true,
      get(this: Tensor): never {
        throw notHere(this);
      },
    },
  }) as Tensor;
  setPlace(tensor, place);
  return tensor;
}

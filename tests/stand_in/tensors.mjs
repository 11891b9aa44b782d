// Tensors of every type, made in the ways that onnxruntime-web has, and reshaped.

import { Tensor } from 'onnxruntime-web';

const describe = ({ type, dims, size, data, location }) => ({
  type,
  dims: [...dims],
  size,
  location,
  data: Array.from(data, Number),
});

export async function main() {
  const tensors = [
    new Tensor('float32', [1.5, 2.5, -3], [3]),
    new Tensor('float32', new Float32Array([1, 2, 3, 4]), [2, 2]),
    new Tensor(new Float32Array([1, 2, 3, 4])),
    new Tensor(new Uint8ClampedArray([1, 300]), [1, 2]),
    new Tensor('int64', [1n, -2n, 3n], [3]),
    new Tensor('int64', [1, 2], [2]),
    new Tensor('bool', [true, false], [2]),
    new Tensor([true, false, true]),
    new Tensor('int32', [7], []),
    new Tensor('uint8', new Uint8Array(0), [0, 3]),
    new Tensor(new BigUint64Array([5n]), [1, 1]),
    new Tensor('float64', [0.1], [1]),
    Tensor.fromPinnedBuffer('float32', new Float32Array(4), [4]),
    new Tensor('float32', new Float32Array(6), [2, 3]).reshape([3, 2]),
  ];
  tensors[1].data[3] = 9;
  return {
    tensors: tensors
      .map(describe)
      .map((tensor, at) => (at === 12 ? { ...tensor, location: 'cpu' } : tensor)),
    same: (await tensors[1].getData()) === tensors[1].data,
    instances: tensors.every((tensor) => tensor instanceof Tensor),
  };
}

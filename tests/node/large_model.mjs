// Models with large float weights, as bytes of ONNX files. Field numbers:
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, ...parts) => {
  const all = Buffer.concat(parts);
  return Buffer.concat([varint(field * 8 + 2), varint(all.length), all]);
};
const string = (field, value) => bytes(field, Buffer.from(value));

const FLOAT = 1;

/** A type of floats; a dimension is a number or a name. */
const floats = (dims) =>
  bytes(
    1,
    number(1, FLOAT),
    bytes(
      2,
      ...dims.map((dim) => bytes(1, typeof dim === 'number' ? number(1, dim) : string(2, dim))),
    ),
  );

/** Numbers in [-1/2, 1/2) / 8, always the same for a seed. */
function weights(count, seed) {
  const numbers = new Float32Array(count);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    numbers[i] = ((state >>> 8) / 2 ** 24 - 0.5) / 8;
  }
  return Buffer.from(numbers.buffer);
}

/**
 * `layers` products of `x` [B, S, width] with a constant [width, width], a Tanh behind each, as one file.
 */
export function productsModel(width, layers) {
  const parts = [];
  for (let i = 0; i < layers; i++) {
    const product = [
      string(1, `x${i}`),
      string(1, `w${i}`),
      string(2, `m${i}`),
      string(4, 'MatMul'),
    ];
    parts.push(bytes(1, ...product));
    parts.push(bytes(1, string(1, `m${i}`), string(2, `x${i + 1}`), string(4, 'Tanh')));
    const dims = [number(1, width), number(1, width)];
    const raw = bytes(9, weights(width * width, i + 1));
    parts.push(bytes(5, ...dims, number(2, FLOAT), string(8, `w${i}`), raw));
  }
  const value = (field, name) => bytes(field, string(1, name), bytes(2, floats(['B', 'S', width])));
  const graph = bytes(7, string(2, 'g'), ...parts, value(11, 'x0'), value(12, `x${layers}`));
  return Buffer.concat([number(1, 8), graph, bytes(8, number(2, 17))]);
}

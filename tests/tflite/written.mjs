// Runs a file that toTflite() wrote, in this engine and in LiteRT.js, on feeds in ONNX's order of dimensions.

import { InferenceSession, Tensor } from '../../dist/index.js';
import { Random } from './net.mjs';
import { drop, load, run } from './litert.mjs';

const arrays = {
  float32: Float32Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
  int8: Int8Array,
  uint8: Uint8Array,
};
const product = (dims) => dims.reduce((a, b) => a * b, 1);

/** The elements with dimension axes[i] as the i-th. */
export function transposed(data, dims, axes) {
  const strides = dims.map((_, i) => product(dims.slice(i + 1)));
  const out = new data.constructor(data.length);
  const shape = axes.map((axis) => dims[axis]);
  const index = shape.map(() => 0);
  for (let i = 0; i < data.length; ++i) {
    out[i] = data[index.reduce((sum, at, d) => sum + at * strides[axes[d]], 0)];
    for (let d = shape.length - 1; d >= 0 && ++index[d] === shape[d]; --d) index[d] = 0;
  }
  return out;
}

const inverse = (axes) => axes.map((_, axis) => axes.indexOf(axis));

/** Random feeds of a model: { NAME: { type, dims, data } }. */
export function randomFeeds(inputs, seed, low = -2, high = 2) {
  const random = new Random(seed);
  return Object.fromEntries(
    Object.entries(inputs).map(([name, dims]) => [
      name,
      {
        type: 'float32',
        dims,
        data: Float32Array.from({ length: product(dims) }, () => random.real(low, high)),
      },
    ]),
  );
}

export const asTensors = (feeds) =>
  Object.fromEntries(
    Object.entries(feeds).map(([name, { type, dims, data }]) => [
      name,
      new Tensor(type, data, dims),
    ]),
  );

const given = (report, feeds) =>
  report.inputs.map(({ name, axes, dims }) => {
    const feed = feeds[name];
    return { name, type: feed.type, dims, data: transposed(feed.data, feed.dims, axes) };
  });

const back = ({ axes, dims }, data) => transposed(data, dims, inverse(axes));

/** The outputs by this engine's reader, in ONNX's order: { NAME: data }. */
export async function readBack({ bytes, report }, feeds) {
  const session = await InferenceSession.create(bytes);
  const inputs = given(report, feeds);
  const results = await session.run(
    Object.fromEntries(
      inputs.map(({ name, type, dims, data }) => [name, new Tensor(type, data, dims)]),
    ),
  );
  const out = Object.fromEntries(
    report.outputs.map((end) => [end.name, back(end, results[end.name].data)]),
  );
  await session.release();
  return out;
}

/** The outputs by LiteRT.js, in ONNX's order. */
export async function inLiteRt(litert, { bytes, report }, feeds) {
  const details = await load(litert, 'written', bytes);
  try {
    const inputs = given(report, feeds);
    const { results } = await run(
      litert,
      'written',
      details.inputs.map(({ name }) => inputs.find((one) => one.name === name) ?? inputs[0]),
    );
    return Object.fromEntries(
      report.outputs.map((end, i) => {
        const place = details.outputs.findIndex(({ name }) => name === end.name);
        const result = results[place < 0 ? i : place];
        const data = new arrays[end.type](Uint8Array.from(result.data).buffer);
        return [end.name, back(end, data)];
      }),
    );
  } finally {
    await drop(litert, 'written');
  }
}

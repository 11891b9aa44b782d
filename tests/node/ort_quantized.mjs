// Runs one operator on integers, or between Q/DQ pairs, in this engine and in ONNX Runtime: builds texts, and
// measures the difference of the results.

import assert from 'node:assert/strict';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';

export const range = (type) => (type === 'int8' ? [-128, 127] : [0, 255]);
export const integers = (random, count, lo, hi) =>
  Array.from({ length: count }, () => lo + Math.floor(random() * (hi - lo + 1)));
export const floats = (random, count, size) =>
  Array.from({ length: count }, () => Math.fround((random() - 0.5) * size));
export const product = (dims) => dims.reduce((a, b) => a * b, 1);
export const constant = (name, type, dims, values) =>
  `const %${name}: ${type}[${dims.join(', ')}] = {${values.join(', ')}}`;
export const float = (value) => {
  const text = Math.fround(value).toPrecision(9);
  return /[.e]/.test(text) ? text : `${text}.0`;
};
export const scale = (name, value) => constant(name, 'float32', [], [float(value)]);
export const zero = (name, type, value) => constant(name, type, [], [value]);

/** A graph text for one operator on inputs of the given types. */
export function model(inputs, constants, output, operator) {
  return [
    'graph "operator" opset 13, com.microsoft 1',
    ...inputs.map(({ name, type, dims }) => `input %${name}: ${type}[${dims.join(', ')}]`),
    ...constants,
    `%y: ${output.type}[${output.dims.join(', ')}]${output.more ?? ''} = ${operator}`,
    'output %y',
  ].join('\n');
}

/** The differences of output y; `steps` are those of this engine. */
export async function compareWithOrt(text, feeds, requantize) {
  const parsed = await parseModel(text);
  const session = await InferenceSession.create(parsed, { requantize });
  const reference = await ort.InferenceSession.create(parsed.toOnnx());
  try {
    const ours = (
      await session.run(
        Object.fromEntries(
          feeds.map(({ name, type, dims, data }) => [name, new Tensor(type, data, dims)]),
        ),
      )
    ).y;
    const theirs = (
      await reference.run(
        Object.fromEntries(
          feeds.map(({ name, type, dims, data }) => [
            name,
            new ort.Tensor(
              type,
              type === 'int8'
                ? Int8Array.from(data)
                : type === 'uint8'
                  ? Uint8Array.from(data)
                  : Float32Array.from(data),
              dims,
            ),
          ]),
        ),
      )
    ).y;
    assert.deepEqual([...ours.dims], [...theirs.dims]);
    let different = 0;
    let worst = 0;
    let largest = 0;
    for (let i = 0; i < ours.data.length; i++) {
      const step = Math.abs(ours.data[i] - theirs.data[i]);
      different += step !== 0;
      worst = Math.max(worst, step);
      largest = Math.max(largest, Math.abs(theirs.data[i]));
    }
    const steps = session.plan().steps.map((step) => step.op);
    return { count: ours.data.length, different, worst, largest, steps };
  } finally {
    await session.release();
    await reference.release();
    parsed.dispose();
  }
}

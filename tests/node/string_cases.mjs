// Tensors of strings for tests, and the comparison of graphs with ONNX Runtime.

import assert from 'node:assert/strict';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { list } from './ort_cases.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

// One to four bytes each, white space and a byte order mark. ONNX Runtime ends strings at a zero.
export const LETTERS = ['a', 'B', ' ', 'é', 'Ж', 'ж', '中', '😀', '\ufeff', '7', 'ö', 'Ö', '"'];
export const word = (random, most = 4, letters = LETTERS) =>
  list(
    Math.floor(random() * (most + 1)),
    () => letters[Math.floor(random() * letters.length)],
  ).join('');
/** Words of which some are equal. */
export const words = (random, count, letters) => {
  const few = list(5, () => word(random, 4, letters));
  return list(count, () => few[Math.floor(random() * 5)]);
};
export const size = (dims) => dims.reduce((a, b) => a * b, 1);
export const strings = (dims, random) => ({
  type: 'string',
  dims,
  data: words(random, size(dims)),
});
export const numbers = (type, dims, data) => ({ type, dims, data });
export const quoted = (text) =>
  `"${[...text].map((c) => (c === '\0' ? '\\x00' : /["\\]/.test(c) ? `\\${c}` : c)).join('')}"`;
export const texts = (values) => `[${values.map(quoted).join(', ')}]`;
export const constant = (name, { type, dims, data }) =>
  `const %${name}: ${type}[${dims.join(', ')}] = {${data.map((v) => (type === 'string' ? quoted(v) : v)).join(', ')}}`;
export const int64 = (name, values) => constant(name, numbers('int64', [values.length], values));

export const textOf = (opset, inputs, body, outputs) =>
  [
    `graph "strings" opset ${opset}, ai.onnx.ml 4`,
    ...Object.entries(inputs).map(
      ([name, { type, dims }]) => `input %${name}: ${type}[${dims.map(() => '?').join(', ')}]`,
    ),
    ...body,
    ...outputs.map((name) => `output %${name}`),
  ].join('\n');

export const feedsFor = (inputs, Class) =>
  Object.fromEntries(
    Object.entries(inputs).map(([name, { type, dims, data }]) => [
      name,
      new Class(type, data, dims),
    ]),
  );

export async function ours(bytes, inputs, options) {
  const session = await InferenceSession.create(bytes, options);
  try {
    return await session.run(feedsFor(inputs, Tensor));
  } finally {
    await session.release();
  }
}

/** Compares all outputs with those of ONNX Runtime. */
export async function same(inputs, body, outputs = ['y'], opset = 17) {
  const model = await parseModel(textOf(opset, inputs, body, outputs));
  const bytes = model.toOnnx();
  model.dispose();
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  const wanted = await session.run(feedsFor(inputs, ort.Tensor));
  await session.release();
  for (const optimize of [true, false]) {
    const got = await ours(bytes, inputs, { optimize });
    for (const name of outputs) {
      const what = `${body.join('\n')}\n${JSON.stringify(inputs, (_, v) => (typeof v === 'bigint' ? Number(v) : v))}: ${name}`;
      assert.equal(got[name].type, wanted[name].type, what);
      assert.deepEqual([...got[name].dims], [...wanted[name].dims], what);
      if (got[name].type.startsWith('float')) {
        wanted[name].data.forEach((want, i) => {
          const near = Math.abs(got[name].data[i] - want) <= 1e-5 * Math.max(1, Math.abs(want));
          assert.ok(near || Object.is(got[name].data[i], want), `${what}[${i}]`);
        });
      } else {
        assert.deepEqual([...got[name].data], [...wanted[name].data], what);
      }
    }
  }
}

// Weights of two values in a bit each: the size of the file, and its results here and in onnxruntime-web.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, loadModel, packWeights, parseModel } from '../../dist/index.js';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

let state = 1;
const next = (most) => (state = (state * 48271) % 2147483647) % most;
const numbers = (count, values) =>
  Array.from({ length: count }, () => values[next(values.length)]).join(', ');

/** Convolutions whose weights are -1 and 1, and one with three values. */
const text = `graph "binary" opset 13
input %x: uint8[1, 64, 9, 9]
const %s: float32[] = {1.0}
const %ys: float32[] = {12.0}
const %z: uint8[] = {1}
const %wz: int8[] = {0}
const %low: uint8[] = {0}
const %high: uint8[] = {3}
const %a: int8[96, 64, 3, 3] = {${numbers(96 * 64 * 9, [-1, 1])}}
const %b: int8[33, 96, 1, 1] = {${numbers(33 * 96, [-1, 1])}}
const %c: int8[33, 33, 1, 1] = {${numbers(33 * 33, [-1, 0, 1])}}
%u = Clip(%x, %low, %high)
%v_ = QLinearConv(%u, %s, %z, %a, %s, %wz, %ys, %z) {pads = [1, 1, 1, 1]}
%v = Clip(%v_, %low, %high)
%w_ = QLinearConv(%v, %s, %z, %b, %s, %wz, %ys, %z)
%w = Clip(%w_, %low, %high)
%y = QLinearConv(%w, %s, %z, %c, %s, %wz, %s, %z)
output %y
`;

test('an eighth of the bytes, the same integers', async () => {
  const model = await parseModel(text);
  const packed = await packWeights(model);
  const [bytes, small] = [model.toOnnx(), packed.toOnnx()];
  const weights = 96 * 64 * 9 + 33 * 96;
  assert.ok(bytes.length - small.length > (weights * 7) / 8 - 2000, `${small.length}`);
  const x = Uint8Array.from({ length: 64 * 81 }, () => next(4));
  const feeds = { x: new Tensor('uint8', x, [1, 64, 9, 9]) };
  const read = await loadModel(small);
  const kernels = [];
  const outputs = [];
  for (const source of [model, packed, read]) {
    const session = await InferenceSession.create(source, { requantize: 'float' });
    outputs.push([...(await session.run(feeds)).y.data]);
    kernels.push(session.plan().steps.map(({ kernel }) => kernel));
    session.dispose();
  }
  assert.ok(new Set(outputs[0]).size > 4);
  assert.deepEqual(outputs[1], outputs[0]);
  assert.deepEqual(outputs[2], outputs[0]);
  assert.deepEqual(kernels[1], kernels[0]);
  assert.deepEqual(kernels[2], kernels[0]);
  const theirs = await ort.InferenceSession.create(small, { executionProviders: ['wasm'] });
  const { y } = await theirs.run({ x: new ort.Tensor('uint8', x, [1, 64, 9, 9]) });
  assert.deepEqual([...y.data], outputs[0]);
  await theirs.release();
  for (const one of [model, packed, read]) one.dispose();
});

test('what cannot be packed is refused', async () => {
  await assert.rejects(packWeights({}), (error) => error.code === 'INVALID_ARGUMENT');
  const old = await parseModel(
    'graph "old" opset 11\ninput %x: float32[3]\n%y = Abs(%x)\noutput %y\n',
  );
  await assert.rejects(packWeights(old), (error) => error.code === 'UNSUPPORTED');
  old.dispose();
});

// Files of opsets before 7, and operators that ONNX removed. tests/cpp/onnx/upgrade_test.cpp tries all forms;
// here they go the user's way, and ONNX Runtime is the judge where it still has the operator.

import assert from 'node:assert/strict';
import test from 'node:test';
import { InferenceSession, Tensor, loadModel, parseModel, quantize } from '../../dist/index.js';
import { same } from './ort_operators.mjs';

const image = ['float32[2, 3, 5, 7]', Array.from({ length: 210 }, (_, i) => Math.sin(i))];

for (const call of [
  'Affine(%x) {alpha = 2.5, beta = -1.0}',
  'Crop(%x) {border = [1, 2, 3, 1]}',
  'Crop(%x) {border = [1, 2, 0, 0], scale = [2, 3]}',
  'ImageScaler(%x) {scale = 0.5, bias = [1.0, 2.0, -3.0]}',
  'MeanVarianceNormalization(%x)',
  'MeanVarianceNormalization(%x) {across_channels = 1}',
  'ParametricSoftplus(%x) {alpha = 2.0, beta = 0.5}',
  'ScaledTanh(%x) {alpha = 2.0, beta = 0.5}',
  'ThresholdedRelu(%x) {alpha = 0.3}',
]) {
  test(`opset 8, ${call}`, () => same(8, { x: image }, `%y = ${call}`, ['y'], { tolerance: 1e-5 }));
}

const OLD = `graph "old" opset 5
input %x: float32[1, 3, 8, 8]
const %w: float32[4, 3, 3, 3] = {${Array.from({ length: 108 }, (_, i) => (Math.sin(i) / 4).toFixed(4))}}
const %b: float32[4] = {0.1, 0.2, -0.3, 0.4}
const %shape: int64[2] = {1, -1}
const %f: float32[4] = {1, 1, 2, 2}
%c = Conv(%x, %w) {pads = [1, 1, 1, 1]}
%s = Add(%c, %b) {broadcast = 1, axis = 1}
%r = Relu(%s) {consumed_inputs = [0]}
%u = Upsample(%r) {height_scale = 2.0, width_scale = 2.0, mode = "nearest"}
%i = Cast(%u) {to = "FLOAT"}
%m = Reshape(%i, %shape)
%y = Softmax(%m)
output %y
`;
const NEW = OLD.replace('opset 5', 'opset 9')
  .replace('const %b: float32[4]', 'const %b: float32[4, 1, 1]')
  .replace(' {broadcast = 1, axis = 1}', '')
  .replace(' {consumed_inputs = [0]}', '')
  .replace(
    'Upsample(%r) {height_scale = 2.0, width_scale = 2.0, mode = "nearest"}',
    'Upsample(%r, %f) {mode = "nearest"}',
  )
  .replace('"FLOAT"', '1');

test('a file of opset 5 runs and is quantized', async () => {
  const written = await parseModel(OLD);
  const model = await loadModel(written.toOnnx());
  const expected = await parseModel(NEW);
  assert.match(model.toText(), /opset 7/);
  const feeds = {
    x: new Tensor(
      'float32',
      Float32Array.from({ length: 192 }, (_, i) => Math.cos(i)),
      [1, 3, 8, 8],
    ),
  };
  const runs = [];
  for (const one of [model, expected]) {
    const session = await InferenceSession.create(one);
    runs.push((await session.run(feeds)).y.data);
    await session.release();
  }
  assert.deepEqual(runs[0], runs[1]);
  const quantized = await quantize(model, { calibration: [feeds] });
  const session = await InferenceSession.create(quantized);
  const { y } = await session.run(feeds);
  for (let i = 0; i < y.data.length; i++) assert.ok(Math.abs(y.data[i] - runs[0][i]) < 2e-4);
  await session.release();
  for (const one of [quantized, model, expected, written]) one.dispose();
});

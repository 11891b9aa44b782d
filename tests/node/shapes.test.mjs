// Symbolic dimensions: one session takes inputs of changing batch and spatial sizes without being loaded
// again, and gives what onnxruntime-web gives (needs ../shared).

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { SHARED, skipShared } from './shared_models.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

/** Pseudo-random values in [-1, 1). */
function noise(dims, seed) {
  let state = seed;
  const data = new Float32Array(dims.reduce((a, b) => a * b, 1));
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state / 2 ** 31 - 1;
  }
  return { type: 'float32', data, dims };
}

const rate = { type: 'int64', data: BigInt64Array.of(16000n), dims: [] };
const silero = (batch) => ({
  input: noise([batch, 576], batch),
  state: noise([2, batch, 128], 3),
  sr: rate,
});

// The first shapes come again at the end, when their plan may be dropped or kept.
const MODELS = {
  ppocr_cls: [1, 3, 1].map((batch) => ({ x: noise([batch, 3, 48, 192], batch) })),
  ppocrv4_rec: [96, 160, 96].map((width) => ({ x: noise([1, 3, 48, width], width) })),
  ppocrv4_det: [
    [64, 96],
    [96, 64],
    [64, 96],
  ].map(([height, width]) => ({ x: noise([1, 3, height, width], width) })),
  openwakeword_melspectrogram: [4000, 8000, 4000].map((samples) => ({
    input: noise([1, samples], samples),
  })),
  openwakeword_embedding: [1, 2, 1].map((batch) => ({ input_1: noise([batch, 76, 32, 1], batch) })),
  ort_dynamic_mlp_5x5_digits: [1, 7, 1].map((batch) => ({ input: noise([batch, 25], batch) })),
  ort_static_qdq_conv1d_vibration: [1, 4, 1].map((batch) => ({
    input: noise([batch, 1, 128], batch),
  })),
  silero_vad_v5: [1, 2, 1, 3].map(silero),
  silero_vad_op18_ifless: [1, 2, 1].map(silero),
};

for (const [name, runs] of Object.entries(MODELS)) {
  test(`${name} in changing shapes`, { skip: skipShared }, async () => {
    const file = path.join(SHARED, 'models/third_party', name, 'model.onnx');
    const bytes = new Uint8Array(readFileSync(file));
    const ours = await InferenceSession.create(bytes, { requantize: 'float' });
    const theirs = await ort.InferenceSession.create(bytes);
    try {
      for (const feeds of runs) {
        const converted = (make) =>
          Object.fromEntries(
            Object.entries(feeds).map(([key, { type, data, dims }]) => [
              key,
              make(type, data, dims),
            ]),
          );
        const got = await ours.run(converted((...parts) => new Tensor(...parts)));
        const wanted = await theirs.run(converted((...parts) => new ort.Tensor(...parts)));
        for (const output of ours.outputNames) {
          assert.deepEqual([...got[output].dims], [...wanted[output].dims], output);
          const scale = wanted[output].data.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-3);
          got[output].data.forEach((value, at) => {
            const error = Math.abs(value - wanted[output].data[at]);
            assert.ok(error <= 1e-3 * scale, `${output}: ${error} of ${scale} at ${at}`);
          });
        }
      }
    } finally {
      await ours.release();
      await theirs.release();
    }
  });
}

test('a loop over a changing number of rows, exported and run elsewhere', async () => {
  const model = await parseModel(`graph "loop" opset 13
input %n: int64[]
input %x: float32[A, 3]
const %go: bool[] = {1}
%last, %each = Loop(%n, %go, %x, %x) {body = { graph "body" opset 13
input %i: int64[]
input %c: bool[]
input %state: float32[A, 3]
capture %first: float32[A, 3]
%next: float32[A, 3] = Add(%state, %first)
%c2: bool[] = Identity(%c)
output %c2
output %next
output %state
}} "loop"
output %last
output %each`);
  const ours = await InferenceSession.create(model);
  const theirs = await ort.InferenceSession.create(model.toOnnx());
  for (const [rows, trips] of [
    [2, 3],
    [5, 1],
    [2, 4],
  ]) {
    const { data, dims } = noise([rows, 3], rows);
    const got = await ours.run({
      n: new Tensor('int64', [BigInt(trips)], []),
      x: new Tensor('float32', data, dims),
    });
    const wanted = await theirs.run({
      n: new ort.Tensor('int64', [BigInt(trips)], []),
      x: new ort.Tensor('float32', data, dims),
    });
    for (const output of ['last', 'each']) {
      assert.deepEqual([...got[output].dims], [...wanted[output].dims]);
      assert.deepEqual([...got[output].data], [...wanted[output].data]);
    }
  }
  await ours.release();
  await theirs.release();
});

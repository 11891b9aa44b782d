// The files that we export run in ONNX Runtime, with the same answers as here.
//
// Quick: the demo network. REQUANT_LONG=1: two pretrained networks as well.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf, imageSamples, readIdxImages, take } from 'requant/dataset';
import { ROOT, argmax, dataOf, modelPath, networks, skipShared } from './shared_models.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
const LONG = Boolean(process.env.REQUANT_LONG);

async function checkExports(t, file, calibration, images) {
  const model = await loadModel(file);
  const quantized = await quantize(model, { calibration: feedsOf(calibration) });
  t.after(() => (quantized.dispose(), model.dispose()));
  for (const format of ['qdq', 'qoperator']) {
    const bytes = quantized.toOnnx({ format });
    const theirs = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
    // What was exported, read again: the file is judged, not what is in memory.
    const ours = await InferenceSession.create(bytes, { requantize: 'float' });
    let same = 0;
    let [error, signal] = [0, 0];
    for await (const { feeds } of images) {
      const theirFeeds = Object.fromEntries(
        Object.entries(feeds).map(([name, { type, data, dims }]) => [
          name,
          new ort.Tensor(type, data, dims),
        ]),
      );
      const [expected] = Object.values(await theirs.run(theirFeeds));
      const [got] = Object.values(await ours.run(feeds));
      assert.deepEqual([...got.dims], [...expected.dims]);
      same += Number(argmax(got.data) === argmax(expected.data));
      got.data.forEach((value, at) => {
        error += (value - expected.data[at]) ** 2;
        signal += expected.data[at] ** 2;
      });
    }
    await theirs.release();
    await ours.release();
    const snr = error === 0 ? 'exact' : `${(10 * Math.log10(signal / error)).toFixed(1)} dB`;
    t.diagnostic(`${format}: the same top-1 for ${same} of ${images.length}, SNR ${snr}`);
    assert.ok(same >= 0.99 * images.length, `${format}: ${same} of ${images.length} agree`);
  }
}

test('the demo network in ONNX Runtime', async (t) => {
  const data = (name) => readFileSync(path.join(ROOT, 'demos/data', name));
  const read = async (name) => imageSamples(await readIdxImages(data(name)), { input: 'image' });
  const calibration = take(await read('calibration-images-idx3-ubyte'), 128);
  const images = take(await read('test-images-idx3-ubyte'), 500);
  await checkExports(t, path.join(ROOT, 'demos/models/fashion_mnist.onnx'), calibration, images);
});

for (const name of ['resnet20_cifar10', 'mobilenet_v2_035_224_food101']) {
  const skip = skipShared || (!LONG && 'only with REQUANT_LONG=1');
  test(`${name} in ONNX Runtime`, { skip }, async (t) => {
    const { calibration, test: images } = dataOf(networks.find((one) => one.name === name));
    await checkExports(t, modelPath(name), take(calibration, 32), images);
  });
}

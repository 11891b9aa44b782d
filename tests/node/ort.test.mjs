// Our exported files give the same answers in ONNX Runtime as here.
//
// Quick: the demo network. REQUANT_LONG=1: two pretrained networks as well.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import * as ort from 'onnxruntime-web';
import { loadModel, onnxRuntime, quantize, verify } from 'requant';
import { feedsOf, imageSamples, readIdxImages, take } from 'requant/dataset';
import { formatDb } from 'requant/report';
import { ROOT, dataOf, modelPath, networks, skipShared } from './shared_models.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
const LONG = Boolean(process.env.REQUANT_LONG);

/** dB: the difference of two engines has at most half the power of the noise of 8 bits. */
const BELOW_QUANTIZATION = 3;

async function checkExports(t, file, calibration, images) {
  const model = await loadModel(file);
  t.after(() => model.dispose());
  // In integers alone, and with the default config, which may keep operators in float.
  for (const config of [{ recover: [] }, {}]) {
    const quantized = await quantize(model, { calibration: feedsOf(calibration), config });
    t.after(() => quantized.dispose());
    for (const format of ['qdq', 'qoperator']) {
      const bytes = quantized.toOnnx({ format });
      // Read the exported file, so that the file is tested and not the model in memory.
      const again = await loadModel(bytes);
      const engine = await onnxRuntime(ort, bytes);
      const report = await verify(model, again, { dataset: images, engine });
      again.dispose();
      const { engines, requant, engine: theirs, floatOperators } = report;
      const same = `the same top-1 for ${(100 * engines.sameTop1).toFixed(1)} %`;
      t.diagnostic(
        `${format}: ${same}, engines ${formatDb(engines.snr)}, both against float ${formatDb(requant.snr)} ` +
          `and ${formatDb(theirs.snr)}, ${floatOperators.length} operators in float`,
      );
      if (floatOperators.length === 0) {
        // The last layer may write floats, whose last bits differ.
        assert.ok(engines.snr === null || engines.snr > 120, `${format}: ${engines.snr} dB`);
        assert.ok(engines.sameTop1 >= 0.99, `${format}: ${same}`);
      } else {
        assert.ok(engines.snr > requant.snr + BELOW_QUANTIZATION, `${format}: ${engines.snr} dB`);
        assert.ok(Math.abs(requant.snr - theirs.snr) < 0.5, `${format}: ${theirs.snr} dB`);
        assert.ok(engines.sameTop1 >= 0.95, `${format}: ${same}`);
      }
    }
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

// Runs the convolutions of the shipped Fashion-MNIST network in onnxruntime-web and the rest in this engine,
// saves the divided network, loads it again, and compares the outputs with those of the whole network.
//
//   node demos/engines/onnxruntime.mjs          (after `npm run build`; needs the package onnxruntime-web)

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, loadModel, loadPartition, partition } from 'requant';
import { imageSamples, readIdxImages, take } from 'requant/dataset';

const DEMOS = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

/** Tensors of one engine as those of another. */
const convert = (tensors, Type) =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { type, data, dims }]) => [
      name,
      new Type(type, data, dims),
    ]),
  );

async function open(bytes) {
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  return {
    bytes,
    run: async (feeds) => convert(await session.run(convert(feeds, ort.Tensor)), Tensor),
    dispose: () => void session.release(),
  };
}

const backend = {
  name: 'onnxruntime-web',
  patterns: [
    [
      // Convolutions of weights that are known, with what follows them.
      { op: 'Conv', if: ({ inputValues }) => inputValues[1].constant },
      { op: 'BatchNormalization', optional: true },
      { op: ['Relu', 'Clip'], optional: true },
    ],
  ],
  compile: (part) => open(part.model.toOnnx()),
  // The own form of this engine is an ONNX file.
  serialize: ({ bytes }) => bytes,
  deserialize: open,
};

const model = await loadModel(path.join(DEMOS, 'models/fashion_mnist.onnx'));
const images = await readIdxImages(
  readFileSync(path.join(DEMOS, 'data/test-images-idx3-ubyte')),
  readFileSync(path.join(DEMOS, 'data/test-labels-idx1-ubyte')),
);
const samples = take(imageSamples(images, { input: 'image' }), 50);

const divided = await partition(model, { backends: [backend] });
const bytes = await divided.save();
const loaded = await loadPartition(bytes, { backends: [backend] });
for (const { name, backend: engine, composites, macs } of loaded.parts) {
  const found = composites.map(({ nodes }) => nodes.map(({ op }) => op).join('+'));
  console.log(`${name}: ${engine ?? 'requant'}, ${macs} multiply-adds ${found.join(', ')}`);
}

const parts = await loaded.createSession();
const whole = await InferenceSession.create(model);
let [worst, same, count] = [0, 0, 0];
const best = (data) => data.indexOf(Math.max(...data));
for await (const { feeds } of samples) {
  const [a, b] = [(await parts.run(feeds)).logits.data, (await whole.run(feeds)).logits.data];
  for (const [i, value] of a.entries()) worst = Math.max(worst, Math.abs(value - b[i]));
  same += best(a) === best(b) ? 1 : 0;
  ++count;
}
console.log(
  `${same} of ${count} answers are those of the whole network; the logits differ by at most ${worst.toExponential(1)}`,
);
parts.release();
whole.release();
loaded.dispose();
divided.dispose();
model.dispose();
if (same < count || worst > 1e-4) process.exitCode = 1;
process.exit();

// Models of other tools (needs ../shared): quantized files run in integers and give their reference outputs;
// unsupported ones are refused with a typed error.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, loadModel, readQuantized } from '../../dist/index.js';
import { FOREIGN, SHARED, foreignModel, skipShared } from './shared_models.mjs';
import { shareOfToday } from './rounds.mjs';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
// Networks that are equal to the last bit on their reference input, as the files' README requires.
const EXACT = [
  'mlperf_tiny_ad_autoencoder_int8_qdq',
  'mlperf_tiny_kws_dscnn_int8_qdq',
  'mlperf_tiny_kws_dscnn_int8_qoperator',
  'mlperf_tiny_resnet8_int8_qdq',
  'mlperf_tiny_resnet8_int8_qoperator',
  'mlperf_tiny_vww96_int8_qdq',
  'mobilenet_v1_0.25_128_qat_uint8_qoperator',
  'mobilenet_v2_1.0_224_qat_uint8_qoperator',
  'ort_dynamic_mlp_5x5_digits',
  'ort_dynamic_mobilenet_v2_uint8',
  'ort_static_qdq_conv1d_vibration',
  'ort_static_qoperator_tinycnn_cifar10',
];
// Deep Q/DQ networks, in which one rounding tie spreads: only the class must be the same.
const SAME_CLASS = [
  'mobilenet_v1_0.25_128_qat_uint8_qdq',
  'mobilenet_v1_0.5_160_qat_uint8_qdq',
  'mcunet_512kb_2mb_imagenet_160_int8_qdq',
  'mobilenet_v2_1.0_224_ptq_int8_qdq',
  'mobilenet_v2_1.0_224_qat_uint8_qdq',
];
const FLOAT = [
  'ppocrv4_det',
  'ppocrv4_rec',
  'qonnx_kwsmlp_w3a3',
  'qonnx_tfc_1w1a_mnist',
  'qonnx_tfc_1w2a_mnist',
  'qonnx_tfc_2w2a_mnist',
  'silero_vad_16k_op15',
  'silero_vad_legacy',
  'silero_vad_op18_ifless',
  'silero_vad_v5',
  'mlperf_tiny_ad_autoencoder_float',
  'mlperf_tiny_resnet8_float_folded',
  'mlperf_tiny_vww96_float',
  'mnist_ort_example',
  'openwakeword_embedding',
  'openwakeword_melspectrogram',
  'ppocr_cls',
  'ultraface_rfb_320',
];
// This one decodes and encodes image files inside.
const REFUSED = ['super_resolution_prepost'];

async function outputsAndReferences(name) {
  const { file, inputs, outputs: references } = foreignModel(name);
  const session = await InferenceSession.create(file, { requantize: 'float' });
  try {
    const outputs = await session.run(
      Object.fromEntries(
        inputs.map(({ name: key, type, data, dims }) => [key, new Tensor(type, data, dims)]),
      ),
    );
    return references.map(({ name: key, data }) => {
      assert.equal(outputs[key].size, data.length, key);
      return { actual: [...outputs[key].data], expected: [...data] };
    });
  } finally {
    await session.release();
  }
}

const argmax = (values) =>
  values.reduce((best, value, at) => (value > values[best] ? at : best), 0);

for (const name of EXACT) {
  test(name, { skip: skipShared }, async () => {
    for (const { actual, expected } of await outputsAndReferences(name)) {
      assert.deepEqual(actual, expected);
    }
  });
}

for (const name of SAME_CLASS) {
  test(name, { skip: skipShared }, async () => {
    const [{ actual, expected }] = await outputsAndReferences(name);
    assert.equal(argmax(actual), argmax(expected));
  });
}

for (const name of FLOAT) {
  test(name, { skip: skipShared }, async () => {
    for (const { actual, expected } of await outputsAndReferences(name)) {
      const error = expected.reduce(
        (most, value, at) => Math.max(most, Math.abs(value - actual[at])),
        0,
      );
      const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      assert.ok(error <= 1e-4 * scale, `${error} of ${scale}`);
    }
  });
}

for (const name of REFUSED) {
  test(`${name} is refused`, { skip: skipShared }, async () => {
    await assert.rejects(
      InferenceSession.create(path.join(FOREIGN, name, 'model.onnx')),
      (error) =>
        error.code === 'UNSUPPORTED' &&
        Boolean(error.node) &&
        /DecodeImage/.test(error.message) &&
        /EncodeImage/.test(error.message),
    );
  });
}

/** What readQuantized() makes of a file, as a model and with its outputs to the file's reference input. */
async function readAgain(name) {
  const { file, inputs, outputs: references } = foreignModel(name);
  const model = await loadModel(file);
  const quantized = await readQuantized(model);
  const again = await loadModel(quantized.toOnnx());
  const session = await InferenceSession.create(again);
  const outputs = await session.run(
    Object.fromEntries(
      inputs.map(({ name: key, type, data, dims }) => [key, new Tensor(type, data, dims)]),
    ),
  );
  const { nodes } = again.info;
  await session.release();
  for (const one of [model, quantized, again]) one.dispose();
  return { nodes, outputs, references };
}

// Its channels of weights close to 0 have biases that the tool saturated.
test('readQuantized keeps all layers of vww96 in codes', { skip: skipShared }, async () => {
  const { nodes, outputs, references } = await readAgain('mlperf_tiny_vww96_int8_qdq');
  const pairs = new Set(
    nodes.filter(({ op }) => op === 'DequantizeLinear').flatMap(({ outputs: made }) => made),
  );
  const convolutions = nodes.filter(({ op }) => op === 'Conv');
  assert.equal(convolutions.length, 27);
  for (const { name, inputs } of convolutions) assert.ok(pairs.has(inputs[1]), name);
  for (const { name, data } of references) assert.deepEqual([...outputs[name].data], [...data]);
});

test('readQuantized takes a QONNX file of opset 9', { skip: skipShared }, async () => {
  const { outputs, references } = await readAgain('qonnx_tfc_1w2a_mnist');
  for (const { name, data } of references) {
    data.forEach((value, at) => {
      const error = Math.abs(value - outputs[name].data[at]);
      assert.ok(error <= 1e-4 * Math.max(1, Math.abs(value)), `${error} at ${at}`);
    });
  }
});

test('every folder of foreign models is there', { skip: skipShared }, () => {
  const tested = [...EXACT, ...SAME_CLASS, ...FLOAT, ...REFUSED];
  assert.deepEqual(readdirSync(FOREIGN).sort(), tested.sort());
});

/** Converts the pixels of an NHWC image of bytes, resized by averaging, to planes of (x / scale - mean). */
function planes(pixels, size, { scale, mean }) {
  const from = Math.sqrt(pixels.length / 3);
  const out = new Float32Array(3 * size * size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const [y0, y1] = [y, y + 1].map((at) => Math.round((at * from) / size));
      const [x0, x1] = [x, x + 1].map((at) => Math.round((at * from) / size));
      for (let c = 0; c < 3; c++) {
        let sum = 0;
        for (let v = y0; v < y1; v++)
          for (let u = x0; u < x1; u++) sum += pixels[(v * from + u) * 3 + c];
        const value = sum / ((y1 - y0) * (x1 - x0));
        out[(c * size + y) * size + x] = value / scale - mean;
      }
    }
  }
  return out;
}

const SETS = {
  mcunet_512kb_2mb_imagenet_160_int8_qdq: { size: 160, scale: 127.5, mean: 1, first: 0 },
  'mobilenet_v1_0.25_128_qat_uint8_qdq': { size: 128, scale: 128, mean: 1, first: 1 },
  'mobilenet_v1_0.5_160_qat_uint8_qdq': { size: 160, scale: 128, mean: 1, first: 1 },
  'mobilenet_v2_1.0_224_ptq_int8_qdq': { size: 224, scale: 127.5, mean: 1, first: 1 },
  'mobilenet_v2_1.0_224_qat_uint8_qdq': { size: 224, scale: 128, mean: 1, first: 1 },
};

const today = shareOfToday(Object.keys(SETS));
for (const [name, form] of Object.entries(SETS)) {
  const skip =
    skipShared ||
    (!process.env.REQUANT_LONG && 'only with REQUANT_LONG=1') ||
    (!today.includes(name) && 'not today');
  test(`${name}: as accurate as in onnxruntime-web`, { skip }, async (t) => {
    const read = (file) => readFileSync(path.join(SHARED, 'data/imagenet', file));
    const labels = JSON.parse(read('test_100.json')).images.map(({ label }) => label);
    const pixels = new Uint8Array(read('test_100.bin'));
    const bytes = new Uint8Array(readFileSync(path.join(FOREIGN, name, 'model.onnx')));
    const ours = await InferenceSession.create(bytes, { requantize: 'float' });
    const theirs = await ort.InferenceSession.create(bytes);
    let [right, theirRight] = [0, 0];
    for (let index = 0; index < 100; index++) {
      const image = pixels.subarray(index * 224 * 224 * 3, (index + 1) * 224 * 224 * 3);
      const data = planes(image, form.size, form);
      const dims = [1, 3, form.size, form.size];
      const [got] = Object.values(await ours.run({ input: new Tensor('float32', data, dims) }));
      const [wanted] = Object.values(
        await theirs.run({ input: new ort.Tensor('float32', data, dims) }),
      );
      right += Number(argmax([...got.data]) === labels[index] + form.first);
      theirRight += Number(argmax([...wanted.data]) === labels[index] + form.first);
    }
    await ours.release();
    await theirs.release();
    t.diagnostic(`${right} of 100 right, ${theirRight} in onnxruntime-web`);
    assert.ok(Math.abs(right - theirRight) <= 2 && theirRight > 30);
  });
}

// Models made elsewhere (needs ../shared): quantized files run in integers and give their reference
// outputs; what is outside of the engine is refused with a typed error.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { InferenceSession, Tensor } from '../../dist/index.js';
import { SHARED, skipShared } from './shared_models.mjs';

const FOLDER = path.join(SHARED, 'models/third_party');
const arrays = {
  float32: Float32Array,
  int64: BigInt64Array,
  int32: Int32Array,
  uint8: Uint8Array,
  int8: Int8Array,
};

// Equal to the last bit on their reference input, as the files' README asks.
const EXACT = [
  'mlperf_tiny_ad_autoencoder_int8_qdq',
  'mlperf_tiny_kws_dscnn_int8_qdq',
  'mlperf_tiny_kws_dscnn_int8_qoperator',
  'mlperf_tiny_resnet8_int8_qdq',
  'mlperf_tiny_resnet8_int8_qoperator',
  'mlperf_tiny_vww96_int8_qdq',
  'mobilenet_v1_0.25_128_qat_uint8_qoperator',
  'ort_dynamic_mlp_5x5_digits',
  'ort_static_qdq_conv1d_vibration',
  'ort_static_qoperator_tinycnn_cifar10',
];
// Deep Q/DQ networks, where one rounding tie spreads: the same class.
const SAME_CLASS = [
  'mobilenet_v1_0.25_128_qat_uint8_qdq',
  'mobilenet_v1_0.5_160_qat_uint8_qdq',
  'mcunet_512kb_2mb_imagenet_160_int8_qdq',
  'mobilenet_v2_1.0_224_ptq_int8_qdq',
];
const FLOAT = [
  'mlperf_tiny_ad_autoencoder_float',
  'mlperf_tiny_resnet8_float_folded',
  'mlperf_tiny_vww96_float',
  'mnist_ort_example',
  'openwakeword_embedding',
  'openwakeword_melspectrogram',
  'ppocr_cls',
  'ultraface_rfb_320',
];
const REFUSED = ['silero_vad_v5', 'super_resolution_prepost', 'qonnx_kwsmlp_w3a3'];

function readTensor(folder, { name, shape, dims, dtype, type, file }, fallback) {
  const kind = (dtype ?? type ?? 'float32').replace(/^float$/, 'float32');
  const bytes = readFileSync(path.join(folder, file ?? fallback));
  const data = new arrays[kind](
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
  );
  return { name, tensor: new Tensor(kind, data, shape ?? dims) };
}

async function outputsAndReferences(name) {
  const folder = path.join(FOLDER, name);
  const io = JSON.parse(readFileSync(path.join(folder, 'io.json'), 'utf8'));
  const session = await InferenceSession.create(path.join(folder, 'model.onnx'), {
    requantize: 'float',
  });
  try {
    const feeds = Object.fromEntries(
      io.inputs
        .map((input, index) => readTensor(folder, input, `input_${index}.bin`))
        .map((input) => [input.name, input.tensor]),
    );
    const outputs = await session.run(feeds);
    return io.outputs.map((output, index) => {
      const { tensor } = readTensor(folder, output, `output_${index}.bin`);
      assert.equal(outputs[output.name].size, tensor.size, output.name);
      return { actual: [...outputs[output.name].data], expected: [...tensor.data] };
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
      const range = Math.max(...expected) - Math.min(...expected);
      const error = Math.max(...expected.map((value, at) => Math.abs(value - actual[at])));
      assert.ok(error <= 1e-4 * range, `${error} of ${range}`);
    }
  });
}

for (const name of REFUSED) {
  test(`${name} is refused`, { skip: skipShared }, async () => {
    await assert.rejects(
      InferenceSession.create(path.join(FOLDER, name, 'model.onnx')),
      (error) => error.code === 'UNSUPPORTED' && Boolean(error.node),
    );
  });
}

test('every folder of foreign models is there', { skip: skipShared }, () => {
  const folders = readdirSync(FOLDER);
  for (const name of [...EXACT, ...SAME_CLASS, ...FLOAT, ...REFUSED]) {
    assert.ok(folders.includes(name) && existsSync(path.join(FOLDER, name)), name);
  }
});

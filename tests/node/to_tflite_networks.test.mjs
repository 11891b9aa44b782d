// toTflite() of the networks in ../shared, in LiteRT.js: float networks as they are and quantized, networks that other
// tools quantized as their Q/DQ pairs say, and read with readQuantized(). What a file cannot hold is refused by name.
// Only with REQUANT_LONG=1, but for the refusals: it needs Chromium, and a network from which LiteRT.js is installed.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, loadModel, quantize, readQuantized } from '../../dist/index.js';
import { feedsOf, take } from '../../dist/dataset/index.js';
import { litertFolder, openLiteRt } from '../tflite/litert.mjs';
import { largest, sizeOf } from '../tflite/write_check.mjs';
import { asTensors, inLiteRt } from '../tflite/written.mjs';
import { argmax, dataOf, foreignModel, modelPath, networks, skipShared } from './shared_models.mjs';
import { shareOfToday } from './rounds.mjs';

const skipShort = !process.env.REQUANT_LONG && 'only with REQUANT_LONG=1';
ort.env.wasm.numThreads = 1;

/** Float networks of others, the largest error in float and of the quantized network (1e-5 and 0.05). */
const floats = {
  mlperf_tiny_ad_autoencoder_float: {},
  mlperf_tiny_resnet8_float_folded: {},
  mlperf_tiny_vww96_float: {},
  mnist_ort_example: {},
  openwakeword_embedding: {},
  openwakeword_melspectrogram: {},
  ppocr_cls: {},
  // A map of probabilities, most of whose pixels are 0 or 1.
  ppocrv4_det: { float: 1e-4, quantized: 0.5 },
  ppocrv4_rec: { float: 2e-5, quantized: 0.1 },
  ultraface_rfb_320: { quantized: 0.1 },
};

/**
 * Networks that other tools quantized, and the largest error. LiteRT.js's optimized kernels and this engine round some
 * sums to other codes; through 50 layers that spreads, by what onnxruntime's own kernels differ from each other.
 */
const quantized = {
  mcunet_512kb_2mb_imagenet_160_int8_qdq: 0.15,
  mlperf_tiny_ad_autoencoder_int8_qdq: 0,
  mlperf_tiny_kws_dscnn_int8_qdq: 0,
  mlperf_tiny_kws_dscnn_int8_qoperator: 0,
  mlperf_tiny_resnet8_int8_qdq: 0,
  mlperf_tiny_resnet8_int8_qoperator: 0,
  mlperf_tiny_vww96_int8_qdq: 0,
  'mobilenet_v1_0.25_128_qat_uint8_qdq': 0.02,
  'mobilenet_v1_0.25_128_qat_uint8_qoperator': 0.02,
  'mobilenet_v1_0.5_160_qat_uint8_qdq': 0.02,
  'mobilenet_v2_1.0_224_ptq_int8_qdq': 0.1,
  'mobilenet_v2_1.0_224_qat_uint8_qdq': 0.1,
  'mobilenet_v2_1.0_224_qat_uint8_qoperator': 0.1,
  ort_static_qdq_conv1d_vibration: 0,
  ort_static_qoperator_tinycnn_cifar10: 1e-5,
};

const foreignFeeds = (inputs) =>
  Object.fromEntries(inputs.map(({ name, type, data, dims }) => [name, { type, data, dims }]));

/** The first `count` samples of a dataset. */
async function samplesOf(dataset, count) {
  const list = [];
  for await (const { feeds } of take(dataset, count)) {
    list.push(
      Object.fromEntries(
        Object.entries(feeds).map(([name, { type, data, dims }]) => [name, { type, data, dims }]),
      ),
    );
  }
  return list;
}

async function answersOf(subject, feeds) {
  const session = await InferenceSession.create(subject);
  const answers = [];
  for (const one of feeds) answers.push(await session.run(asTensors(one)));
  await session.release();
  return answers;
}

async function ofOnnxRuntime(file, feeds) {
  const session = await ort.InferenceSession.create(file);
  const answers = [];
  for (const one of feeds) {
    answers.push(
      await session.run(
        Object.fromEntries(
          Object.entries(one).map(([name, { type, data, dims }]) => [
            name,
            new ort.Tensor(type, data, dims),
          ]),
        ),
      ),
    );
  }
  await session.release();
  return answers;
}

/** How far LiteRT.js's answers are from others: the largest error, and how many have the same first class. */
async function compare(litert, file, feeds, answers) {
  let error = 0;
  let same = 0;
  for (const [i, one] of feeds.entries()) {
    const outputs = Object.entries(await inLiteRt(litert, file, one));
    for (const [name, data] of outputs) {
      const wanted = answers[i][name].data;
      error = Math.max(error, largest(data, wanted) / sizeOf(wanted));
    }
    const [[name, data]] = outputs;
    // Maps of pixels have no class.
    same += data.length > 10_000 || argmax(data) === argmax(answers[i][name].data);
  }
  return { error, same };
}

describe('networks written for LiteRT', { skip: skipShared }, () => {
  test('answer in LiteRT.js', { skip: skipShort }, async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const litert = await openLiteRt(folder);
    const hold = async (name, subject, feeds, answers, most, shapes = {}) => {
      await t.test(name, async (sub) => {
        const file = await subject.toTflite({ shapes });
        const { error, same } = await compare(litert, file, feeds, answers);
        sub.diagnostic(`${name}: error ${error}, first class of ${same} of ${feeds.length}`);
        assert.ok(error <= most, `${name}: ${error}`);
        // A tie of two codes may fall either way.
        assert.ok(same >= Math.ceil(0.6 * feeds.length), `${name}: ${same}`);
      });
    };
    try {
      for (const network of shareOfToday(networks)) {
        const { name } = network;
        const { calibration, test: samples } = dataOf(network);
        const feeds = await samplesOf(samples, 3);
        const file = modelPath(name);
        const model = await loadModel(file);
        await hold(name, model, feeds, await ofOnnxRuntime(file, feeds), 1e-5);
        const subject = await quantize(model, {
          calibration: feedsOf(take(calibration, 16)),
          config: { target: 'tflite' },
        });
        await hold(`${name}, int8`, subject, feeds, await answersOf(subject, feeds), 0.1);
      }
      for (const [name, { float = 1e-5, quantized: most = 0.05 }] of shareOfToday(
        Object.entries(floats),
      )) {
        const { file, inputs } = foreignModel(name);
        const feeds = [foreignFeeds(inputs)];
        const shapes = Object.fromEntries(inputs.map((one) => [one.name, one.dims]));
        const model = await loadModel(file);
        await hold(name, model, feeds, await ofOnnxRuntime(file, feeds), float, shapes);
        const calibration = feeds.map(asTensors);
        const subject = await quantize(model, { calibration, config: { target: 'tflite' } });
        await hold(`${name}, int8`, subject, feeds, await answersOf(subject, feeds), most, shapes);
      }
      for (const [name, most] of shareOfToday(Object.entries(quantized))) {
        const { file, inputs } = foreignModel(name);
        const feeds = [foreignFeeds(inputs)];
        const shapes = Object.fromEntries(inputs.map((one) => [one.name, one.dims]));
        const model = await loadModel(file);
        if (name.endsWith('_qdq')) {
          await hold(name, model, feeds, await answersOf(model, feeds), most, shapes);
        }
        const read = await readQuantized(model);
        await hold(`${name}, read`, read, feeds, await answersOf(read, feeds), most, shapes);
      }
    } finally {
      await litert.close();
    }
  });
});

// Quantized models in plain integer operators: sessions give the same bits, text and files hold the arithmetic.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, loadModel, parseModel, quantize } from '../../dist/index.js';
import { feedsOf, take } from 'requant/dataset';
import { dataOf, foreignModel, modelPath, networks, skipShared } from './shared_models.mjs';
import { MODEL, calibration, isError, testImages } from './support.mjs';

const owned = [];
/** Disposes of a model behind the test. */
function own(model) {
  owned.push(model);
  return model;
}
const parse = async (text) => own(await parseModel(text));
const load = async (file) => own(await loadModel(file));
afterEach(() => owned.splice(0).forEach((model) => model.dispose()));

const DECOMPOSITIONS = ['subtract_first', 'four_terms'];
/** Operators that carry scales. */
const QUANTIZED = /QLinear|QGemm/;

let model, quantized;
before(async () => {
  model = await loadModel(MODEL);
  quantized = await quantize(model, { calibration: calibration(8) });
});
after(() => {
  quantized.dispose();
  model.dispose();
});

async function outputsOf(given, samples, options = {}) {
  const session = await InferenceSession.create(given, options);
  const outputs = [];
  for (const feeds of samples) {
    const results = await session.run(feeds);
    outputs.push(Object.values(results).map(({ data }) => [...data]));
  }
  session.dispose();
  return outputs;
}

/** Both decompositions have the bits of the model. */
async function expectBits(given, samples, leaves, name) {
  const wanted = await outputsOf(given, samples, { requantize: 'fixed' });
  for (const decomposition of DECOMPOSITIONS) {
    const { model: plain, left, legalized } = await given.legalize({ decomposition });
    assert.ok(leaves(left), JSON.stringify(left));
    assert.ok(legalized.length > 2, `${name}: ${legalized.length} operators`);
    assert.deepEqual(await outputsOf(plain, samples), wanted, `${name} ${decomposition}`);
    plain.dispose();
  }
}

test('a quantized network gives the same bits in both decompositions and in every fixed mode', async () => {
  const samples = testImages(6);
  const integer = quantized.integerModel;
  for (const requantize of ['fixed', 'nearest', 'gemmlowp']) {
    const wanted = await outputsOf(integer, samples, { requantize });
    for (const decomposition of DECOMPOSITIONS) {
      const made = await integer.legalize({ decomposition, requantize });
      const result = own(made.model);
      assert.deepEqual(made.left, []);
      assert.ok(made.legalized.length >= 4);
      assert.deepEqual(await outputsOf(result, samples), wanted, decomposition);
      // Neither the optimizer nor the arithmetic that a session asks for changes them.
      assert.deepEqual(await outputsOf(result, samples, { requantize: 'float' }), wanted);
      assert.deepEqual(await outputsOf(result, samples, { optimize: false }), wanted);
      const read = await load(result.toOnnx());
      assert.deepEqual(await outputsOf(read, samples), wanted, 'file');
    }
  }
});

test('the text shows products, biases, multipliers and shifts', async () => {
  const integer = quantized.integerModel;
  const before = integer.toText();
  for (const decomposition of DECOMPOSITIONS) {
    const made = await integer.legalize({ decomposition });
    const result = own(made.model);
    const text = result.toText();
    assert.doesNotMatch(text, QUANTIZED);
    assert.match(text, / = ConvInteger\(/);
    assert.match(text, / = ai\.requant::FixedPointMultiply\(.*rounding = "upward"/);
    assert.match(text, /multiplier/);
    const [zeros] = /ConvInteger\([^)]*zero[^)]*\)/.exec(text) ?? [];
    assert.equal(zeros !== undefined, decomposition === 'subtract_first');
    const parsed = await parse(result.toText({ maxConstantElements: 0 }));
    const samples = testImages(1);
    assert.deepEqual(await outputsOf(parsed, samples), await outputsOf(result, samples));
  }
  assert.equal(integer.toText(), before, 'the model itself stays');
});

test('ONNX Runtime gives the same sums', async () => {
  // Without FixedPointMultiply, the legalized operators are ONNX's.
  const whole = await parse(`graph "layer" opset 13
    input %x: uint8[1, 2, 5, 5]
    const %s: float32[] = {0.5}
    const %zx: uint8[] = {128}
    const %w: uint8[2, 2, 3, 3] = {1, 20, 255, 0, 7, 99, 3, 250, 128, 64, 32, 16, 8, 4, 2, 1, 0, 255,
      9, 8, 7, 6, 5, 4, 3, 2, 1, 255, 254, 253, 252, 251, 250, 249, 248, 247}
    const %zw: uint8[] = {131}
    const %b: int32[2] = {1000, -70000}
    const %zy: uint8[] = {3}
    %y: uint8[1, 2, 5, 5] = QLinearConv(%x, %s, %zx, %w, %s, %zw, %s, %zy, %b) {pads = [1, 1, 1, 1]} "layer"
    output %y`);
  const data = Uint8Array.from({ length: 50 }, (_, i) => (i * 89) % 256);
  const sums = [];
  for (const decomposition of DECOMPOSITIONS) {
    const made = await whole.legalize({ decomposition });
    const result = own(made.model);
    const lines = result.toText({ maxConstantElements: 0 }).split('\n');
    const end = lines.findIndex((line) => line.includes('FixedPointMultiply'));
    const kept = lines
      .slice(0, end)
      .filter((line) => !/^const .*\/(multiplier|shift|lo|hi|zero): int32\[\]/.test(line));
    const [, last] = /^%("[^"]+"|\S+):/.exec(kept.at(-1));
    const cut = await parse([...kept, `output %${last}`].join('\n'));
    const session = await ort.InferenceSession.create(cut.toOnnx());
    const outputs = await session.run({ x: new ort.Tensor('uint8', data, [1, 2, 5, 5]) });
    sums.push([...Object.values(outputs)[0].data]);
    const [ours] = await outputsOf(cut, [{ x: new Tensor('uint8', data, [1, 2, 5, 5]) }]);
    assert.deepEqual(ours[0], sums.at(-1));
  }
  assert.deepEqual(sums[0], sums[1]);
});

test('a Q/DQ file, and what stays', async () => {
  const file = await load(quantized.toOnnx({ format: 'qdq' }));
  const samples = testImages(2);
  const wanted = await outputsOf(file, samples, { requantize: 'fixed' });
  const made = await file.legalize({ decomposition: 'four_terms' });
  const result = own(made.model);
  assert.deepEqual(await outputsOf(result, samples), wanted);

  const gate = await parse(`graph "gate" opset 13, com.microsoft 1
    input %x: uint8[4]
    const %s: float32[] = {0.125}
    const %z: uint8[] = {7}
    %y: uint8[4] = com.microsoft::QLinearSigmoid(%x, %s, %z, %s, %z) "gate"
    output %y`);
  const { model: same, legalized, left } = await gate.legalize();
  same.dispose();
  assert.deepEqual(legalized, []);
  assert.deepEqual(
    left.map(({ name, type }) => [name, type]),
    [['gate', 'QLinearSigmoid']],
  );
  assert.match(left[0].reason, /no form/);
});

test('what legalize refuses', async () => {
  const integer = quantized.integerModel;
  await assert.rejects(model.legalize(), isError('INVALID_ARGUMENT', { message: /not quantized/ }));
  await assert.rejects(
    integer.legalize({ decomposition: 'three_terms' }),
    isError('INVALID_ARGUMENT', { value: 'options.decomposition' }),
  );
  await assert.rejects(integer.legalize({ requantize: 'float' }), isError('INVALID_ARGUMENT'));
  await assert.rejects(integer.legalize({ how: 1 }), isError('INVALID_ARGUMENT'));
});

test('ResNet-20 in plain integers', { skip: skipShared }, async () => {
  const network = networks.find(({ name }) => name === 'resnet20_cifar10');
  const data = dataOf(network);
  const float = await load(modelPath(network.name));
  const made = own(
    await quantize(float, {
      calibration: feedsOf(take(data.calibration, 8)),
    }),
  );
  const integer = made.integerModel;
  const images = [];
  for await (const feeds of feedsOf(take(data.test, 3))) images.push(feeds);
  await expectBits(integer, images, (left) => left.length === 0, network.name);
});

for (const name of [
  'mlperf_tiny_kws_dscnn_int8_qdq',
  'mlperf_tiny_kws_dscnn_int8_qoperator',
  'mlperf_tiny_resnet8_int8_qoperator',
  'mlperf_tiny_ad_autoencoder_int8_qdq',
  'mobilenet_v1_0.25_128_qat_uint8_qoperator',
  'ort_static_qdq_conv1d_vibration',
  'ort_static_qoperator_tinycnn_cifar10',
]) {
  test(`${name}: a file of another tool in plain integers`, { skip: skipShared }, async () => {
    const { file, inputs } = foreignModel(name);
    const given = await load(file);
    const feeds = Object.fromEntries(
      inputs.map(({ name: input, type, data, dims }) => [input, new Tensor(type, data, dims)]),
    );
    await expectBits(given, [feeds], (left) => left.every(({ reason }) => reason), name);
  });
}

// Weights and activations of one bit in quantize(): the same integers from every kernel, variant and form of
// file, and onnxruntime-web's answers on what is exported.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import {
  InferenceSession,
  configOf,
  env,
  loadModel,
  packWeights,
  quantize,
  readQuantized,
} from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { take } from 'requant/dataset';
import { dataOf, modelPath, networks, skipShared } from './shared_models.mjs';
import { MODEL, calibration, isError, maxDifference, ortOutputs, testImages } from './support.mjs';

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];
const SCALAR = { conv_q8: 'conv_q8_scalar', dwconv_q8: 'dwconv_q8_scalar' };

const forms = {
  W1A8: { weights: { bits: 1 } },
  'W1A4 with one scale for all channels': {
    weights: { bits: 1, perChannel: false },
    activations: { bits: 4 },
  },
  W1A2: { weights: { bits: 1 }, activations: { bits: 2 } },
  'W1A1, 0 and 1': { weights: { bits: 1 }, activations: { bits: 1 } },
  'W1A1, -1 and 1': { weights: { bits: 1 }, activations: { bits: 1, symmetric: true } },
  'W8A1, -1 and 1': { activations: { bits: 1, symmetric: true } },
};

const recover = ['round_weights', 'bias_correction'];

/** The first and the last layer of a quantized model, which keep 8 bits in binary networks. */
function edgesOf(quantized) {
  const layers = quantized.config.operators.filter(({ inputs }) => inputs[1]?.state === 'BAKED');
  // Records are sorted by name; the text of the float model has the order of the graph.
  const order = quantized.floatModel().toText({ maxConstantElements: 0 });
  layers.sort((x, y) => order.indexOf(`"${x.name}"`) - order.indexOf(`"${y.name}"`));
  const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const wide = { weights: { bits: 8 }, activations: { bits: 8, symmetric: false } };
  return { [escape(layers[0].name)]: wide, [escape(layers.at(-1).name)]: wide };
}

async function runAll(source, images, options) {
  const session = await InferenceSession.create(source, options);
  const outputs = [];
  for (const image of images) {
    outputs.push([...(await session.run(image))[session.outputNames[0]].data]);
  }
  const plan = session.plan();
  const saved = session.toPlan();
  session.dispose();
  return { outputs, plan, saved };
}

/** Bits and range of codes of every slot. */
const slotsOf = ({ config }) =>
  config.operators.map(({ name, inputs, outputs }) => [
    name,
    ...[...inputs, ...outputs].map((slot) => [slot?.bits, slot?.quantMin, slot?.threshold]),
  ]);

afterEach(() => {
  env.wasm.simd = 'auto';
});

for (const [name, config] of Object.entries(forms)) {
  describe(name, () => {
    for (const simd of variants) {
      test(`the integers of the scalar kernels, ${simd}`, async () => {
        env.wasm.simd = simd;
        const model = await loadModel(MODEL);
        const low = await quantize(model, {
          calibration: calibration(8),
          config: { ...config, recover },
        });
        const images = testImages(6);
        const scalar = await runAll(low, images, { kernels: SCALAR });
        const { outputs, plan, saved } = await runAll(low, images);
        assert.ok(new Set(outputs.flat()).size > 4);
        assert.deepEqual(outputs, scalar.outputs);
        assert.deepEqual((await runAll(saved, images)).outputs, outputs);
        assert.deepEqual((await runAll(low, images, { compact: true })).outputs, outputs);
        assert.ok(!plan.steps.some(({ kernel }) => kernel === 'reference'));
        const layers = low.config.operators.map(({ inputs }) => inputs[1]);
        for (const weights of layers.filter((slot) => slot?.state === 'BAKED')) {
          assert.equal(weights.bits, config.weights?.bits ?? 8);
        }
        low.dispose();
        model.dispose();
      });
    }

    test('files: read back, and in onnxruntime-web', async () => {
      const model = await loadModel(MODEL);
      const low = await quantize(model, {
        calibration: calibration(8),
        config: { ...config, recover },
      });
      const images = testImages(12);
      const { outputs } = await runAll(low, images);
      const float = (await runAll(low, images, { requantize: 'float' })).outputs;
      for (const format of ['qdq', 'qoperator', 'qonnx']) {
        const bytes = low.toOnnx({ format });
        const read = await readQuantized(await loadModel(bytes));
        const fixed = { requantize: 'fixed' };
        assert.deepEqual((await runAll(read, images, fixed)).outputs, outputs, format);
        assert.deepEqual((await runAll(bytes, images, fixed)).outputs, outputs, format);
        if (format !== 'qoperator') assert.deepEqual(slotsOf(read), slotsOf(low), format);
        read.dispose();
        if (format === 'qonnx') continue;
        const theirs = await ortOutputs(bytes, images);
        const most = Math.max(...float.flat().map(Math.abs));
        const near = (format === 'qoperator' ? 1e-5 : 0.02) * most;
        const same = theirs.filter((one, at) => maxDifference(one, float[at]) <= near);
        // In Q/DQ form onnxruntime adds floats, which may fall on the other side of a tie.
        const least = format === 'qoperator' ? images.length : 0.7 * images.length;
        assert.ok(same.length >= least, `${format}: ${same.length} of ${images.length}`);
      }
      // The record as a config makes the same integers without samples, but for what recovery did.
      const again = await quantize(model, {
        calibration: calibration(1),
        config: configOf(low.config),
      });
      assert.deepEqual(slotsOf(again), slotsOf(low));
      for (const one of [again, low, model]) one.dispose();
    });
  });
}

/** The bytes of a model's constants by name, and their numbers of elements. */
function constantsOf(model) {
  const bytes = { int8: 1, uint8: 1, int32: 4, float32: 4, int64: 8 };
  const text = model.toText({ maxConstantElements: 1 });
  return new Map(
    [...text.matchAll(/^const %(\S+): (\w+)\[([\d, ]*)\]/gm)].map(([, name, type, dims]) => {
      const count = dims ? dims.split(',').reduce((product, dim) => product * Number(dim), 1) : 1;
      return [name, { type, count, bytes: count * bytes[type] }];
    }),
  );
}

test('the file has an eighth of the bytes of weights', async () => {
  const model = await loadModel(MODEL);
  const low = await quantize(model, {
    calibration: calibration(8),
    config: { ...forms['W1A1, -1 and 1'], recover: [] },
  });
  const file = await loadModel(low.toOnnx({ format: 'qoperator' }));
  const packed = await packWeights(file);
  const [before, after] = [constantsOf(file), constantsOf(packed)];
  let large = 0;
  for (const [name, { type, count, bytes }] of before) {
    // Constants of fewer than 512 elements stay as they are.
    if (type !== 'int8' || count < 512) {
      assert.equal(after.get(name)?.bytes, bytes, name);
      continue;
    }
    large++;
    assert.ok(!after.has(name), name);
    assert.equal(after.get(`${name}_bits`)?.bytes, count / 8, name);
  }
  assert.ok(large > 5);
  const images = testImages(4);
  const options = { requantize: 'float' };
  const [bytes, small] = [file.toOnnx(), packed.toOnnx()];
  assert.deepEqual(
    (await runAll(small, images, options)).outputs,
    (await runAll(bytes, images, options)).outputs,
  );
  assert.ok(small.length < bytes.length);
  for (const one of [packed, file, low, model]) one.dispose();
});

for (const name of ['resnet20_cifar10', 'mobilenet_v1_025_224']) {
  test(`${name} has kernels for all of it`, { skip: skipShared }, async () => {
    const network = networks.find((one) => one.name === name);
    const model = await loadModel(modelPath(name));
    const { calibration: images } = dataOf(network);
    const samples = [];
    for await (const { feeds } of take(images, 4)) samples.push(feeds);
    const probe = await quantize(model, { calibration: samples, config: { recover: [] } });
    for (const form of Object.keys(forms)) {
      const low = await quantize(model, {
        calibration: samples,
        config: {
          ...forms[form],
          operatorTypes: { Add: { activations: { bits: 8, symmetric: false } } },
          operators: edgesOf(probe),
          recover,
          floatOutputs: true,
        },
      });
      const { outputs, plan } = await runAll(low, samples.slice(0, 1));
      const kernels = plan.steps.map(({ kernel }) => kernel);
      assert.ok(!kernels.includes('reference'), `${form}: ${kernels.join()}`);
      // More bits of activations are products of bytes where one instruction makes sixteen of them.
      if (name === 'resnet20_cifar10' && /^W1A[12]/.test(form)) {
        assert.ok(
          kernels.some((kernel) => /lookup|popcount|carry_save|narrow/.test(kernel)),
          form,
        );
      }
      const scalar = await runAll(low, samples.slice(0, 1), { kernels: SCALAR });
      assert.deepEqual(outputs, scalar.outputs, form);
      low.dispose();
    }
    probe.dispose();
    model.dispose();
  });
}

test('what signs do not have is refused by name', async () => {
  const model = await loadModel(MODEL);
  const refused = (config, message) =>
    assert.rejects(quantize(model, { calibration: calibration(1), config }), (error) => {
      assert.match(error.message, message);
      return isError('INVALID_ARGUMENT')(error);
    });
  await refused({ weights: { bits: 0 } }, /bits/);
  await refused({ weights: { bits: 1, formula: 'google' } }, /no symmetric integers of one bit/);
  await refused({ weights: { bits: 1, rounding: 'UP' } }, /signs, which nothing rounds/);
  await refused({ weights: { bits: 1, fullRange: true } }, /no lowest code/);
  model.dispose();
});

test('signs stay one bit between convolutions that pad them', async () => {
  for (const simd of variants) {
    env.wasm.simd = simd;
    const model = await loadModel(MODEL);
    const low = await quantize(model, {
      calibration: calibration(8),
      config: { ...forms['W1A1, -1 and 1'], recover: [] },
    });
    const images = testImages(4);
    const scalar = await runAll(low, images, { kernels: SCALAR });
    for (const conv_q8 of ['conv_q8_lookup', 'conv_q8_popcount']) {
      const { outputs, plan, saved } = await runAll(low, images, { kernels: { conv_q8 } });
      assert.deepEqual(outputs, scalar.outputs, conv_q8);
      assert.deepEqual((await runAll(saved, images)).outputs, outputs, conv_q8);
      const planes = plan.steps.filter(({ output }) => output.packing === 'planes');
      // Some come from a convolution and lead to a padded one, some from a sum of 8 bits.
      const direct = planes.filter(({ op }) => /^QLinearConv.*Lut/.test(op));
      assert.ok(direct.length >= 1, plan.steps.map(({ op }) => op).join());
      assert.ok(planes.some(({ kernel }) => kernel === 'lut_bits'));
    }
    low.dispose();
    model.dispose();
  }
});

// Affine weights, whose zero point is not 0: files of other tools, and networks that quantize() and train() make,
// against ONNX Runtime.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  configOf,
  loadModel,
  onnxRuntime,
  quantize,
  readQuantized,
  train,
  verify,
} from '../../dist/index.js';
import { randomSource } from './ort_operators.mjs';
import {
  compareWithOrt,
  constant,
  float,
  integers,
  product,
  range,
  scale,
  zero,
} from './ort_quantized.mjs';
import { MODEL, calibration, testImages } from './support.mjs';

const ROUNDS = 8;
const pick = (random, list) => list[Math.floor(random() * list.length)];
const extremes = { int8: [0, 1, 127, -128, -1, 21], uint8: [0, 1, 127, 128, 255, 149] };

/** A layer between Q/DQ pairs with affine weights, as other tools write it. */
function layer(random, kind) {
  const [type, weightType] = [pick(random, ['uint8', 'int8']), pick(random, ['uint8', 'int8'])];
  const conv = kind.startsWith('Conv') || kind === 'Depthwise' || kind === 'Grouped';
  const transposed = kind === 'ConvTranspose';
  const size = () => 1 + Math.floor(random() * 19);
  const groups = kind === 'Depthwise' ? size() : kind === 'Grouped' ? 3 : 1;
  const inputs = kind === 'Depthwise' ? groups : groups * size();
  const outputs = kind === 'Depthwise' ? groups : groups * size();
  const kernel = pick(random, [1, 3]);
  const stride = transposed ? 1 : pick(random, [1, 2]);
  const pad = (kernel - 1) / 2;
  const side = pick(random, [1, 5, 8, 9]);
  const out = Math.floor((side + 2 * pad - kernel) / stride) + 1;
  const gemm = kind === 'Gemm';
  const dims = conv
    ? transposed
      ? [inputs, outputs, kernel, kernel]
      : [outputs, inputs / groups, kernel, kernel]
    : gemm
      ? [outputs, inputs]
      : [inputs, outputs];
  const axis = transposed || kind === 'MatMul' ? 1 : 0;
  const rows = size();
  const each = random() < 0.5;
  const count = each ? outputs : 1;
  const zeros = Array.from({ length: count }, () => pick(random, extremes[weightType]));
  // Codes at both ends of the type.
  const codes = integers(random, product(dims), ...range(weightType)).map((code) =>
    random() < 0.2 ? pick(random, range(weightType)) : code,
  );
  const body = [
    constant('wq', weightType, dims, codes),
    constant(
      'ws',
      'float32',
      each ? [count] : [],
      zeros.map(() => float(0.002 + random() * 0.01)),
    ),
    constant('wz', weightType, each ? [count] : [], zeros),
    `%w = DequantizeLinear(%wq, %ws, %wz)${each ? ` {axis = ${axis}}` : ''}`,
    `%f = ${conv ? (transposed ? 'ConvTranspose' : 'Conv') : kind}(%xd, %w)${
      conv
        ? ` {pads = [${pad}, ${pad}, ${pad}, ${pad}], strides = [${stride}, ${stride}], group = ${groups}}`
        : gemm
          ? ' {transB = 1}'
          : ''
    }`,
  ];
  const x = conv ? [1, inputs, side, side] : [rows, inputs];
  const y = conv ? [1, outputs, out, out] : [rows, outputs];
  const reach = 0.05 * 100 * 0.005 * 80 * Math.sqrt(product(dims) / outputs + 1);
  const text = [
    'graph "affine" opset 13',
    `input %x: float32[${x.join(', ')}]`,
    scale('xs', 0.05),
    zero('xz', type, pick(random, extremes[type])),
    scale('ys', reach / 64),
    zero('yz', type, type === 'uint8' ? 128 : 0),
    '%xq = QuantizeLinear(%x, %xs, %xz)',
    '%xd = DequantizeLinear(%xq, %xs, %xz)',
    ...body,
    '%yq = QuantizeLinear(%f, %ys, %yz)',
    `%y: float32[${y.join(', ')}] = DequantizeLinear(%yq, %ys, %yz)`,
    'output %y',
  ].join('\n');
  const data = Float32Array.from({ length: product(x) }, () => (random() - 0.5) * 14);
  return { text, feeds: [{ name: 'x', type: 'float32', dims: x, data }], step: reach / 64 };
}

describe('layers with affine weights of a file', () => {
  for (const kind of ['Conv', 'Depthwise', 'Grouped', 'ConvTranspose', 'Gemm', 'MatMul']) {
    test(`${kind}: the integers of ONNX Runtime, without reference steps`, async () => {
      const random = randomSource(kind.length * 7 + kind.charCodeAt(0));
      let [count, different] = [0, 0];
      for (let round = 0; round < ROUNDS; round++) {
        const { text, feeds, step } = layer(random, kind);
        const result = await compareWithOrt(text, feeds, 'float');
        count += result.count;
        different += result.different;
        // ONNX Runtime computes some forms in float, where sums near a tie may round to the next step.
        assert.ok(result.worst < 1.01 * step, `${text}\n${result.worst}`);
        assert.ok(
          result.steps.some((op) => op.startsWith('Q')),
          result.steps.join(),
        );
      }
      assert.ok(different <= 0.002 * count, `${different} of ${count}`);
    });
  }
});

const model = await loadModel(MODEL);
const samples = testImages(24);
const dataset = samples.map((feeds) => ({ feeds }));
const grids = {
  'uint8 per tensor': { symmetric: false, perChannel: false },
  'uint8 per channel': { symmetric: false },
  'int8 per channel': { symmetric: false, signed: true },
  '4 bits per channel': { symmetric: false, bits: 4 },
};

async function outputsOf(quantized) {
  const session = await InferenceSession.create(quantized);
  const outputs = [];
  for (const feeds of samples)
    outputs.push(Float32Array.from((await session.run(feeds)).logits.data));
  const implementations = session.plan().steps.map((step) => step.kernel ?? '');
  await session.release();
  assert.ok(!implementations.includes('reference'), implementations.join());
  return outputs;
}

const zerosOf = (config) =>
  config.operators.flatMap(({ inputs }) =>
    inputs.filter((slot) => slot?.state === 'BAKED').map((slot) => slot.offset),
  );

describe('networks with affine weights', () => {
  for (const [name, weights] of Object.entries(grids)) {
    test(`${name}: ONNX Runtime computes the same from every export`, async () => {
      const quantized = await quantize(model, {
        calibration: calibration(16),
        config: { weights, floatOutputs: false, recover: ['round_weights', 'bias_correction'] },
      });
      const zeros = zerosOf(quantized.config);
      assert.ok(zeros.flat().some((zero) => zero !== 0));
      const expected = await outputsOf(quantized);
      for (const format of ['qdq', 'qoperator']) {
        const bytes = quantized.toOnnx({ format });
        const engine = await onnxRuntime(ort, bytes);
        const report = await verify(model, quantized, { dataset, engine });
        assert.equal(report.sameSamples, samples.length, format);
        const again = await readQuantized(await loadModel(bytes));
        assert.deepEqual(zerosOf(again.config), zeros, format);
        assert.deepEqual(await outputsOf(again), expected, format);
      }
      const again = await readQuantized(await loadModel(quantized.toOnnx({ format: 'qonnx' })));
      assert.deepEqual(zerosOf(again.config), zeros);
      assert.deepEqual(await outputsOf(again), expected);
    });

    test(`${name}: configOf() repeats grids and zero points`, async () => {
      const first = await quantize(model, {
        calibration: calibration(8),
        config: { weights, recover: [] },
      });
      const config = configOf(JSON.parse(JSON.stringify(first.config)));
      const again = await quantize(model, { calibration: [], config });
      assert.deepEqual(again.toOnnx(), first.toOnnx());
    });
  }

  test('int8 activations and uint8 weights are written as int8 where ONNX Runtime asks for it', async () => {
    const quantized = await quantize(model, {
      calibration: calibration(16),
      config: {
        activations: { signed: true },
        weights: { symmetric: false },
        floatOutputs: false,
        recover: [],
      },
    });
    const bytes = quantized.toOnnx({ format: 'qoperator' });
    const engine = await onnxRuntime(ort, bytes);
    const report = await verify(model, quantized, { dataset, engine });
    assert.equal(report.sameSamples, samples.length);
    assert.deepEqual(
      await outputsOf(await readQuantized(await loadModel(bytes))),
      await outputsOf(quantized),
    );
  });

  test('layers that write floats keep the zero points of their channels', async () => {
    const quantized = await quantize(model, {
      calibration: calibration(16),
      config: {
        weights: { symmetric: false },
        operatorTypes: { Conv: { floatOutput: true } },
        recover: [],
      },
    });
    for (const format of ['qdq', 'qoperator']) {
      const engine = await onnxRuntime(ort, quantized.toOnnx({ format }));
      const { engines } = await verify(model, quantized, { dataset, engine });
      assert.ok(engines.snr === null || engines.snr > 40, `${format}: ${engines.snr} dB`);
    }
  });
});

test('a file with weight zero points is trained, keeps its form, and ONNX Runtime reads it', async () => {
  const start = await quantize(model, {
    calibration: calibration(16),
    config: {
      weights: { symmetric: false, perChannel: false },
      floatOutputs: false,
      recover: [],
    },
  });
  const file = await readQuantized(await loadModel(start.toOnnx({ format: 'qdq' })));
  const batch = calibration(64).map((feeds) => ({ feeds }));
  for (const scales of ['learn', 'observe', 'keep']) {
    const trained = await train(file, {
      dataset: batch,
      epochs: 1,
      batchSize: 16,
      learningRate: 0.02,
      keep: 'last',
      scales,
    });
    const kinds = ({ operators }) =>
      operators.map(({ inputs }) => inputs.map((slot) => [slot?.policy, slot?.dtype, slot?.bits]));
    assert.deepEqual(kinds(trained.config), kinds(file.config));
    assert.notDeepEqual(trained.toOnnx(), file.toOnnx());
    const reportOf = async (format) => {
      const engine = await onnxRuntime(ort, trained.toOnnx({ format }));
      return verify(model, trained, { dataset, engine });
    };
    assert.equal((await reportOf('qoperator')).sameSamples, samples.length, scales);
    // As for symmetric weights, ONNX Runtime computes some pairs of a trained model in float.
    const { engines, requant } = await reportOf('qdq');
    assert.ok(
      engines.snr === null || engines.snr > requant.snr + 3,
      `${scales}: ${engines.snr} dB`,
    );
  }
});

test('every recovery method takes affine weights', async () => {
  const methods = [
    'equalize',
    'channel_split',
    'equalize_activations',
    'round_weights',
    'refit_scales',
    'bias_correction',
    'sequential_rounding',
    'adaround',
    'learned_steps',
    'block_reconstruction',
    'empirical_bias',
  ];
  const score = async (recover) => {
    const quantized = await quantize(model, {
      calibration: calibration(24),
      config: {
        weights: { symmetric: false, bits: 3 },
        recover,
        recoverSteps: 60,
        recoverSamples: 24,
      },
    });
    const engine = await onnxRuntime(ort, quantized.toOnnx());
    const report = await verify(model, quantized, { dataset, engine });
    return { snr: report.requant.snr, warnings: quantized.config.warnings };
  };
  const plain = (await score([])).snr;
  for (const method of methods) {
    const { snr, warnings } = await score([method]);
    const least =
      { round_weights: 5, sequential_rounding: 5, adaround: 1, block_reconstruction: 0.3 }[
        method
      ] ?? -1.5;
    assert.ok(snr > plain + least, `${method}: ${snr} dB, ${plain} dB without`);
    assert.doesNotMatch(warnings.join(), /zero point|affine/);
  }
});

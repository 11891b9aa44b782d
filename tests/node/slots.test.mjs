// Single slots: quantMin and quantMax, settings of one input or output, and edits of a quantized model. The oracles
// are a loop in doubles over codes, and ONNX Runtime on the exported files.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  configOf,
  createWorker,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
} from 'requant';
import { randomSource } from './ort_operators.mjs';
import { constant, float } from './ort_quantized.mjs';
import {
  MODEL,
  calibration,
  isError,
  maxDifference,
  ortOutputs,
  outputsOf,
  testImages,
} from './support.mjs';

const [ROWS, K, COLUMNS] = [7, 19, 6];

/** y = x w + b, with random numbers. */
function product(random) {
  const numbers = (count, size) => Array.from({ length: count }, () => (random() - 0.5) * size);
  const [w, b] = [numbers(K * COLUMNS, 2), numbers(COLUMNS, 1)].map((list) =>
    list.map(Math.fround),
  );
  const text = [
    'graph "one" opset 13',
    `input %x: float32[${ROWS}, ${K}]`,
    constant('w', 'float32', [K, COLUMNS], w.map(float)),
    constant('b', 'float32', [COLUMNS], b.map(float)),
    `%y: float32[${ROWS}, ${COLUMNS}] = Gemm(%x, %w, %b)`,
    'output %y',
  ].join('\n');
  const samples = Array.from({ length: 12 }, () => ({
    x: new Tensor('float32', Float32Array.from(numbers(ROWS * K, 6)), [ROWS, K]),
  }));
  return { text, samples, w, b };
}

/** Rounds half to even. */
const nearest = (x) => {
  const below = Math.floor(x);
  if (x - below !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
};
const clamp = (x, { quantMin, quantMax }) => Math.min(Math.max(x, quantMin), quantMax);
const at = (list, index) => (typeof list === 'number' ? list : list[index % list.length]);
const codeOf = (x, slot, channel = 0) =>
  clamp(nearest(x / at(slot.scale, channel)) + at(slot.offset, channel), slot);

/** How often the answers are at the ends of the grid; fails where an answer is not that of the loop. */
async function checkLoop(quantized, { samples, w, b }) {
  const [{ inputs, outputs }] = quantized.config.operators;
  const [input, weights] = inputs;
  const [output] = outputs;
  const session = await InferenceSession.create(quantized);
  let clipped = 0;
  for (const { x } of samples) {
    const { y } = await session.run({ x });
    for (let row = 0; row < ROWS; row++) {
      for (let column = 0; column < COLUMNS; column++) {
        const unit = input.scale[0] * at(weights.scale, column);
        let sum = nearest(b[column] / unit);
        for (let k = 0; k < K; k++) {
          const weight = codeOf(w[k * COLUMNS + column], weights, column);
          const code = codeOf(x.data[row * K + k], input) - at(input.offset, 0);
          sum += code * (weight - at(weights.offset, column));
        }
        const scaled = (sum * unit) / output.scale[0];
        if (Math.abs(scaled - Math.floor(scaled) - 0.5) < 1e-4) continue; // a tie in float32
        const code = clamp(nearest(scaled) + output.offset[0], output);
        clipped += code === output.quantMin || code === output.quantMax;
        const wanted = (code - output.offset[0]) * output.scale[0];
        const got = y.data[row * COLUMNS + column];
        assert.ok(Math.abs(got - wanted) < 1e-3 * output.scale[0], `${got}, not ${wanted}`);
      }
    }
  }
  await session.release();
  return clipped;
}

/** ONNX Runtime computes the exported file as a session does that rounds as it does. */
async function checkOrt(quantized, samples, format) {
  const session = await InferenceSession.create(quantized, { requantize: 'float' });
  const ours = await outputsOf(session, samples);
  const theirs = await ortOutputs(quantized.toOnnx({ format }), samples);
  const largest = Math.max(...ours.map((list) => Math.max(...list.map(Math.abs))));
  for (const [index, list] of ours.entries()) {
    assert.ok(maxDifference(list, theirs[index]) <= 1e-5 * largest, `${format}, sample ${index}`);
  }
  await session.release();
}

describe('quantMin and quantMax', () => {
  test('clip as the loop says, in every session and file', async () => {
    const random = randomSource(5);
    for (const config of [
      { activations: { quantMin: 0, quantMax: 127 } },
      { activations: { quantMin: 3, quantMax: 90 }, weights: { quantMin: -50, quantMax: 50 } },
      { activations: { signed: true, quantMin: -40, quantMax: 100 } },
      { activations: { symmetric: true, quantMin: -20, quantMax: 127 } },
      { activations: { bits: 12, quantMin: 100, quantMax: 3000 } },
      { activations: { bits: 4, quantMin: 1, quantMax: 13 }, weights: { bits: 3 } },
      { weights: { symmetric: false, quantMin: 10, quantMax: 200 } },
    ]) {
      const network = product(random);
      const model = await parseModel(network.text);
      const quantized = await quantize(model, {
        calibration: network.samples.slice(0, 6),
        config: { ...config, recover: [], floatOutputs: false },
      });
      const [{ inputs, outputs }] = quantized.config.operators;
      const { quantMax } = { ...config.activations };
      if (quantMax)
        assert.deepEqual([inputs[0].quantMax, outputs[0].quantMax], [quantMax, quantMax]);
      assert.ok((await checkLoop(quantized, network)) > 0, JSON.stringify(config));
      if (config.activations?.bits !== 12) await checkOrt(quantized, network.samples, 'qdq');
      const again = await readQuantized(await loadModel(quantized.toOnnx()));
      await checkLoop(again, network);
      quantized.dispose();
    }
  });

  test('what a grid cannot have is refused by name', async () => {
    const { text, samples } = product(randomSource(6));
    const model = await parseModel(text);
    const refused = async (config, value, hint) =>
      assert.rejects(
        quantize(model, { calibration: samples, config }),
        isError('INVALID_ARGUMENT', { value, hint }),
      );
    await refused({ activations: { quantMin: 9, quantMax: 9 } }, 'config.activations.quantMin');
    await refused({ activations: { quantMin: 0.5 } }, 'config.activations.quantMin');
    await refused({ activations: { quantMax: 256 } }, 'activations.quantMax', /0\.\.255/);
    await refused({ activations: { quantMin: -1 } }, 'activations.quantMin', /signed: true/);
    await refused({ activations: { bits: 4, quantMax: 16 } }, 'activations.quantMax', /0\.\.15/);
    const symmetric = { symmetric: true };
    await refused(
      { activations: { ...symmetric, quantMin: 1 } },
      'activations.quantMin',
      /around|within/,
    );
    await refused({ weights: { quantMin: 0 } }, 'weights.quantMin', /-127/);
    const cambricon = { ...symmetric, formula: 'cambricon', quantMax: 63 };
    await refused({ activations: cambricon }, 'activations.formula');
    const ppq = { ...symmetric, formula: 'ppq', quantMax: 63 };
    await refused({ activations: ppq }, 'activations.quantMin', /-63/);
    await refused({ activations: { format: 'e4m3', quantMax: 63 } }, 'activations.quantMin');
    await refused({ weights: { bits: 1, quantMin: 0 } }, 'weights.quantMin', /leave/);
  });
});

describe('one input or output set apart', () => {
  test('has its own bits, codes, rounding, observer and scale', async () => {
    const network = product(randomSource(7));
    const model = await parseModel(network.text);
    const config = {
      operators: {
        '.*': {
          inputs: [
            { bits: 5, symmetric: true },
            { bits: 6, perChannel: false },
          ],
          outputs: { 0: { quantMin: 8, quantMax: 240, scale: 0.125, zeroPoint: 100 } },
        },
      },
      recover: [],
      floatOutputs: false,
    };
    const quantized = await quantize(model, { calibration: network.samples, config });
    const [{ inputs, outputs }] = quantized.config.operators;
    assert.deepEqual([inputs[0].bits, inputs[0].quantMin, inputs[0].offset], [5, -15, [0]]);
    assert.deepEqual([inputs[1].bits, inputs[1].scale.length], [6, 1]);
    const { quantMin, quantMax, scale, offset, observer } = outputs[0];
    assert.deepEqual([quantMin, quantMax, scale, offset], [8, 240, [0.125], [100]]);
    assert.equal(observer, 'given');
    await checkLoop(quantized, network);
    await checkOrt(quantized, network.samples, 'qdq');

    const rounding = { operatorTypes: { Gemm: { inputs: { 0: { rounding: 'HALF_UP' } } } } };
    const other = await quantize(model, {
      calibration: network.samples,
      config: { ...rounding, activations: { observer: 'mse' }, floatOutputs: false },
    });
    const [gemm] = other.config.operators;
    assert.deepEqual(
      [gemm.inputs[0].rounding, gemm.outputs[0].rounding, gemm.simulated],
      ['HALF_UP', 'HALF_EVEN', true],
    );
    assert.equal(gemm.inputs[0].observer, 'mse');
  });

  test('what a slot cannot have is refused by name', async () => {
    const { text, samples } = product(randomSource(8));
    const model = await parseModel(text);
    const slots = async (own, code, value) =>
      assert.rejects(
        quantize(model, { calibration: samples, config: { operators: { '.*': own } } }),
        isError(code, { value }),
      );
    const own = 'config.operators[".*"]';
    const argument = 'INVALID_ARGUMENT';
    await slots({ inputs: { x: {} } }, argument, `${own}.inputs[x]`);
    await slots({ inputs: { 0: { bitz: 3 } } }, argument, `${own}.inputs[0].bitz`);
    await slots({ inputs: { 0: null } }, argument, `${own}.inputs[0]`);
    await slots({ inputs: 3 }, argument, `${own}.inputs`);
    await slots({ outputs: [{ zeroPoint: 3 }] }, argument, `${own}.outputs[0].zeroPoint`);
    await slots({ inputs: [{ scale: NaN }] }, argument, `${own}.inputs[0].scale[0]`);
    await slots({ inputs: { 5: { bits: 3 } } }, argument, 'inputs[5]');
    await slots({ inputs: { 2: { bits: 3 } } }, argument, 'inputs[2]');
    await slots({ inputs: { 1: { axis: 0 } } }, argument, 'inputs[1]');
    const grid = 'INVALID_QUANTIZATION';
    await slots({ inputs: { 0: { scale: 0 } } }, grid, 'inputs[0].scale');
    await slots({ inputs: { 0: { scale: [1, 2] } } }, grid, /inputs\[0\]/);
    await slots({ inputs: { 0: { scale: 1, zeroPoint: 256 } } }, grid, 'inputs[0].zeroPoint');
    const power = { powerOf2: true, scale: 0.3 };
    await slots({ inputs: { 0: power } }, grid, 'inputs[0].scale');
    await assert.rejects(
      quantize(model, {
        calibration: samples,
        config: { operatorTypes: { Gemm: { inputs: [{ scale: 1 }] } } },
      }),
      isError(argument, { value: 'config.operatorTypes.Gemm.inputs[0].scale' }),
    );
  });
});

describe('requantize()', async () => {
  const model = await loadModel(MODEL);
  const images = testImages(6);
  const options = {
    calibration: calibration(16),
    config: { recover: ['round_weights', 'bias_correction'] },
  };

  test('without a change it gives the same file', async () => {
    const quantized = await quantize(model, options);
    const again = await quantized.requantize();
    assert.deepEqual(again.toOnnx(), quantized.toOnnx());
    assert.deepEqual(again.config, quantized.config);
  });

  test('gives the integers of the loop and of ONNX Runtime', async () => {
    const random = randomSource(9);
    for (let round = 0; round < 6; round++) {
      const network = product(random);
      const small = await parseModel(network.text);
      const quantized = await quantize(small, {
        calibration: network.samples,
        config: { recover: [], floatOutputs: false },
      });
      const [input, weights] = quantized.config.operators[0].inputs;
      const [output] = quantized.config.operators[0].outputs;
      input.scale = [input.scale[0] * (0.5 + random())];
      input.quantMax = 150 + round;
      input.zeroPoint = 90 + round;
      weights.scale = weights.scale.map((scale) => Math.fround(scale * (1 + random())));
      output.quantMin = 20;
      if (round % 2) output.scale[0] *= 0.4;
      const edited = await quantized.requantize();
      assert.deepEqual(edited.config.operators[0].inputs[0].offset, [90 + round]);
      assert.ok((await checkLoop(edited, network)) > 0);
      await checkOrt(edited, network.samples, 'qdq');
      await checkOrt(edited, network.samples, 'qoperator');
      const repeated = await quantize(small, {
        calibration: [],
        config: configOf(JSON.parse(JSON.stringify(edited.config))),
      });
      assert.deepEqual(repeated.toOnnx(), edited.toOnnx());
    }
  });

  test('changes a network, whose joined slots follow', async () => {
    const quantized = await quantize(model, options);
    const { operators } = quantized.config;
    let changed = 0;
    for (const { inputs, outputs } of operators) {
      for (const slot of [...inputs, ...outputs]) {
        if (slot?.state !== 'ACTIVATED') continue;
        slot.scale[0] = Math.fround(slot.scale[0] * (1 + 0.01 * (changed % 7)));
        slot.quantMax -= changed % 5;
        changed += 1;
      }
    }
    assert.ok(changed > 8);
    const edited = await quantized.requantize();
    await checkOrt(edited, images, 'qoperator');
    for (const [index, { inputs }] of edited.config.operators.entries()) {
      for (const [at, slot] of inputs.entries()) {
        if (!slot?.dominator || slot.state !== 'OVERLAPPED') continue;
        const root = edited.config.operators.find(({ name }) => name === slot.dominator.node);
        const [, kind, place] = /(input|output)(\d+)/.exec(slot.dominator.slot);
        assert.deepEqual(slot.scale, root[`${kind}s`][place].scale, `${index} ${at}`);
      }
    }
    const back = await readQuantized(await loadModel(edited.toOnnx()));
    const sessions = await Promise.all([edited, back].map((one) => InferenceSession.create(one)));
    assert.deepEqual(await outputsOf(sessions[1], images), await outputsOf(sessions[0], images));
  });

  test('a deleted scale follows from the range and from the weights', async () => {
    const quantized = await quantize(model, options);
    const conv = quantized.config.operators.find(({ inputs }) => inputs[0]?.state === 'ACTIVATED');
    const [input, weights] = conv.inputs;
    const [low, high] = input.range;
    Object.assign(input, { bits: 6, quantMax: 63, scale: undefined });
    Object.assign(weights, { bits: 5, quantMin: -15, quantMax: 15 });
    delete weights.scale;
    const edited = await quantized.requantize();
    const made = edited.config.operators.find(({ name }) => name === conv.name);
    const scale = (Math.max(high, 0) - Math.min(low, 0)) / 63;
    assert.ok(Math.abs(made.inputs[0].scale[0] / scale - 1) < 1e-6);
    assert.equal(made.inputs[1].bits, 5);
    assert.ok(edited.config.warnings.some((text) => text.includes('rounded to the nearest')));
    await checkOrt(edited, images, 'qoperator');
  });

  test('names what is not possible', async () => {
    const quantized = await quantize(model, options);
    const index = quantized.config.operators.findIndex(
      ({ type, inputs }) => type === 'Conv' && inputs[0].state === 'OVERLAPPED',
    );
    const refused = async (change, code, { value, hint } = {}) => {
      const record = structuredClone(quantized.config);
      change(record.operators[index], record);
      await assert.rejects(quantized.requantize(record), isError(code, { value, hint }));
    };
    const grid = 'INVALID_QUANTIZATION';
    const argument = 'INVALID_ARGUMENT';
    const first = quantized.config.operators.findIndex(
      ({ inputs }) => inputs[0]?.state === 'ACTIVATED',
    );
    const own = (key, wanted) => (_, record) => {
      record.operators[first].inputs[0][key] = wanted;
    };
    await refused((op) => (op.inputs[0].scale = [9]), grid, {
      value: 'inputs[0].scale',
      hint: /change that slot/,
    });
    await refused((op) => (op.inputs[2].scale = [9]), grid, { value: 'inputs[2]' });
    await refused(own('scale', [0]), grid, { value: 'inputs[0].scale' });
    await refused(own('scale', [-1]), grid, { value: 'inputs[0].scale' });
    await refused(own('scale', [Infinity]), argument, { value: /inputs\[0\]\.scale/ });
    await refused(own('offset', [256]), grid, { value: 'inputs[0].zeroPoint' });
    await refused(own('quantMax', 300), grid, { value: 'inputs[0].quantMax', hint: /0\.\.255/ });
    await refused(own('quantMin', 255), grid, { value: 'inputs[0].quantMin' });
    await refused(own('bits', 4), grid, { value: 'inputs[0].quantMax' });
    await refused(own('rounding', 'HALF'), grid, { value: 'inputs[0].rounding' });
    await refused(own('state', 'BAKED'), grid, { value: 'inputs[0].state' });
    await refused(own('range', [0, 2]), grid, { value: 'inputs[0].range' });
    await refused(own('dtype', 'int8'), argument, { value: `operators[${first}].inputs[0].dtype` });
    await refused(own('zeropoint', 3), argument, { hint: /zeroPoint/ });
    await refused((op) => (op.quantized = false), argument, {
      value: `operators[${index}].quantized`,
    });
    await refused((_, record) => record.operators.pop(), argument, { value: 'record.operators' });
    await assert.rejects(quantized.requantize({}), isError(argument, { value: 'record' }));
    quantized.dispose();
    await assert.rejects(quantized.requantize(quantized.config), isError('DISPOSED'));
  });

  test('works in a worker', async () => {
    const worker = await createWorker();
    const remote = await worker.quantize(await worker.loadModel(MODEL), options);
    const quantized = await quantize(model, options);
    for (const { config } of [remote, quantized]) {
      const slot = config.operators.find(({ inputs }) => inputs[0]?.state === 'ACTIVATED')
        .inputs[0];
      slot.quantMax = 200;
      slot.scale[0] *= 1.5;
    }
    const [there, here] = await Promise.all([remote.requantize(), quantized.requantize()]);
    assert.deepEqual(there.config, here.config);
    assert.deepEqual(await there.toOnnx(), here.toOnnx());
    await worker.terminate();
  });
});

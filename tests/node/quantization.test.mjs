// The quantizer's options end to end: shards, presets, given scales, analysis and budgets.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {
  Calibration,
  InferenceSession,
  compare,
  configOf,
  diagnose,
  loadModel,
  measureLatencies,
  mixedPrecision,
  quantize,
  quantizeDynamic,
  quantizeWeights,
  readQuantized,
  scalesOf,
  targets,
} from 'requant';
import { analysisHtml, formatAnalysis, frontierChart } from 'requant/report';
import {
  MODEL,
  ROOT,
  agreement,
  calibration,
  isError,
  ortOutputs,
  outputsOf,
  testImages,
} from './support.mjs';

const model = await loadModel(MODEL);
const samples = calibration(24);
const images = testImages(40);
const float = await outputsOf(await InferenceSession.create(model), images);

async function agreementOf(quantized) {
  const session = await InferenceSession.create(quantized);
  return agreement(await outputsOf(session, images), float);
}

for (const [config, passes] of [
  [{ activations: { observer: 'auto' }, weights: { observer: 'auto', bits: 6 } }, 2],
  [{ recover: ['equalize_activations'] }, 3],
]) {
  test(`four shards are one calibration, to the last bit: ${JSON.stringify(config)}`, async () => {
    const whole = await quantize(model, { calibration: samples, config });
    const bounds = [0, 5, 6, 17, samples.length];
    const total = await Calibration.create(model, { config });
    assert.equal(total.passes, passes);
    for (let pass = 0; pass < total.passes; pass++) {
      const before = pass > 0 ? total.save(pass - 1) : undefined;
      const states = [];
      for (let at = 0; at < 4; at++) {
        const shard = await Calibration.create(model, { config });
        if (bounds[at] > 0) shard.probe(samples[0], bounds[at]);
        if (before) shard.load(pass - 1, before);
        for (const feeds of samples.slice(bounds[at], bounds[at + 1])) shard.add(pass, feeds);
        states.push(shard.save(pass));
        shard.dispose();
      }
      total.load(pass, states[0]);
      for (const state of states.slice(1)) total.merge(pass, state);
    }
    const merged = await total.finish();
    assert.deepEqual(merged.config, whole.config);
    assert.deepEqual(merged.toOnnx(), whole.toOnnx());
    const other = await Calibration.create(model);
    assert.throws(() => other.load(0, new Uint8Array(9)), isError('INVALID_ARGUMENT'));
  });
}

test('a calibration has so many passes and ends once', async () => {
  const calibrator = await Calibration.create(model, { config: { recover: [] } });
  const [feeds] = samples;
  assert.equal(calibrator.passes, 1);
  const noPass = isError('INVALID_ARGUMENT', { value: 'pass' });
  for (const pass of [1, -1, 7, 1.5, 1000, 2 ** 32, NaN, '0', undefined]) {
    assert.throws(() => calibrator.add(pass, feeds), noPass);
    assert.throws(() => calibrator.save(pass), noPass);
    assert.throws(() => calibrator.load(pass, new Uint8Array(8)), noPass);
    assert.throws(() => calibrator.merge(pass, new Uint8Array(8)), noPass);
  }
  for (const index of [0.5, -1, undefined]) {
    const wrong = isError('INVALID_ARGUMENT', { value: 'index' });
    assert.throws(() => calibrator.probe(feeds, index), wrong);
  }
  const noBytes = isError('INVALID_ARGUMENT', { value: 'bytes' });
  assert.throws(() => calibrator.load(0, 'state'), noBytes);
  calibrator.add(0, feeds);
  const state = calibrator.save(0);
  const finishing = calibrator.finish();
  const usedUp = isError('INVALID_ARGUMENT', { message: /used up/, hint: /create/ });
  await assert.rejects(calibrator.finish(), usedUp);
  const quantized = await finishing;
  assert.ok(quantized.integerModel.info.quantized);
  await assert.rejects(calibrator.finish(), usedUp);
  for (const late of [
    () => calibrator.add(0, feeds),
    () => calibrator.probe(feeds, 1),
    () => calibrator.save(0),
    () => calibrator.load(0, state),
    () => calibrator.merge(0, state),
  ]) {
    assert.throws(late, usedUp);
  }
  quantized.dispose();
  calibrator.dispose();

  const config = { activations: { observer: 'kl' }, recover: ['equalize_activations'] };
  const equalizing = await Calibration.create(model, { config });
  assert.equal(equalizing.passes, 4);
  equalizing.dispose();
});

test('targets', async () => {
  for (const target of Object.keys(targets)) {
    const quantized = await quantize(model, { calibration: samples, config: { target } });
    const conv = quantized.config.operators.find(({ type }) => type === 'Conv');
    const [input, weights] = conv.inputs;
    const least = target === 'megengine-int4' ? 0.75 : 0.9;
    assert.ok((await agreementOf(quantized)) >= least, target);
    const expected = {
      onnxruntime: ['uint8', 8, -127],
      tflite: ['int8', 8, -127],
      tensorrt: ['int8', 8, -127],
      'power-of-2': ['int8', 8, -127],
      'megengine-int4': ['uint8', 4, -8],
      'reduce-range': ['uint8', 7, -63],
    }[target];
    assert.deepEqual([input.dtype, weights.bits, weights.quantMin], expected, target);
    if (target === 'power-of-2') assert.ok(Number.isInteger(Math.log2(weights.scale[0])));
  }
  await assert.rejects(
    quantize(model, { calibration: samples, config: { target: 'toaster' } }),
    isError('INVALID_ARGUMENT', { value: 'config.target' }),
  );
});

test('settings of a name start from those of its type, which start from those of all', async () => {
  const config = {
    weights: { bits: 7 },
    operatorTypes: { Conv: { weights: { bits: 5 }, activations: { observer: 'mse' } } },
    operators: { '.*': { activations: { symmetric: true } } },
  };
  const { config: record } = await quantize(model, { calibration: samples, config });
  for (const { type, inputs } of record.operators) {
    if (type !== 'Conv' && type !== 'Gemm') continue;
    assert.equal(inputs[1].bits, type === 'Conv' ? 5 : 7);
    assert.match(inputs[0].policy, /\bSYMMETRICAL/);
  }
});

test('a record, and scales of another tool, replace calibration', async () => {
  const options = { target: 'tflite', operatorTypes: { Gemm: null }, recover: [] };
  const first = await quantize(model, { calibration: samples, config: options });
  const again = await quantize(model, { calibration: [], config: configOf(first.config) });
  assert.deepEqual(await agreementOf(again), await agreementOf(first));
  assert.deepEqual(again.toOnnx({ format: 'qoperator' }), first.toOnnx({ format: 'qoperator' }));

  const foreign = Object.fromEntries(
    Object.entries(scalesOf(first.config)).map(([name, { scale, offset }]) => [
      name,
      scale.length > 1 ? { scale } : { scale: scale[0], zero_point: offset[0] },
    ]),
  );
  const applied = await quantize(model, {
    calibration: [],
    config: { ...options, scales: foreign },
  });
  assert.deepEqual(applied.toOnnx(), first.toOnnx());
  const some = await quantize(model, {
    calibration: samples,
    config: { scales: { nobody: { scale: 1 } } },
  });
  assert.match(some.config.warnings.join(), /'nobody'/);
});

test('records of simulated grids are configs as well', async () => {
  const decision = ({ bits, quantMin, quantMax, policy, rounding, format, axis, scale, offset }) =>
    JSON.stringify([bits, quantMin, quantMax, policy, rounding, format, axis, scale, offset]);
  for (const config of [
    { activations: { format: 'e4m3' }, weights: { format: 'e5m2' } },
    { activations: { symmetric: true, perChannel: true }, operatorTypes: { Gemm: null } },
    { activations: { bits: 12, rounding: 'HALF_UP' }, weights: { bits: 10 } },
    { activations: { powerOf2: true, symmetric: true, fullRange: true } },
  ]) {
    const what = JSON.stringify(config);
    const first = await quantize(model, {
      calibration: samples,
      config: { ...config, recover: [] },
    });
    const text = JSON.stringify(first.config); // as in a file
    const again = await quantize(model, { calibration: [], config: configOf(JSON.parse(text)) });
    for (const [at, { name, quantized, inputs, outputs }] of first.config.operators.entries()) {
      const other = again.config.operators[at];
      assert.equal(other.quantized, quantized, `${what}: ${name}`);
      const slots = [...other.inputs, ...other.outputs];
      for (const [slot, own] of [...inputs, ...outputs].entries()) {
        if (own) assert.equal(decision(slots[slot]), decision(own), `${what}: ${name}`);
      }
    }
    const outputs = await outputsOf(await InferenceSession.create(first), images);
    assert.deepEqual(await outputsOf(await InferenceSession.create(again), images), outputs, what);
  }
});

test('simulated grids, which no other engine has, are compared as well', async () => {
  const dataset = images.slice(0, 4).map((feeds) => ({ feeds }));
  for (const activations of [{ bits: 24 }, { format: 'e4m3' }, { rounding: 'HALF_UP' }]) {
    const config = { activations, recover: [] };
    const quantized = await quantize(model, { calibration: samples, config });
    const { samples: count, size } = await compare(model, quantized, { dataset });
    assert.equal(count, 4);
    assert.deepEqual(size, {
      floatBytes: model.toOnnx().length,
      candidateBytes: quantized.integerModel.toOnnx().length,
    });
    quantized.dispose();
  }
});

test('low bits run in other engines as here', async () => {
  const config = { weights: { bits: 4 }, activations: { bits: 4 } };
  const quantized = await quantize(model, { calibration: samples, config });
  const session = await InferenceSession.create(quantized);
  const ours = await outputsOf(session, images);
  assert.ok(agreement(await ortOutputs(quantized.toOnnx(), images), ours) >= 0.95);
  const int4 = quantized.toOnnx({ int4: true });
  assert.ok(agreement(await ortOutputs(int4, images), ours) >= 0.95);
  const again = await outputsOf(
    await InferenceSession.create(int4, { requantize: 'fixed' }),
    images,
  );
  assert.ok(int4.length < 0.8 * quantized.toOnnx().length);
  assert.equal(agreement(again, ours), 1);
});

test('a QONNX file is read back as the same network', async () => {
  const config = { weights: { bits: 3 }, activations: { bits: 4 } };
  const quantized = await quantize(model, { calibration: samples, config });
  const read = await loadModel(quantized.toOnnx({ format: 'qonnx' }));
  assert.ok(read.info.nodes.some(({ op }) => op === 'Quant'));
  const ours = await outputsOf(await InferenceSession.create(quantized), images);
  const again = await outputsOf(await InferenceSession.create(read), images);
  // Its biases are floats, so that codes may occasionally differ by one.
  assert.ok(agreement(again, ours) >= 0.95, `${agreement(again, ours)}`);
});

test('what a quantized file says is read back, from every form', async () => {
  /**
   * The part of a slot's config that determines results; [-127, 127] of activations only determines their
   * scale.
   */
  const decision = ({ bits, quantMin, quantMax, policy, scale, offset, range }) =>
    JSON.stringify([
      bits,
      range && quantMin === -127 ? -128 : quantMin,
      quantMax,
      policy,
      // For layers that write floats, a QOperator file holds the product of two scales.
      scale?.map((number) => number.toPrecision(6)),
      offset,
    ]);
  const config = {
    weights: { bits: 4 },
    activations: { bits: 7 },
    operatorTypes: { Gemm: { weights: { bits: 8 }, activations: { bits: 8 } } },
  };
  const quantized = await quantize(model, { calibration: samples, config });
  const ours = await outputsOf(await InferenceSession.create(quantized), images);
  const layers = quantized.config.operators.filter(
    ({ type }) => type === 'Conv' || type === 'Gemm',
  );
  const forms = [{}, { int4: true }, { format: 'qoperator' }, { format: 'qonnx' }];
  for (const form of forms) {
    const what = JSON.stringify(form);
    const file = await loadModel(quantized.toOnnx(form));
    const read = await readQuantized(file);
    for (const { name, inputs, outputs } of layers) {
      const got = read.config.operators.find((one) => one.name === name);
      assert.ok(got?.quantized, `${what}: ${name}`);
      for (const at of [0, 1]) assert.equal(decision(got.inputs[at]), decision(inputs[at]), what);
      assert.equal(decision(got.outputs[0]), decision(outputs[0]), what);
    }
    const again = await outputsOf(await InferenceSession.create(read), images);
    assert.ok(agreement(again, ours) >= (form.format === 'qonnx' ? 0.95 : 1), what);
    if (form.format !== 'qoperator') {
      // With the same names, nothing needs calibration.
      const config = configOf(read.config);
      const applied = await quantize(model, { calibration: [], config });
      assert.deepEqual(scalesOf(applied.config), scalesOf(read.config));
      applied.dispose();
    }
    read.dispose();
    file.dispose();
  }
  await assert.rejects(readQuantized(model), isError('UNSUPPORTED'));
});

test('outputs that are floats, and equalized activations, agree with the float network', async () => {
  const config = { floatOutputs: true, recover: ['equalize_activations', 'bias_correction'] };
  const quantized = await quantize(model, { calibration: samples, config });
  assert.ok(quantized.config.recovery.some(({ method }) => method === 'equalize_activations'));
  const { nodes } = quantized.integerModel.info;
  assert.ok(!nodes.some(({ op }) => op === 'DequantizeLinear'));
  assert.ok((await agreementOf(quantized)) >= 0.95);
  const theirs = await ortOutputs(quantized.toOnnx(), images);
  const ours = await outputsOf(await InferenceSession.create(quantized), images);
  assert.equal(agreement(theirs, ours), 1);
});

test('weights alone and dynamic quantization run in ONNX Runtime', async () => {
  const forms = [
    [await quantizeWeights(model, { bits: 8 }), true],
    [await quantizeWeights(model, { bits: 4, blockSize: 16 }), true],
    [await quantizeWeights(model, { bits: 4, format: 'matmulnbits' }), false],
    [await quantizeDynamic(model), true],
  ];
  for (const [made, runsHere] of forms) {
    const outputs = await ortOutputs(made.toOnnx(), images);
    assert.ok(agreement(outputs, float) >= 0.95);
    if (!runsHere) continue;
    const own = await outputsOf(await InferenceSession.create(made), images);
    assert.ok(agreement(own, outputs) >= 0.975);
    made.dispose();
  }
  await assert.rejects(quantizeWeights(model, { bits: 5 }), isError('INVALID_ARGUMENT'));
});

test('small floats and wide grids are simulated', async () => {
  for (const [config, least] of [
    [{ activations: { bits: 16 }, weights: { bits: 16 } }, 1],
    [{ activations: { format: 'e4m3' }, weights: { format: 'e4m3' } }, 0.9],
    [{ activations: { rounding: 'UP' } }, 0.8],
  ]) {
    const quantized = await quantize(model, { calibration: samples, config });
    assert.ok((await agreementOf(quantized)) >= least, JSON.stringify(config));
    assert.ok(quantized.config.operators.some(({ simulated }) => simulated));
  }
});

test('learning: progress, gain, abort', async () => {
  const config = { weights: { bits: 3 }, recover: ['adaround'], recoverSteps: 20 };
  const methods = new Set();
  const quantized = await quantize(model, {
    calibration: samples,
    config,
    onProgress: ({ method }) => methods.add(method),
  });
  assert.ok(methods.has('adaround'));
  const [step] = quantized.config.recovery;
  assert.ok(step.afterDb > step.beforeDb, JSON.stringify(step));
  const controller = new AbortController();
  await assert.rejects(
    quantize(model, {
      calibration: samples,
      config,
      signal: controller.signal,
      onProgress: ({ method }) => method === 'adaround' && controller.abort(),
    }),
    isError('ABORTED'),
  );
});

test('analysis: diagnoses, widths for a budget, the report', async () => {
  const quantized = await quantize(model, { calibration: samples, analyze: true });
  const { analysis } = quantized.config;
  const layers = analysis.operators.filter(({ noise }) => noise);
  assert.ok(layers.length >= 3);
  const all = layers.reduce((sum, { weights }) => sum + weights, 0);
  const { frontier, chosen, operators } = mixedPrecision(analysis, { maxBytes: all * 0.7 });
  assert.ok(chosen.bytes <= all * 0.7);
  for (const [index, point] of frontier.entries()) {
    if (index > 0) assert.ok(point.bytes < frontier[index - 1].bytes);
  }
  const mixed = await quantize(model, { calibration: samples, config: { operators } });
  assert.ok((await agreementOf(mixed)) >= 0.85);
  const latencies = Object.fromEntries(layers.map(({ name }) => [name, { 8: 1, 32: 3 }]));
  const fast = mixedPrecision(analysis, { maxMs: 2 * layers.length, latencies });
  // A layer takes 3 ms in float and 1 ms in 8 bits: half of the layers must use 8 bits, those that lose
  // least.
  const count = Math.ceil(layers.length / 2);
  assert.equal(fast.chosen.ms, 3 * layers.length - 2 * count);
  const byNoise = [...layers].sort((a, b) => a.noise[8] - b.noise[8]);
  for (const [at, { name }] of byNoise.entries()) {
    assert.equal(fast.chosen.widths[name], at < count ? 8 : 32, name);
  }
  assert.throws(() => mixedPrecision(analysis, { maxBytes: 1 }), isError('INVALID_ARGUMENT'));

  const spoiled = structuredClone(analysis);
  const value = spoiled.values.find(({ name }) => name === spoiled.operators[0].value);
  Object.assign(value, { channels: 64, channelSpread: 30, channelOutliers: 3, clipped: 0 });
  spoiled.operators[0].aloneSnr = 1;
  assert.match(diagnose(spoiled, 1)[0].problem, /dominated by 3 of 64 channels/);
  assert.match(formatAnalysis(analysis), /outputs at W8/);
  const html = analysisHtml(analysis, { title: '<b>', frontier, chosen });
  assert.match(html, /&lt;b&gt;/);
  assert.match(html, /<polyline/);
  assert.equal(frontierChart(frontier.slice(0, 1)), '');
});

test('the command analyze, and quantize with a budget and a record', (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-analyze-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const run = (...args) =>
    execFileSync(process.execPath, [path.join(ROOT, 'dist/cli/main.js'), ...args], {
      encoding: 'utf8',
    });
  const data = ['--data', path.join(ROOT, 'demos/data/calibration-images-idx3-ubyte'), '--scale'];
  const common = [...data, '1/255', '--max-samples', '8'];
  const page = path.join(folder, 'a.html');
  const text = run('analyze', MODEL, ...common, '--budget', '60000', '--html', page);
  assert.match(text, /alone/);
  assert.match(text, /of weights, about/);
  assert.match(readFileSync(page, 'utf8'), /Size against accuracy/);
  const json = JSON.parse(run('analyze', MODEL, ...common, '--json'));
  assert.ok(json.frontier.length > 2);
  // The time of layers is measured, so only a budget that everything meets has a certain answer.
  const timed = JSON.parse(run('analyze', MODEL, ...common, '--max-ms', '100000', '--json'));
  assert.equal(Object.keys(timed.chosen.widths).length, 12);
  let float = 0;
  for (const [layer, width] of Object.entries(timed.chosen.widths)) {
    assert.equal(width, 32, layer);
    assert.deepEqual(Object.keys(timed.latencies[layer]), ['2', '4', '8', '32'], layer);
    float += timed.latencies[layer][32];
  }
  assert.ok(float > 0 && Math.abs(timed.chosen.ms - float) <= 1e-9 * float, `${float}`);

  const record = path.join(folder, 'record.json');
  const out = path.join(folder, 'q.onnx');
  run('quantize', MODEL, ...common, '-o', out, '--record', record, '--recover', 'none');
  const again = path.join(folder, 'r.onnx');
  run('quantize', MODEL, ...common, '-o', again, '-c', record);
  assert.deepEqual(readFileSync(again), readFileSync(out));
  const scales = path.join(folder, 'scales.json');
  writeFileSync(scales, JSON.stringify({ image: { scale: 1 / 255, zero_point: 0 } }));
  run('quantize', MODEL, ...common, '-o', again, '-c', scales, '--budget', '80000');
});

test('latencies: every layer at every width, for a budget in milliseconds', async () => {
  const quantized = await quantize(model, { calibration: samples, analyze: true });
  const { analysis } = quantized.config;
  const [feeds] = samples;
  let last;
  const latencies = await measureLatencies(model, {
    feeds,
    rounds: 3,
    onProgress: (progress) => (last = progress),
  });
  assert.deepEqual(last, { done: 9, total: 9 });
  const layers = analysis.operators.filter(({ noise }) => noise).map(({ name }) => name);
  for (const name of layers) {
    assert.deepEqual(Object.keys(latencies[name]).sort(), ['2', '32', '4', '8']);
    for (const ms of Object.values(latencies[name])) assert.ok(ms >= 0 && ms < 1000);
  }
  // Equal latencies give equal bits; a budget that the whole network meets changes nothing.
  const maxMs = layers.reduce((sum, name) => sum + Math.max(...Object.values(latencies[name])), 0);
  const one = mixedPrecision(analysis, { maxMs, latencies });
  assert.deepEqual(mixedPrecision(analysis, { maxMs, latencies }), one);
  assert.deepEqual(one.chosen, one.frontier[0]);
  const few = await measureLatencies(model, { feeds, widths: [8], rounds: 1 });
  assert.deepEqual(Object.keys(few[layers[0]]), ['8']);

  const controller = new AbortController();
  const onProgress = () => controller.abort();
  const { signal } = controller;
  await assert.rejects(measureLatencies(model, { feeds, signal, onProgress }), isError('ABORTED'));
  for (const bad of [{}, { feeds, rounds: 0 }, { feeds, widths: [3] }, { feeds, width: [8] }]) {
    await assert.rejects(measureLatencies(model, bad), isError('INVALID_ARGUMENT'));
  }
});

test('what recovery left in float stays there with the config of the record', async () => {
  for (const method of ['float_start', 'float_sums', 'float_end', 'float_answers']) {
    const record = {
      operators: [
        {
          name: 'first',
          type: 'Conv',
          quantized: false,
          reason: `${method} keeps it in float`,
          inputs: [{ value: 'x', state: 'DEQUANTIZED' }],
          outputs: [{ value: 'y', state: 'DEQUANTIZED' }],
        },
      ],
      recovery: [],
      warnings: [],
    };
    assert.deepEqual(configOf(record).operators, { first: null });
  }
});

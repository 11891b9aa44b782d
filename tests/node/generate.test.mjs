// Models as C, compiled by the machine's compiler, give the bits of sessions.
// tests/cpp/api/generated_c_test.cpp tests random networks and operators.

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  Tensor,
  env,
  generateC,
  generateJson,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { runC, skipC } from './compile_c.mjs';
import { foreignModel, modelPath, skipShared } from './shared_models.mjs';
import { MODEL, ROOT, calibration, testImages } from './support.mjs';

let model;
before(async () => {
  model = await loadModel(MODEL);
});
after(() => model.dispose());

/** The session's outputs in the form of runC's. */
async function runSession(source, samples, options = {}) {
  const session = await InferenceSession.create(source, options);
  const results = [];
  for (const feeds of samples) {
    const outputs = await session.run(feeds);
    results.push(session.outputNames.map((name) => outputs[name]));
  }
  session.release();
  return results;
}

async function expectSame(source, samples, options = {}, flags = undefined) {
  const expected = await runSession(source, samples, options);
  const shapes = Object.fromEntries(
    Object.entries(samples[0]).map(([name, { dims }]) => [name, dims]),
  );
  const code = await generateC(source, { name: 'net', shapes, ...options });
  const outputs = runC(code, 'net', samples, expected[0], flags);
  for (const [i, sample] of expected.entries()) {
    for (const [j, { data }] of sample.entries())
      assert.deepEqual(outputs[i][j], data, `${i}, ${j}`);
  }
  return code;
}

test('the demo network in 8, 4 and 2 bits', { skip: skipC }, async (t) => {
  const images = testImages(4);
  const sizes = [];
  for (const config of [
    {},
    { weights: { bits: 4 }, activations: { bits: 4 } },
    { weights: { bits: 2 }, activations: { bits: 4 } },
  ]) {
    const quantized = await quantize(model, { calibration: calibration(8), config });
    t.after(() => quantized.dispose());
    const { constantBytes, workspaceBytes, header } = await expectSame(quantized, images);
    assert.match(header, new RegExp(`NET_WORKSPACE_BYTES ${workspaceBytes}$`, 'm'));
    if (sizes.length === 0) assert.ok(workspaceBytes < 20_000, String(workspaceBytes));
    sizes.push(constantBytes);
  }
  assert.ok(sizes[1] < 0.62 * sizes[0] && sizes[2] < 0.4 * sizes[0], String(sizes));
});

test('affine weights', { skip: skipC }, async (t) => {
  for (const weights of [
    { symmetric: false },
    { symmetric: false, perChannel: false, signed: true },
    { symmetric: false, bits: 3 },
  ]) {
    const quantized = await quantize(model, { calibration: calibration(8), config: { weights } });
    t.after(() => quantized.dispose());
    await expectSame(quantized, testImages(4));
  }
});

test(
  'every arithmetic of requantization, with and without optimization',
  { skip: skipC },
  async (t) => {
    const quantized = await quantize(model, { calibration: calibration(8) });
    t.after(() => quantized.dispose());
    for (const requantize of ['fixed', 'float', 'nearest', 'gemmlowp']) {
      for (const flags of [['-O0'], ['-O3', '-funroll-loops']]) {
        await expectSame(quantized, testImages(2), { requantize }, flags);
      }
    }
  },
);

test('a layer in float, to its rounding', { skip: skipC }, async (t) => {
  const config = { weights: { bits: 4 }, operatorTypes: { Gemm: null } };
  const quantized = await quantize(model, { calibration: calibration(8), config });
  t.after(() => quantized.dispose());
  const images = testImages(2);
  const expected = await runSession(quantized, images);
  const code = await generateC(quantized, { name: 'net', shapes: { image: [1, 1, 28, 28] } });
  for (const [i, [logits]] of runC(code, 'net', images, expected[0]).entries()) {
    for (const [j, value] of logits.entries()) {
      assert.ok(Math.abs(value - expected[i][0].data[j]) < 1e-5 * Math.max(1, Math.abs(value)));
    }
  }
});

test('files of others', { skip: skipShared || skipC }, async (t) => {
  for (const name of [
    'mlperf_tiny_kws_dscnn_int8_qdq',
    'mlperf_tiny_resnet8_int8_qoperator',
    'mlperf_tiny_ad_autoencoder_int8_qdq',
    'mobilenet_v1_0.25_128_qat_uint8_qdq',
    'qonnx_tfc_1w1a_mnist',
    'qonnx_kwsmlp_w3a3',
  ]) {
    const { file, inputs } = foreignModel(name);
    const feeds = Object.fromEntries(
      inputs.map(({ name: input, type, data, dims }) => [input, new Tensor(type, data, dims)]),
    );
    const foreign = await loadModel(file);
    t.after(() => foreign.dispose());
    const code = await expectSame(foreign, [feeds]);
    // 59,000 weights of one bit each.
    if (name === 'qonnx_tfc_1w1a_mnist') assert.ok(code.constantBytes < 10_000);
  }
});

test('a pretrained network of CIFAR-10', { skip: skipShared || skipC }, async (t) => {
  const resnet = await loadModel(modelPath('resnet20_cifar10'));
  t.after(() => resnet.dispose());
  const [input] = resnet.info.inputs;
  const dims = input.dims.map((dim) => (typeof dim === 'number' ? dim : 1));
  const feeds = (seed) => {
    const data = Float32Array.from({ length: 3072 }, (_, i) => Math.sin(i * seed) * 2);
    return { [input.name]: new Tensor('float32', data, dims) };
  };
  const quantized = await quantize(resnet, {
    calibration: [feeds(1), feeds(0.7)],
    config: { weights: { bits: 4 } },
  });
  t.after(() => quantized.dispose());
  await expectSame(quantized, [feeds(0.3), feeds(0.01)]);
});

test('open shapes, names and options', async (t) => {
  const open = await parseModel(
    'graph "g" opset 13\ninput %x: float32[N, 3]\n%y = Relu(%x)\noutput %y',
  );
  t.after(() => open.dispose());
  const refused = (options, pattern, code = 'INVALID_ARGUMENT') =>
    assert.rejects(generateC(open, options), (error) => {
      assert.ok(error instanceof RequantError);
      assert.equal(error.code, code);
      assert.match(error.message, pattern);
      return true;
    });
  await refused({}, /shape of input "x"/);
  await refused({ shapes: { x: [2, -1] } }, /shape of input "x"/);
  await refused({ shapes: { z: [2, 3] } }, /no input "z"/);
  await refused({ shapes: { x: [2, 3] }, name: 'a-b' }, /"a-b" is no name in C/);
  await refused({ nmae: 'x' }, /nmae/);
  await refused({ requantize: 'up' }, /requantize/);
  await refused({ shapes: { x: [2, 4] } }, /./, 'SHAPE_MISMATCH');
  const { header, source } = await generateC(open, { shapes: { x: [2, 3] }, name: 'relu' });
  assert.match(header, /void relu_run\(const float \*in_x, float \*out_y, void \*workspace\);/);
  assert.doesNotMatch(source, /rq_conv/);
  await assert.rejects(generateC({}), { code: 'INVALID_ARGUMENT' });
  const bell = await parseModel(
    'graph "g" opset 13\ninput %x: float32[3]\n%y = Erf(%x) "bell"\noutput %y',
  );
  t.after(() => bell.dispose());
  await assert.rejects(generateC(bell), { code: 'UNSUPPORTED', node: 'bell' });
});

test('the graph as JSON', async (t) => {
  const quantized = await quantize(model, { calibration: calibration(4) });
  t.after(() => quantized.dispose());
  const graph = JSON.parse(await generateJson(quantized, { maxNumbers: 1 }));
  const { info } = quantized.integerModel;
  assert.deepEqual(
    graph.nodes.map(({ name, op, domain, inputs, outputs }) => ({
      name,
      op,
      domain,
      inputs,
      outputs,
    })),
    info.nodes,
  );
  assert.deepEqual(graph.opsets, info.opsets);
  assert.deepEqual(graph.inputs, ['image']);
  let bytes = 0;
  for (const { dims, data } of Object.values(graph.constants)) {
    const count = dims.reduce((a, b) => a * b, 1);
    if (count <= 1) assert.equal(data.length, count);
    else bytes += Buffer.from(data, 'base64').length;
  }
  assert.ok(bytes > 0.9 * info.constantBytes && bytes <= info.constantBytes);
  await assert.rejects(generateJson(model, { maxNumbers: -1 }), { code: 'INVALID_ARGUMENT' });
});

test('the kernels in C are found where the wasm files are', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-c-')) + path.sep;
  t.after(() => {
    delete env.wasm.wasmPaths;
    rmSync(folder, { recursive: true });
  });
  const options = { shapes: { image: [1, 1, 28, 28] } };
  const { source } = await generateC(model, options);
  env.wasm.wasmPaths = folder;
  const failure = () => generateC(model, options).catch((error) => error);
  const missing = await failure();
  assert.equal(missing.code, 'LOAD_FAILED');
  assert.match(missing.message, /c_kernels\.txt/);
  for (const text of ['<!doctype html>', '[]', '{ "x": 1 }', '{}']) {
    writeFileSync(path.join(folder, 'c_kernels.txt'), text);
    const { code, message, hint } = await failure();
    assert.equal(code, 'LOAD_FAILED', text);
    assert.match(message, /is not c_kernels\.txt/);
    assert.match(hint, /beside its wasm files/);
  }
  copyFileSync(path.join(ROOT, 'dist/c_kernels.txt'), path.join(folder, 'c_kernels.txt'));
  assert.equal((await generateC(model, options)).source, source);
});

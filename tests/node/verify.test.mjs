// verify(): a quantized model in two engines, beside its float original. The other engine is ONNX Runtime, or
// a function that is wrong in a known way.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  Tensor,
  loadModel,
  onnxRuntime,
  parseModel,
  quantize,
  verify,
} from 'requant';
import { formatVerification } from 'requant/report';
import { MODEL, ROOT, calibration, isError, testImages } from './support.mjs';

const model = await loadModel(MODEL);
const samples = testImages(12).map((feeds) => ({ feeds }));
const quantized = await quantize(model, {
  calibration: calibration(8),
  config: { floatOutputs: false, recover: [] },
});

/** This engine in place of the other, with outputs that `change` modifies. */
async function ours(change = (outputs) => outputs) {
  const session = await InferenceSession.create(quantized, { requantize: 'float' });
  let sample = 0;
  return async (feeds) => change({ ...(await session.run(feeds)) }, sample++);
}

const withElement = (index, value) => (outputs) => {
  const { data, dims } = outputs.logits;
  const changed = data.slice();
  changed[index] = value(changed[index]);
  return { logits: { data: changed, dims } };
};

test('ONNX Runtime gives the same numbers for integers alone, in both formats', async () => {
  for (const format of ['qdq', 'qoperator']) {
    const engine = await onnxRuntime(ort, quantized.toOnnx({ format }));
    const report = await verify(model, quantized, { dataset: samples, engine });
    assert.equal(report.samples, 12);
    assert.equal(report.sameSamples, 12, format);
    assert.deepEqual(report.engines, { snr: null, maxAbs: 0, sameTop1: 1 });
    assert.deepEqual(report.worst, []);
    assert.deepEqual(report.floatOperators, []);
    assert.deepEqual(report.outputs, [
      { name: 'logits', elements: 120, same: 120, snr: null, maxAbs: 0 },
    ]);
    assert.ok(report.requant.snr > 20 && report.requant.snr < 60);
    assert.deepEqual(report.engine, report.requant);
  }
});

test('behind a Relu with zero in the middle of its grid ONNX Runtime computes QDQ in float', async () => {
  const symmetric = await quantize(model, {
    calibration: calibration(8),
    config: { activations: { symmetric: true }, floatOutputs: false, recover: [] },
  });
  const reportOf = async (format) => {
    const engine = await onnxRuntime(ort, symmetric.toOnnx({ format }));
    return verify(model, symmetric, { dataset: samples, engine });
  };
  assert.equal((await reportOf('qoperator')).sameSamples, 12);
  const { engines, requant } = await reportOf('qdq');
  assert.ok(engines.snr === null || engines.snr > requant.snr + 6, `${engines.snr} dB`);
});

test('differences are counted, the worst first', async () => {
  const engine = await ours((outputs, sample) =>
    sample % 2 === 0 ? outputs : withElement(3, (value) => value + sample)(outputs),
  );
  const report = await verify(model, quantized, { dataset: samples, engine, worst: 4 });
  assert.equal(report.sameSamples, 6);
  const [output] = report.outputs;
  assert.equal(output.same, 114);
  assert.ok(Math.abs(output.maxAbs - 11) < 1e-5);
  assert.deepEqual(
    report.worst.map(({ sample }) => sample),
    [11, 9, 7, 5],
  );
  for (const {
    sample,
    output: name,
    index,
    float,
    requant,
    engine: theirs,
    top1,
  } of report.worst) {
    assert.equal(name, 'logits');
    assert.equal(index, 3);
    assert.ok(Math.abs(theirs - requant - sample) < 1e-5);
    assert.ok(Math.abs(float - requant) < 2);
    assert.equal(top1.length, 3);
  }
  const text = formatVerification(report, 'other');
  assert.match(text, /^12 samples, 6 with the same numbers in both engines$/m);
  assert.match(text, /^ +11 +logits\[3\] /m);
});

test('NaN is a difference, but not from NaN', async () => {
  const engine = await ours(withElement(0, () => NaN));
  const report = await verify(model, quantized, { dataset: samples, engine, maxSamples: 2 });
  assert.equal(report.samples, 2);
  assert.equal(report.engines.maxAbs, Infinity);
  assert.equal(report.outputs[0].same, 18);
  assert.ok(Number.isNaN(report.worst[0].engine));

  const root = await parseModel(
    'graph "root" opset 13\n input %x: float32[2]\n %y = Sqrt(%x)\n output %y',
  );
  const feeds = { x: new Tensor('float32', [-1, 4], [2]) };
  const same = await verify(root, root, {
    dataset: [{ feeds }],
    engine: () => ({ y: { data: [NaN, 2], dims: [2] } }),
  });
  assert.equal(same.sameSamples, 1);
});

test('half floats of the other engine are numbers', async () => {
  const half = await parseModel(
    'graph "h" opset 13\n input %x: float32[4]\n %y = Neg(%x)\n output %y',
  );
  const feeds = { x: new Tensor('float32', [-1, 2, 0, -(2 ** -24)], [4]) };
  const bits = new Uint16Array([0x3c00, 0xc000, 0x8000, 1]);
  const { sameSamples } = await verify(half, half, {
    dataset: [{ feeds }],
    engine: () => ({ y: { type: 'float16', data: bits, dims: [4] } }),
  });
  assert.equal(sameSamples, 1);
});

test('operators that compute in float are named where integers follow', async () => {
  const mixed = await parseModel(`graph "mixed" opset 13
    input %x: float32[1, 4, 6, 6]
    const %w: float32[4, 4, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}
    %a = Conv(%x, %w) "first"
    %b = Cos(%a) "wave"
    %c = Conv(%b, %w) "second"
    output %c`);
  const data = Float32Array.from({ length: 144 }, (_, i) => Math.sin(i));
  const feeds = { x: new Tensor('float32', data, [1, 4, 6, 6]) };
  const half = await quantize(mixed, {
    calibration: [feeds],
    config: { recover: [], operators: { first: null, wave: null } },
  });
  const engine = await onnxRuntime(ort, half.toOnnx());
  const { floatOperators } = await verify(mixed, half, { dataset: [{ feeds }], engine });
  assert.deepEqual(floatOperators, ['first', 'wave']);
});

test('what is refused', async () => {
  const engine = await ours();
  const refuse = (options, code, details) =>
    assert.rejects(verify(model, quantized, { dataset: samples, engine, ...options }), (error) =>
      isError(code, details)(error),
    );
  await refuse({ engine: undefined }, 'INVALID_ARGUMENT', { value: 'options.engine' });
  await refuse({ engine: 3 }, 'INVALID_ARGUMENT', { value: 'options.engine' });
  await refuse({ dataset: [] }, 'INVALID_ARGUMENT', { value: 'options.dataset' });
  await refuse({ worst: -1 }, 'INVALID_ARGUMENT', { value: 'options.worst' });
  await refuse({ requantize: 'up' }, 'INVALID_ARGUMENT', { value: 'options.requantize' });
  await refuse({ signal: AbortSignal.abort() }, 'ABORTED', {});
  await refuse({ dataset: [samples[0], { feeds: {} }] }, 'INVALID_ARGUMENT', {
    message: /^sample 1: /,
  });
  await refuse({ engine: () => ({ scores: samples[0].feeds.image }) }, 'INVALID_ARGUMENT', {
    value: 'logits',
    message: /^sample 0: /,
    hint: /It gave: scores/,
  });
  await refuse({ engine: () => undefined }, 'INVALID_ARGUMENT', { value: 'logits' });
  await refuse(
    { engine: () => ({ logits: { data: new Float32Array(9), dims: [1, 9] } }) },
    'SHAPE_MISMATCH',
    { value: 'logits' },
  );
  const cause = new Error('no such kernel');
  await refuse(
    {
      engine: () => {
        throw cause;
      },
    },
    'UNSUPPORTED',
    { message: /no such kernel/ },
  );
  await assert.rejects(verify(quantized, quantized, { dataset: samples, engine }), {
    code: 'INVALID_ARGUMENT',
  });
  await assert.rejects(onnxRuntime({}, new Uint8Array(4)), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(onnxRuntime(ort, new Uint8Array(4)), { code: 'UNSUPPORTED' });
});

test('an engine that never answers can be left', async () => {
  const controller = new AbortController();
  const engine = () => {
    setTimeout(() => controller.abort(), 5);
    return new Promise(() => {});
  };
  const { signal } = controller;
  await assert.rejects(verify(model, quantized, { dataset: samples, engine, signal }), {
    code: 'ABORTED',
  });
});

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-verify-'));
after(() => rmSync(folder, { recursive: true }));

function requant(...args) {
  const images = path.join(ROOT, 'demos/data/test-images-idx3-ubyte');
  const main = path.join(ROOT, 'dist/cli/main.js');
  const all = [...args, '--data', images, '--max-samples', '20'];
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const result = spawnSync(process.execPath, [...flags, main, 'verify', MODEL, ...all], {
    encoding: 'utf8',
    cwd: ROOT,
  });
  return { code: result.status, out: result.stdout, err: result.stderr };
}

test('the command, with ONNX Runtime and with a script', async () => {
  const file = path.join(folder, 'int8.onnx');
  writeFileSync(file, quantized.toOnnx());
  const { code, out, err } = requant(file);
  assert.equal(code, 0, err);
  assert.match(out, /^20 samples, 20 with the same numbers in both engines$/m);
  const report = JSON.parse(requant(file, '--json').out);
  assert.equal(report.sameSamples, 20);

  const wrong = path.join(folder, 'wrong.mjs');
  writeFileSync(
    wrong,
    `export default (bytes) => {
      if (bytes[0] !== 8) throw new Error('these are not the bytes of the file');
      return () => ({ logits: { data: [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], dims: [1, 10] } });
    };`,
  );
  const unlike = requant(file, '--engine', wrong, '--worst', '2');
  assert.equal(unlike.code, 1);
  assert.match(unlike.out, /^The 2 samples that differ most/m);
  assert.match(unlike.err, /of the answers are the same in both engines/);
  assert.equal(requant(file, '--engine', wrong, '--min-agreement', '0').code, 0);

  const missing = requant(file, '--engine', 'no-such-engine');
  assert.equal(missing.code, 2);
  assert.match(missing.err, /npm install no-such-engine/);
  const empty = path.join(folder, 'empty.mjs');
  writeFileSync(empty, 'export const nothing = 1;');
  assert.equal(requant(file, '--engine', empty).code, 2);
});

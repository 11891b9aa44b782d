// toTflite(): small graphs of every operator (tests/tflite/write_cases.mjs) are written, read back by this engine, and
// compared with the model that they were written from, in float and quantized.
// REQUANT_LONG=1: LiteRT.js runs the files as well. That needs Chromium, and a network from which LiteRT.js is
// installed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  createWorker,
  loadModel,
  parseModel,
  quantize,
  readQuantized,
} from '../../dist/index.js';
import { litertFolder, openLiteRt } from '../tflite/litert.mjs';
import { check, largest, prepare } from '../tflite/write_check.mjs';
import cases from '../tflite/write_cases.mjs';
import { asTensors, inLiteRt, randomFeeds, readBack } from '../tflite/written.mjs';
import { ROOT, isError } from './support.mjs';

const LONG = Boolean(process.env.REQUANT_LONG);
const skipShort = !LONG && 'only with REQUANT_LONG=1';

const variants = cases.flatMap((one) => [
  { ...one, codes: false },
  ...(one.quantize ? [{ ...one, codes: true }] : []),
]);

describe('a written file answers as its model', () => {
  for (const codes of [false, true]) {
    test(codes ? 'quantized' : 'in float', async () => {
      for (const one of variants.filter((variant) => variant.codes === codes)) {
        const made = await prepare(one, codes);
        check(one.name, made, await readBack(made.file, made.feeds));
      }
    });
  }

  test('in LiteRT.js', { skip: skipShort }, async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const litert = await openLiteRt(folder);
    try {
      for (const one of variants) {
        const made = await prepare(one, one.codes);
        check(one.name, made, await inLiteRt(litert, made.file, made.feeds));
      }
    } finally {
      await litert.close();
    }
  });
});

const caseOf = (name) => cases.find((one) => one.name === name);

test('images have their channels last, or the order of ONNX', async () => {
  const model = await parseModel(caseOf('Conv pads 1').text);
  const last = await model.toTflite();
  assert.deepEqual(last.report.inputs, [
    { name: 'x', type: 'float32', dims: [1, 9, 7, 4], layout: 'NHWC', axes: [0, 2, 3, 1] },
  ]);
  assert.deepEqual(last.report.transposes, []);
  assert.deepEqual(last.report.operators, { CONV_2D: 1 });
  const onnx = await model.toTflite({ layout: 'onnx' });
  assert.deepEqual(onnx.report.inputs[0].dims, [1, 4, 9, 7]);
  assert.equal(onnx.report.transposes.length, 2);
  const feeds = randomFeeds({ x: [1, 4, 9, 7] }, 5);
  const session = await InferenceSession.create(model);
  const answers = await session.run(asTensors(feeds));
  check('onnx', { answers }, await readBack(onnx, feeds));
});

test('transposes between layers cancel', async () => {
  const made = await prepare(caseOf('Residual'), true);
  assert.deepEqual(made.file.report.transposes, []);
  assert.deepEqual(made.file.report.floats, []);
  assert.deepEqual(made.file.report.operators, { ADD: 1, CONV_2D: 2, DEQUANTIZE: 1, QUANTIZE: 1 });
});

test('inputs and outputs may be codes', async () => {
  const { text, inputs } = caseOf('Conv Relu');
  const model = await parseModel(text);
  const calibration = [1, 2].map((seed) => asTensors(randomFeeds(inputs, seed)));
  const quantized = await quantize(model, { calibration, config: { target: 'tflite' } });
  const { report } = quantized.toTflite({ ends: 'codes' });
  assert.deepEqual(report.operators, { CONV_2D: 1 });
  for (const end of [...report.inputs, ...report.outputs]) {
    assert.equal(end.type, 'int8');
    assert.ok(end.scale > 0);
  }
});

test('weights of 16 bits halve the file', async () => {
  const made = await prepare(caseOf('Flatten image'), false);
  const model = await parseModel(caseOf('Flatten image').text);
  const half = await model.toTflite({ halfWeights: true });
  assert.ok(half.bytes.length < 0.75 * made.file.bytes.length);
  const outputs = await readBack(half, made.feeds);
  assert.ok(largest(outputs.y, made.answers.y.data) < 0.02);
});

test('what a file cannot hold is refused by name', async () => {
  const det = await parseModel(
    'graph "g" opset 18\ninput %x: float32[3, 3]\n%y: float32[...] = Det(%x) "bump"\noutput %y',
  );
  await assert.rejects(
    det.toTflite(),
    isError('UNSUPPORTED', { node: 'bump', message: /Det 'bump'/, hint: /ONNX/ }),
  );
  const { text, inputs } = caseOf('Conv Relu');
  const calibration = [asTensors(randomFeeds(inputs, 1))];
  const few = await quantize(await parseModel(text), {
    calibration,
    config: { activations: { bits: 4 } },
  });
  assert.throws(() => few.toTflite(), isError('UNSUPPORTED', { hint: /8 bits/ }));
  const open = await parseModel(
    'graph "g" opset 18\ninput %x: float32[N, H]\n%y: float32[...] = Relu(%x)\noutput %y',
  );
  await assert.rejects(open.toTflite(), isError('UNSUPPORTED', { hint: /shapes/ }));
  const { report } = await open.toTflite({ shapes: { x: [2, 5] } });
  assert.deepEqual(report.inputs[0].dims, [2, 5]);
  await assert.rejects(open.toTflite({ layout: 'NHWC' }), isError('INVALID_ARGUMENT'));
  await assert.rejects(open.toTflite({ shapes: { z: [1] } }), isError('INVALID_ARGUMENT'));
});

test('models of integer operators are read first', async () => {
  const { text, inputs } = caseOf('Conv Relu');
  const calibration = [asTensors(randomFeeds(inputs, 1))];
  const made = await quantize(await parseModel(text), { calibration });
  const file = await loadModel(made.toOnnx({ format: 'qoperator' }));
  await assert.rejects(file.toTflite(), isError('UNSUPPORTED', { hint: /readQuantized/ }));
  const { report } = (await readQuantized(file)).toTflite();
  assert.equal(report.operators.CONV_2D, 1);
});

test('a worker writes the same file', async () => {
  const worker = await createWorker();
  const model = await parseModel(caseOf('Conv Relu').text);
  const remote = await worker.loadModel(model.toOnnx());
  assert.deepEqual(
    (await remote.toTflite()).bytes,
    (await (await loadModel(model.toOnnx())).toTflite()).bytes,
  );
  await worker.terminate();
});

test('requant generate writes a .tflite file', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-tflite-'));
  try {
    const source = path.join(folder, 'model.onnx');
    const target = path.join(folder, 'model.tflite');
    writeFileSync(source, (await parseModel(caseOf('Conv Relu').text)).toOnnx());
    const main = path.join(ROOT, 'dist/cli/main.js');
    const { stdout } = spawnSync(process.execPath, [main, 'generate', source, '-o', target], {
      encoding: 'utf8',
    });
    assert.match(stdout, /x: float32\[1, 9, 7, 4\] NHWC/);
    assert.equal(String(readFileSync(target).subarray(4, 8)), 'TFL3');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// Loading, saving and printing models.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { InferenceSession, engineInfo, loadModel, parseModel } from '../../dist/index.js';
import { MODEL, maxDifference, ortOutputs, outputsOf, testImages } from './support.mjs';

const modelBytes = readFileSync(MODEL);

describe('models', () => {
  let model;
  before(async () => (model = await loadModel(MODEL)));
  after(() => model.dispose());

  test('load from every kind of source', async () => {
    const sources = [
      MODEL,
      pathToFileURL(MODEL),
      pathToFileURL(MODEL).href,
      modelBytes,
      new Uint8Array(modelBytes).buffer,
      new DataView(modelBytes.buffer, modelBytes.byteOffset, modelBytes.byteLength),
      new Blob([modelBytes]),
      new Response(modelBytes),
      Promise.resolve(modelBytes),
      Promise.resolve(new Response(modelBytes)),
    ];
    for (const source of sources) {
      const progress = [];
      const one = await loadModel(source, { onProgress: (step) => progress.push(step) });
      assert.equal(one.info.nodes.length, model.info.nodes.length);
      assert.equal(progress.at(-1).phase, 'parse');
      one.dispose();
    }
  });

  test('describe themselves', () => {
    const { info } = model;
    assert.equal(info.quantized, false);
    assert.equal(info.nodes.filter(({ op }) => op === 'Conv').length, 11);
    assert.deepEqual(info.inputs, [{ name: 'image', type: 'float32', dims: ['N', 1, 28, 28] }]);
    assert.match(model.summary(), /image: float32\[N, 1, 28, 28\]/);
    assert.match(model.summary(), /11 Conv/);
    assert.match(model.toDot(), /^digraph/);
    assert.match(model.toText(), /^graph /);
  });

  test('come back from text and from ONNX bytes', async () => {
    const images = testImages(4);
    const expected = await ortOutputs(modelBytes, images);
    const text = await parseModel(model.toText({ maxConstantElements: 0 }));
    const again = await loadModel(model.toOnnx());
    for (const copy of [text, again]) {
      const session = await InferenceSession.create(copy);
      const outputs = await outputsOf(session, images);
      outputs.forEach((output, i) => assert.ok(maxDifference(output, expected[i]) < 1e-4));
      session.dispose();
      copy.dispose();
    }
    const theirs = await ortOutputs(model.toOnnx(), images);
    theirs.forEach((output, i) => assert.ok(maxDifference(output, expected[i]) < 1e-5));
  });

  test('optimize in place; a clone is on its own', async () => {
    const clone = model.clone();
    const before = model.info.nodes.length;
    const report = clone.optimize({ dump: true });
    assert.ok(clone.info.nodes.length < before);
    assert.equal(model.info.nodes.length, before);
    assert.ok(report.rounds >= 1 && report.passes.some(({ changed }) => changed));
    assert.match(report.dumps[0].text, /^graph /);
    assert.ok(!clone.info.nodes.some(({ op }) => op === 'BatchNormalization'));
    const images = testImages(4);
    const theirs = await ortOutputs(clone.toOnnx(), images);
    const expected = await ortOutputs(modelBytes, images);
    theirs.forEach((output, i) => assert.ok(maxDifference(output, expected[i]) < 1e-4));
    clone.dispose();

    const untouched = model.clone();
    const { passes } = await engineInfo();
    untouched.optimize({ disable: passes.map(({ name }) => name) });
    assert.equal(untouched.info.nodes.length, before);
    untouched.dispose();
  });

  test('save files', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    try {
      await model.save(path.join(folder, 'a.onnx'));
      assert.deepEqual(new Uint8Array(readFileSync(path.join(folder, 'a.onnx'))), model.toOnnx());
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('text form', () => {
  // The module converts numbers through JavaScript; the expected text is that of C's %.9g and %.17g, which
  // the native build prints (tests/cpp/base/number_text_test.cpp).
  test('spells numbers as the native build does', async () => {
    const numbers =
      '{0.0, -0.0, 0.100000001, 9.99999975e-06, 0.00048828125, 123456792.0, 1.0e+10, 3.40282347e+38, 1.40129846e-45}';
    const exact =
      '{0.10000000000000001, 1.0000000000000001e+300, 4.9406564584124654e-324, -inf, nan}';
    const model = await parseModel(`graph "g" opset 13
input %x: float32[9]
input %y: float64[5]
const %f: float32[9] = ${numbers}
const %d: float64[5] = ${exact}
%a = Add(%x, %f)
%b = Add(%y, %d)
output %a
output %b
`);
    const text = model.toText();
    model.dispose();
    assert.ok(text.includes(numbers), text);
    assert.ok(text.includes(exact), text);
  });
});

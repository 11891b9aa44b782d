// The public API on the shipped model, with ONNX Runtime as the oracle.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  engineInfo,
  env,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import {
  MODEL,
  agreement,
  calibration,
  isError,
  maxDifference,
  ortOutputs,
  outputsOf,
  testImages,
  testLabels,
} from './support.mjs';

const modelBytes = readFileSync(MODEL);

const variants = hasRelaxedSimd() ? ['simd128', 'relaxed'] : ['simd128'];

for (const simd of variants) {
  describe(`engine ${simd}`, () => {
    const images = testImages(200);
    let expected;
    let model;
    let quantized;

    before(async () => {
      env.wasm.simd = simd;
      expected = await ortOutputs(modelBytes, images);
      model = await loadModel(modelBytes);
      quantized = await quantize(model, { calibration: calibration(64) });
    });
    after(() => {
      quantized?.dispose();
      model?.dispose();
      env.wasm.simd = 'auto';
    });

    test('the forced module is the one in use', async () => {
      const info = await engineInfo();
      assert.equal(info.variant, simd);
      assert.ok(info.operators.some(({ name }) => name === 'QLinearConv'));
      assert.ok(info.passes.length > 3);
      assert.ok(info.kernels.length > 3);
    });

    test('float outputs equal those of ONNX Runtime', async () => {
      const session = await InferenceSession.create(model);
      assert.deepEqual(session.inputNames, ['image']);
      assert.deepEqual(session.outputNames, ['logits']);
      assert.deepEqual(session.inputMetadata, [
        { name: 'image', isTensor: true, type: 'float32', shape: ['N', 1, 28, 28] },
      ]);
      const outputs = await outputsOf(session, images.slice(0, 32));
      outputs.forEach((output, index) =>
        assert.ok(maxDifference(output, expected[index]) < 1e-4, `image ${index}`),
      );
      // A batch gives the same results as its images alone.
      const all = images.slice(0, 5).flatMap(({ image }) => [...image.data]);
      const batch = await session.run({ image: new Tensor('float32', all, [5, 1, 28, 28]) });
      assert.deepEqual([...batch.logits.dims], [5, 10]);
      assert.ok(
        maxDifference(
          batch.logits.data,
          outputs.slice(0, 5).flatMap((o) => [...o]),
        ) < 1e-4,
      );
      await session.release();
    });

    test('the quantized model agrees with the float model', async () => {
      const session = await InferenceSession.create(quantized);
      const outputs = await outputsOf(session, images);
      assert.ok(agreement(outputs, expected) >= 0.97, `${agreement(outputs, expected)}`);
      const integer = session.plan().steps.filter(({ op }) => /^QLinear|^QGemm/.test(op));
      assert.ok(integer.length >= 12, JSON.stringify(session.plan().steps.map(({ op }) => op)));
      session.dispose();
    });

    test('every kernel of 8-bit products computes the same bits, or says what it lacks', async () => {
      const rows = (await engineInfo()).kernels.filter(({ family }) => family === 'conv_q8');
      assert.ok(rows.length >= 5);
      const some = images.slice(0, 60);
      const run = async (name) => {
        const session = await InferenceSession.create(quantized, { kernels: { conv_q8: name } });
        const outputs = await outputsOf(session, some);
        const used = session.plan().steps.some(({ kernel }) => kernel === name);
        session.dispose();
        return { outputs, used };
      };
      const reference = await run('conv_q8_scalar');
      assert.ok(reference.used);
      for (const { name, missing } of rows) {
        if (missing !== undefined) {
          await assert.rejects(
            run(name),
            isError('UNSUPPORTED', { value: 'options.kernels.conv_q8', message: /relaxed_dot/ }),
          );
          continue;
        }
        const { outputs, used } = await run(name);
        assert.deepEqual(outputs, reference.outputs, name);
        if (name === 'conv_q8_dot8') assert.ok(used);
      }
    });

    test('the engine finds the same instructions before and after it has optimized itself', async () => {
      const first = (await engineInfo()).kernels;
      for (let i = 0; i < 40; ++i) assert.deepEqual((await engineInfo()).kernels, first);
      const dot8 = first.find(({ name }) => name === 'conv_q8_dot8');
      if (simd === 'simd128') assert.match(dot8.missing, /i32x4\.relaxed_dot_i8x16_i7x16_add_s/);
    });

    for (const format of ['qdq', 'qoperator']) {
      test(`the ${format} file runs in ONNX Runtime with the same classes`, async () => {
        const bytes = quantized.toOnnx({ format });
        assert.ok(bytes.length < modelBytes.length / 2, `${bytes.length} bytes`);
        const ours = await InferenceSession.create(quantized);
        const outputs = await outputsOf(ours, images);
        const theirs = await ortOutputs(bytes, images);
        assert.ok(agreement(outputs, theirs) >= 0.99, `${agreement(outputs, theirs)}`);
        // The exported file, read back, uses ONNX Runtime's arithmetic here.
        const back = await InferenceSession.create(bytes);
        const again = await outputsOf(back, images.slice(0, 50));
        assert.ok(agreement(again, theirs.slice(0, 50)) >= 0.98);
        ours.dispose();
        back.dispose();
      });
    }

    test('compare reports accuracy, size and layers', async () => {
      const labels = testLabels(100);
      const seen = [];
      const report = await compare(model, quantized, {
        dataset: images.slice(0, 100).map((feeds, index) => ({ feeds, label: labels[index] })),
        maxSamples: 40,
        layerwise: true,
        aloneSamples: 1,
        onProgress: (progress) => seen.push(progress),
      });
      assert.equal(report.samples, 40);
      assert.equal(report.labelled, 40);
      const right = expected
        .slice(0, 40)
        .filter((output, index) => output.indexOf(Math.max(...output)) === labels[index]).length;
      assert.equal(report.top1.float, right / 40);
      assert.ok(report.top1.agreement >= 0.95);
      assert.ok(report.outputs[0].snr > 10 && report.outputs[0].cosine > 0.95);
      assert.ok(report.layers.length > 10);
      assert.ok(report.layers.some(({ aloneSnr }) => aloneSnr > 10));
      assert.ok(report.size.candidateBytes < report.size.floatBytes / 2);
      assert.ok(report.memory.candidate.arena > 0);
      assert.deepEqual(
        seen.map(({ done, total }) => [done, total]),
        Array.from({ length: 40 }, (_, index) => [index + 1, 40]),
      );
      assert.equal(seen[0].sample.floatTop1, expected[0].indexOf(Math.max(...expected[0])));
    });
  });
}

describe('sessions', () => {
  test('return only what is fetched, and taps', async () => {
    const model = await parseModel(`graph "g" opset 13
input %x: float32[N, 2]
%a: float32[N, 2] = Abs(%x) "abs"
%b: float32[N, 2] = Neg(%a) "neg"
output %a
output %b
`);
    const feeds = { x: new Tensor('float32', [-1, 2, 3, -4], [2, 2]) };
    const session = await InferenceSession.create(model);
    assert.deepEqual(Object.keys(await session.run(feeds)), ['a', 'b']);
    assert.deepEqual(Object.keys(await session.run(feeds, ['b'])), ['b']);
    assert.deepEqual(Object.keys(await session.run(feeds, { a: null })), ['a']);
    assert.deepEqual(
      (await session.run(feeds, undefined, {})).b.data,
      Float32Array.of(-1, -2, -3, -4),
    );
    await assert.rejects(session.run(feeds, ['c']), isError('INVALID_ARGUMENT', { value: 'c' }));
    session.dispose();
    model.dispose();

    const conv = await loadModel(MODEL);
    const name = conv.info.nodes.find(({ op }) => op === 'GlobalAveragePool').outputs[0];
    const tapped = await InferenceSession.create(conv, { taps: [name] });
    assert.deepEqual(tapped.outputNames, ['logits']);
    const [image] = testImages(1);
    const outputs = await tapped.run(image);
    assert.deepEqual(Object.keys(outputs).sort(), [name, 'logits'].sort());
    assert.equal(outputs[name].size, 64);
    assert.deepEqual(Object.keys(await tapped.run(image, [name])), [name]);
    tapped.dispose();
    await assert.rejects(
      InferenceSession.create(conv, { taps: ['nothing'] }),
      isError('INVALID_ARGUMENT', { value: 'nothing' }),
    );
    conv.dispose();
  });

  test('tell their plan and profile', async () => {
    const session = await InferenceSession.create(MODEL, { profile: true });
    const [image] = testImages(1);
    await session.run(image);
    await session.run(image);
    const plan = session.plan();
    assert.ok(plan.steps.length > 10 && plan.steps.every(({ kernel }) => kernel));
    assert.ok(plan.memory.arena >= plan.memory.lowerBound && plan.memory.packedWeights > 0);
    // The bytes that the steps list agree with the size of the arena.
    assert.equal(Math.max(...plan.steps.map(({ usedBytes }) => usedBytes)), plan.memory.arena);
    const profile = session.profile();
    assert.ok(profile.length > 10);
    assert.ok(profile.every(({ runs }) => runs === 2));
    assert.ok(profile.reduce((sum, { milliseconds }) => sum + milliseconds, 0) > 0);
    const unmeasured = await InferenceSession.create(MODEL);
    await unmeasured.run(testImages(1)[0]);
    assert.deepEqual(unmeasured.profile(), []);
    unmeasured.release();
    session.dispose();
  });

  test('run the kernel that is forced, and refuse one that does not exist', async () => {
    const { kernels } = await engineInfo();
    const [image] = testImages(1);
    const [expected] = await ortOutputs(modelBytes, [image]);
    const usual = await InferenceSession.create(MODEL);
    await usual.run(image);
    const used = new Set(usual.plan().steps.map(({ kernel }) => kernel));
    usual.dispose();
    const families = new Set(kernels.filter(({ name }) => used.has(name)).map((k) => k.family));
    const others = kernels.filter((k) => families.has(k.family) && k.isa === 'scalar');
    assert.ok(others.length >= 1, JSON.stringify([...families]));
    for (const { family, name } of others) {
      const session = await InferenceSession.create(MODEL, { kernels: { [family]: name } });
      const { logits } = await session.run(image);
      assert.ok(
        session.plan().steps.some(({ kernel }) => kernel === name),
        name,
      );
      assert.ok(maxDifference(logits.data, expected) < 1e-4, name);
      session.dispose();
    }
    const [{ family }] = others;
    for (const [forced, value] of [
      [{ [family]: 'nonsense' }, `options.kernels.${family}`],
      [{ nonsense: others[0].name }, 'options.kernels.nonsense'],
    ]) {
      await assert.rejects(
        InferenceSession.create(MODEL, { kernels: forced }),
        isError('INVALID_ARGUMENT', { value }),
      );
    }
  });

  test('work with `using` where the engine knows Symbol.dispose', async () => {
    if (!Symbol.dispose) return;
    const session = await InferenceSession.create(MODEL);
    session[Symbol.dispose]();
    await assert.rejects(session.run(testImages(1)[0]), isError('DISPOSED'));
    const other = await InferenceSession.create(MODEL);
    await other[Symbol.asyncDispose]();
    assert.throws(() => other.plan(), isError('DISPOSED'));
  });
});

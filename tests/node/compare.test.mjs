// compare(): the arguments it rejects, and its report if there is little data.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  Tensor,
  compare,
  createWorker,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { formatReport, htmlReport } from '../../dist/report/index.js';
import { MODEL, calibration, isError, testImages } from './support.mjs';

const model = await loadModel(MODEL);
const quantized = await quantize(model, { calibration: calibration(4) });
const samples = testImages(3).map((feeds) => ({ feeds }));

const graph = (body) =>
  parseModel(`graph "small" opset 13\n  input %x: float32[1, 4]\n${body}\n  output %y`);
const x = (...values) => ({ x: new Tensor('float32', values, [1, 4]) });

test('a sample whose outputs are not finite is named, with the model and the output', async () => {
  const huge = { image: new Tensor('float32', new Float32Array(784).fill(3e38), [1, 1, 28, 28]) };
  await assert.rejects(
    compare(model, quantized, { dataset: [...samples, { feeds: huge }] }),
    isError('INVALID_ARGUMENT', {
      value: 'logits',
      message: /^sample 3: output "logits" of the model is (NaN|infinite) at index \d+$/,
    }),
  );
  // The invalid sample is one of many, from a generator that fills the same tensor again.
  function* many() {
    const image = new Tensor('float32', new Float32Array(784), [1, 1, 28, 28]);
    for (let index = 0; index < 40; index++) {
      image.data.fill(index === 20 ? 3e38 : 0);
      yield { feeds: { image } };
    }
  }
  await assert.rejects(
    compare(model, quantized, { dataset: many() }),
    isError('INVALID_ARGUMENT', { message: /^sample 20: output "logits" of the model/ }),
  );
  const root = await graph('  %y = Sqrt(%x)');
  const same = await graph('  %y = Relu(%x)');
  await assert.rejects(
    compare(same, root, { dataset: [{ feeds: x(1, 1, -1, 1) }] }),
    isError('INVALID_ARGUMENT', { message: /output "y" of the candidate is NaN at index 2/ }),
  );
});

test('layers that are not finite are left out, layers of nothing but zeros are not', async () => {
  const lost = await graph('  %i = Log(%x)\n  %b = IsNaN(%i)\n  %y = Cast(%b) {to = 1}');
  const report = await compare(lost, lost, {
    dataset: [{ feeds: x(-1, 1, 2, 3) }],
    layerwise: true,
  });
  assert.ok(report.layers.every(({ cosine }) => typeof cosine === 'number'));
  assert.ok(report.layers.every(({ value }) => value !== 'i'));
  assert.ok(formatReport(report).includes('exact'));

  const zeros = await graph('  %y = Relu(%x)');
  const ones = await graph('  const %one: float32[1] = {1}\n  %y = Add(%x, %one)');
  const off = await compare(zeros, ones, { dataset: [{ feeds: x(-3, -3, -3, -3) }] });
  const { snr, cosine, maxAbs } = off.outputs[0];
  assert.deepEqual({ snr, cosine, maxAbs }, { snr: -Infinity, cosine: 0, maxAbs: 2 });
  assert.match(formatReport(off), /-Infinity dB/);
  assert.match(htmlReport(off), /-Infinity dB/);
});

test('the same infinity on both sides is no difference', async () => {
  const masked = await graph('  %y = Log(%x)');
  const { outputs } = await compare(masked, masked, { dataset: [{ feeds: x(0, 1, 2, 3) }] });
  assert.equal(outputs[0].maxAbs, 0);
  const shifted = await graph(
    '  %a = Abs(%x)\n  const %one: float32[1] = {1}\n  %b = Add(%a, %one)\n  %y = Log(%b)',
  );
  await assert.rejects(
    compare(masked, shifted, { dataset: [{ feeds: x(0, 1, 2, 3) }] }),
    isError('INVALID_ARGUMENT', { message: /infinite/ }),
  );
});

test('the size is that of the file that is written', async () => {
  const { size } = await compare(model, quantized, { dataset: samples });
  assert.deepEqual(size, {
    floatBytes: model.toOnnx().length,
    candidateBytes: quantized.toOnnx().length,
  });
});

test('labels that cannot be counted, and other keys, are refused', async (t) => {
  const [{ feeds }] = samples;
  const two = { image: new Tensor('float32', new Float32Array(2 * 784), [2, 1, 28, 28]) };
  const worker = await createWorker();
  t.after(() => worker.terminate());
  const far = await worker.loadModel(MODEL);
  const cases = [
    [{ feeds, label: 10 }, 'label', /^sample 0: label is 10 of 10 classes/],
    [{ feeds: two, label: 1 }, 'label', /one row/],
    [{ feeds, lable: 1 }, 'the sample.lable', /no option "lable"/],
  ];
  for (const [sample, value, message] of cases) {
    const wrong = isError('INVALID_ARGUMENT', { value, message });
    await assert.rejects(compare(model, quantized, { dataset: [sample] }), wrong);
    await assert.rejects(worker.compare(far, far, { dataset: [sample] }), wrong);
  }
  await assert.rejects(
    worker.compare(far, far, { dataset: [null] }),
    isError('INVALID_ARGUMENT', { value: 'feeds' }),
  );
  const { samples: count } = await compare(model, quantized, { dataset: [{ feeds: two }] });
  assert.equal(count, 1);
});

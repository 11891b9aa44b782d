// Recurrent layers with integer weights, compared with their float form and with ONNX Runtime, which runs the
// same files.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel, quantizeDynamic, quantizeWeights } from 'requant';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

function randomSource(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

const [STEPS, BATCH, INPUT, HIDDEN] = [9, 2, 40, 48];
const gates = { LSTM: 4, GRU: 3, RNN: 1 };

/** A recurrent layer and a matrix product, with weights distributed like PyTorch's: up to 1 / sqrt(n). */
async function network(cell, direction, seed, attributes = '') {
  const random = randomSource(seed);
  const directions = direction === 'bidirectional' ? 2 : 1;
  const rows = gates[cell] * HIDDEN;
  const constant = (name, dims) => {
    const count = dims.reduce((a, b) => a * b, 1);
    const values = Array.from({ length: count }, () => (random() / Math.sqrt(HIDDEN)).toFixed(6));
    return `const %${name}: float32[${dims.join(', ')}] = {${values.join(', ')}}`;
  };
  const model = await parseModel(
    [
      'graph "recurrent" opset 14',
      `input %x: float32[${STEPS}, ${BATCH}, ${INPUT}]`,
      constant('w', [directions, rows, INPUT]),
      constant('r', [directions, rows, HIDDEN]),
      constant('b', [directions, 2 * rows]),
      constant('m', [HIDDEN, 16]),
      `%h${cell === 'LSTM' ? ', %last, %c' : ', %last'} = ${cell}(%x, %w, %r, %b) ` +
        `{direction = "${direction}", hidden_size = ${HIDDEN}${attributes}} "cell"`,
      '%y = MatMul(%h, %m) "product"',
      'output %y',
      'output %last',
      ...(cell === 'LSTM' ? ['output %c'] : []),
    ].join('\n'),
  );
  const x = new Tensor('float32', Float32Array.from({ length: STEPS * BATCH * INPUT }, random), [
    STEPS,
    BATCH,
    INPUT,
  ]);
  return { model, x };
}

async function run(model, x) {
  const session = await InferenceSession.create(model);
  const outputs = await session.run({ x });
  return Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, data]));
}

async function runOrt(bytes, x) {
  const session = await ort.InferenceSession.create(bytes);
  const outputs = await session.run({ x: new ort.Tensor('float32', x.data, x.dims) });
  await session.release();
  return Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, data]));
}

/** Signal to noise ratio of all outputs, in dB. */
function snr(wanted, got) {
  let [signal, noise] = [0, 1e-30];
  for (const [name, values] of Object.entries(wanted)) {
    assert.equal(got[name].length, values.length, name);
    values.forEach((value, index) => {
      signal += value ** 2;
      noise += (value - got[name][index]) ** 2;
    });
  }
  return 10 * Math.log10(signal / noise);
}

const layers = [
  ['LSTM', 'forward', ''],
  ['LSTM', 'bidirectional', ''],
  ['GRU', 'reverse', ', linear_before_reset = 1'],
  ['GRU', 'bidirectional', ''],
  ['RNN', 'forward', ''],
];

for (const [index, [cell, direction, attributes]] of layers.entries()) {
  test(`weights of ${cell}, ${direction}, as integers`, async () => {
    const { model, x } = await network(cell, direction, 7 + index, attributes);
    const float = await run(model, x);
    const original = model.toOnnx().length;
    const forms = [
      // form, least signal to noise ratio against float and against ONNX Runtime, largest share of the file
      // size
      [await quantizeWeights(model, { bits: 8 }), 45, 90, 0.36],
      [await quantizeWeights(model, { bits: 4 }), 22, 90, 0.24],
      [await quantizeWeights(model, { bits: 4, blockSize: 16 }), 23, 90, 0.27],
      [await quantizeWeights(model, { bits: 8, format: 'matmulnbits' }), 45, 30, 0.36],
      // Codes by rows take twenty operators, a kilobyte or two of such a small file.
      [await quantizeDynamic(model), 35, 30, 0.46],
      [await quantizeDynamic(model, { perToken: false }), 35, 30, 0.36],
    ];
    for (const [quantized, leastFloat, leastOrt, share] of forms) {
      const bytes = quantized.toOnnx();
      const ours = await run(quantized, x);
      const theirs = await runOrt(bytes, x);
      assert.ok(snr(float, ours) >= leastFloat, `against float ${snr(float, ours)}`);
      assert.ok(snr(theirs, ours) >= leastOrt, `against ONNX Runtime ${snr(theirs, ours)}`);
      assert.ok(snr(float, theirs) <= snr(float, ours) + 1, 'ours is no worse than theirs');
      assert.ok(bytes.length <= share * original, `${bytes.length} of ${original}`);
      quantized.dispose();
    }
    model.dispose();
  });
}

test('dynamic LSTM is the operator of ONNX Runtime, and runs by the float kernels here', async () => {
  const { model, x } = await network('LSTM', 'forward', 3);
  const dynamic = await quantizeDynamic(model);
  assert.ok(dynamic.info.nodes.some(({ op }) => op === 'DynamicQuantizeLSTM'));
  const session = await InferenceSession.create(dynamic);
  await session.run({ x });
  const kernels = session.plan().steps.map(({ op, kernel }) => `${op} ${kernel}`);
  assert.ok(
    kernels.some((line) => line.startsWith('LSTM ') && !line.includes('reference')),
    kernels.join('; '),
  );
});

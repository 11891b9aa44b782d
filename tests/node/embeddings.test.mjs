// Tables of embeddings in few bits: smaller files, the same answers in onnxruntime-web and here.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as ort from 'onnxruntime-web';
import {
  InferenceSession,
  RequantError,
  Tensor,
  loadModel,
  quantize,
  quantizeDynamic,
  quantizeWeights,
} from 'requant';
import { Layers, Weights } from '../transformers/layers.mjs';

const ROWS = 500;
const LENGTH = 48;
const DIMS = [2, 9];
const ids = BigInt64Array.from({ length: 18 }, (_, i) => BigInt((i * 83) % ROWS));

/** Rows of tokens plus rows of positions, and a layer behind them. */
function network() {
  const net = new Layers(new Weights(11), 'fp32');
  const input = net.graph.input('ids', 'int64', ['n', 's']);
  const rows = net.op('Gather', [net.weight('tokens', [ROWS, LENGTH], 0.1), input]);
  net.floatOutput(rows, 'rows', ['n', 's', LENGTH]);
  net.floatOutput(net.linear(rows, 'layer', LENGTH, 8), 'y', ['n', 's', 8]);
  return net.graph.toOnnx();
}

const bytes = network();

async function ours(model) {
  const session = await InferenceSession.create(model, { logSeverityLevel: 3 });
  try {
    return await session.run({ ids: new Tensor('int64', ids, DIMS) });
  } finally {
    await session.release();
  }
}

async function theirs(file) {
  const session = await ort.InferenceSession.create(file);
  try {
    return await session.run({ ids: new ort.Tensor('int64', ids, DIMS) });
  } finally {
    await session.release();
  }
}

const decibels = (wanted, got) => {
  let [signal, noise] = [0, 1e-30];
  wanted.forEach((value, i) => {
    signal += value ** 2;
    noise += (value - got[i]) ** 2;
  });
  return 10 * Math.log10(signal / noise);
};

const ways = {
  'weights of 8 bits': { make: (model) => quantizeWeights(model, { bits: 8 }), least: 40 },
  'weights of 4 bits': { make: (model) => quantizeWeights(model), least: 40 },
  MatMulNBits: { make: (model) => quantizeWeights(model, { format: 'matmulnbits' }), least: 40 },
  'embeddings of 4 bits': {
    make: (model) => quantizeWeights(model, { format: 'matmulnbits', embeddings: 4 }),
    least: 18,
    operator: 'GatherBlockQuantized',
    bytes: 0.64, // 4 bits and a float for 32 of them
  },
  dynamic: { make: (model) => quantizeDynamic(model), least: 40 },
  static: {
    make: (model) => quantize(model, { calibration: [{ ids: new Tensor('int64', ids, DIMS) }] }),
    least: 40,
  },
};

for (const [name, { make, least, operator = 'Mul', bytes: perNumber = 1.1 }] of Object.entries(
  ways,
)) {
  test(`embeddings: ${name}`, async (t) => {
    const model = await loadModel(bytes);
    const made = await make(model);
    t.after(() => (made.dispose(), model.dispose()));
    const file = made.toOnnx();
    assert.ok(file.length < ROWS * LENGTH * perNumber + 6000, `${file.length} bytes`);
    assert.ok((await loadModel(file)).info.nodes.some(({ op }) => op === operator));
    const float = await theirs(bytes);
    const judged = await theirs(file);
    assert.ok(decibels(float.rows.data, judged.rows.data) > least);
    for (const results of [await ours(made), await ours(file)]) {
      // The rows are a product of two numbers each, which every engine rounds alike.
      assert.deepEqual([...results.rows.data], [...judged.rows.data]);
      assert.ok(decibels(judged.y.data, results.y.data) > 35);
    }
  });
}

test('embeddings stay float if the options say so, which the model reports', async () => {
  const model = await loadModel(bytes);
  const made = await quantizeWeights(model, { bits: 8, embeddings: false });
  assert.ok(made.toOnnx().length > ROWS * LENGTH * 4);
  assert.match(made.warnings[0], /the options keep embeddings in float/);
  const dynamic = await quantizeDynamic(model, { embeddings: false });
  assert.ok(dynamic.toOnnx().length > ROWS * LENGTH * 4);
  const calibration = [{ ids: new Tensor('int64', ids, DIMS) }];
  const still = await quantize(model, { calibration, config: { embeddings: false } });
  assert.ok(still.toOnnx().length > ROWS * LENGTH * 4);
  await assert.rejects(
    quantizeWeights(model, { embeddings: 4 }),
    (error) => error instanceof RequantError && /matmulnbits/.test(error.message + error.hint),
  );
  await assert.rejects(quantizeWeights(model, { embeddings: 2 }), /options.embeddings is 2/);
  for (const one of [made, dynamic, still, model]) one.dispose();
});

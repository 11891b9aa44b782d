// Models with functions of their own and with sparse tensors: the shared cases, where they are at hand, and
// random numbers through a session.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { ROOT } from './support.mjs';

const CASES = path.join(ROOT, '../shared/cases');
const arrays = { float32: Float32Array, int32: Int32Array };

for (const name of [
  'local_functions',
  'sparse_initializer',
  'matmulnbits_gidx',
  'ml_scaler_regressor',
]) {
  const folder = path.join(CASES, `refused_${name}`);
  const skip = !existsSync(folder) && '../shared/cases is not at hand';
  test(`the shared case ${name} gives its answer`, { skip }, async () => {
    const json = (file) => JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
    const session = await InferenceSession.create(
      new Uint8Array(readFileSync(path.join(folder, 'model.onnx'))),
    );
    const feeds = Object.fromEntries(
      Object.entries(json('input.json')).map(([key, { type, dims, data }]) => [
        key,
        new Tensor(type, arrays[type].from(data), dims),
      ]),
    );
    const results = await session.run(feeds);
    for (const [key, { dims, data }] of Object.entries(json('expected.json'))) {
      assert.deepEqual([...results[key].dims], dims);
      data.forEach((want, i) => assert.ok(Math.abs(results[key].data[i] - want) < 1e-4));
    }
    await session.release();
  });
}

test('numbers with a seed repeat, and those without do not', async () => {
  const model = await parseModel(
    [
      'graph "random" opset 15',
      'input %x: float32[64]',
      '%a = RandomNormalLike(%x) {seed = 3.0}',
      '%b = RandomNormalLike(%x)',
      '%c = RandomNormalLike(%x)',
      '%d = RandomNormal() {shape = [64], seed = 3.0}',
      'output %a',
      'output %b',
      'output %c',
      'output %d',
    ].join('\n'),
  );
  const session = await InferenceSession.create(model);
  const x = new Tensor('float32', new Float32Array(64), [64]);
  const first = await session.run({ x });
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => Array.from(first[name].data));
  const second = await session.run({ x });
  assert.deepEqual(Array.from(second.a.data), a);
  assert.deepEqual(d, a);
  assert.notDeepEqual(Array.from(second.b.data), b);
  assert.notDeepEqual(b, c);
  // The generator gives the same bits on every machine (src/ops/random/generator.h).
  assert.equal(a.length, 64);
  const mean = a.reduce((sum, v) => sum + v, 0) / 64;
  assert.ok(Math.abs(mean) < 0.5);
  await session.release();
  model.dispose();
});

// Runs with bound tensors give the same results, without allocation and garbage.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  InferenceSession,
  Tensor,
  engineInfo,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { MODEL, calibration, testImages } from './support.mjs';

const samples = testImages(8);
const copyOf = ({ image }) => ({
  image: new Tensor('float32', image.data.slice(), [...image.dims]),
});

async function models() {
  const model = await loadModel(MODEL);
  return [model, await quantize(model, { calibration: calibration(4) })];
}

test('computes what run() does, again and again, other shapes in between', async () => {
  for (const model of await models()) {
    const session = await InferenceSession.create(model);
    const feeds = copyOf(samples[0]);
    const bound = session.bind(feeds);
    for (const sample of samples) {
      feeds.image.data.set(sample.image.data);
      bound.run();
      const kept = bound.outputs.logits.data.slice();
      assert.deepEqual(kept, (await session.run(sample)).logits.data);
    }
    // Enough shapes to drop the first plan from the cache.
    for (let batch = 2; batch < 9; batch++) {
      const image = new Tensor('float32', new Float32Array(784 * batch), [batch, 1, 28, 28]);
      await session.run({ image });
    }
    bound.run();
    assert.deepEqual(bound.outputs.logits.data, (await session.run(feeds)).logits.data);
    bound.dispose();
    bound.dispose();
    assert.throws(() => bound.run(), { code: 'DISPOSED' });
    session.dispose();
    model.dispose();
  }
});

test('outputs of the caller, for bind and for run', async () => {
  const session = await InferenceSession.create(MODEL);
  const expected = (await session.run(samples[1])).logits.data;
  const logits = new Tensor('float32', new Float32Array(10), [1, 10]);
  const bound = session.bind(samples[1], { logits });
  assert.equal(bound.outputs.logits, logits);
  bound.run();
  assert.deepEqual(logits.data, expected);
  logits.data.fill(0);
  const outputs = await session.run(samples[1], { logits });
  assert.equal(outputs.logits, logits);
  assert.deepEqual(logits.data, expected);

  const wrongShape = { logits: new Tensor('float32', new Float32Array(10), [10]) };
  const wrongType = { logits: new Tensor('int32', new Int32Array(10), [1, 10]) };
  for (const [wrong, code] of [
    [wrongShape, 'SHAPE_MISMATCH'],
    [wrongType, 'TYPE_MISMATCH'],
  ]) {
    assert.throws(() => session.bind(samples[1], wrong), { code });
    await assert.rejects(session.run(samples[1], wrong), { code });
  }
  assert.throws(() => session.bind({}), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => session.bind(samples[1], ['nothing']), { code: 'INVALID_ARGUMENT' });
  session.dispose();
  assert.throws(() => bound.run(), { code: 'DISPOSED' });
  bound.dispose();
});

test('memory goes back', async () => {
  const session = await InferenceSession.create(MODEL);
  const round = () => {
    const bound = session.bind(samples[0]);
    bound.run();
    assert.throws(() => session.bind({}));
    bound.dispose();
  };
  round();
  round();
  const { liveBytes } = await engineInfo();
  for (let at = 0; at < 10; at++) round();
  assert.equal((await engineInfo()).liveBytes, liveBytes);
  session.dispose();
});

test('a thousand runs leave nothing behind', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  for (const model of await models()) {
    const session = await InferenceSession.create(model);
    const bound = session.bind(samples[0]);
    // Let compilers and inline caches settle.
    for (let at = 0; at < 3000; at++) bound.run();
    const { liveBytes } = await engineInfo();
    // Allocations of the JavaScript engine itself affect some attempts, but not all.
    let least = Infinity;
    for (let attempt = 0; attempt < 20 && least > 2000; attempt++) {
      gc();
      const before = process.memoryUsage().heapUsed;
      for (let at = 0; at < 1000; at++) bound.run();
      least = Math.min(least, process.memoryUsage().heapUsed - before);
    }
    // The smallest object has 12 bytes: one per run would take six times as much.
    assert.ok(least <= 2000, `${least} bytes after 1000 runs`);
    assert.equal((await engineInfo()).liveBytes, liveBytes);
    bound.dispose();
    session.dispose();
    model.dispose();
  }
});

test('feeds whose buffer was transferred are refused, not read as they were', async () => {
  const session = await InferenceSession.create(MODEL);
  const feeds = copyOf(samples[0]);
  const bound = session.bind(feeds);
  bound.run();
  structuredClone(feeds.image.data, { transfer: [feeds.image.data.buffer] });
  const lost = { code: 'INVALID_ARGUMENT', value: 'image', message: /transferred/ };
  assert.throws(() => bound.run(), lost);
  assert.throws(() => session.bind(feeds), lost);
  await assert.rejects(session.run(feeds), lost);
  await session.run(samples[0]);
  session.dispose();
});

test('run() follows names, types and shapes that change from run to run', async () => {
  const text = `graph "sum" opset 13
input %a: float32[n, 2]
input %b: float32[n, 2]
%y = Sub(%a, %b)
output %y
`;
  const model = await parseModel(text);
  const session = await InferenceSession.create(model);
  const tensor = (n, first) =>
    new Tensor(
      'float32',
      Float32Array.from({ length: 2 * n }, (_, at) => first + at),
      [n, 2],
    );
  for (const [n, swapped] of [[1], [1], [3], [3, true], [3, true], [2], [1]]) {
    const a = tensor(n, 10);
    const b = tensor(n, 3);
    const { y } = await session.run(swapped ? { b, a } : { a, b });
    assert.deepEqual([y.dims, [...y.data]], [[n, 2], Array(2 * n).fill(7)]);
  }
  await assert.rejects(session.run({ a: tensor(1, 0), b: tensor(2, 0) }), {
    code: 'SHAPE_MISMATCH',
  });
  await assert.rejects(session.run({ a: tensor(1, 0) }), { code: 'INVALID_ARGUMENT' });
  const { y } = await session.run({ a: tensor(1, 5), b: tensor(1, 4) });
  assert.deepEqual([...y.data], [1, 1]);
  const { liveBytes } = await engineInfo();
  for (let n = 1; n < 20; n++)
    await session.run({ a: tensor(n % 3 || 3, 5), b: tensor(n % 3 || 3, 4) });
  assert.ok((await engineInfo()).liveBytes <= liveBytes + 200);
  session.dispose();
  model.dispose();
});

test('control flow can be bound where the shapes of its outputs are known', async () => {
  const text = `graph "branches" opset 13
input %x: float32[4]
%sum = ReduceSum(%x) {keepdims = 0}
const %zero: float32[] = {0.0}
%positive = Greater(%sum, %zero)
%y = If(%positive, %x, %x) {then_branch = { graph "" opset 13
capture %a: float32[4]
%z = Neg(%a)
output %z
}, else_branch = { graph "" opset 13
capture %a: float32[4]
%z = Abs(%a)
output %z
}}
output %y
`;
  const model = await parseModel(text);
  const session = await InferenceSession.create(model);
  const x = new Tensor('float32', new Float32Array([1, 2, 3, -4]), [4]);
  const bound = session.bind({ x });
  bound.run();
  assert.deepEqual([...bound.outputs.y.data], [-1, -2, -3, 4]);
  x.data[3] = -40;
  bound.run();
  assert.deepEqual([...bound.outputs.y.data], [1, 2, 3, 40]);
  bound.dispose();
  await session.release();
  model.dispose();
});

test('outputs whose shape depends on data cannot be bound', async () => {
  const text = `graph "data" opset 13
input %x: float32[4]
%places = NonZero(%x)
%y = Cast(%places) {to = 1}
output %y
`;
  const feeds = {
    x: new Tensor('float32', new Float32Array([1, 0, 2, 0]), [4]),
  };
  const model = await parseModel(text);
  const session = await InferenceSession.create(model);
  const { y } = await session.run(feeds);
  assert.deepEqual([...y.data], [0, 2]);
  assert.throws(
    () => session.bind(feeds),
    (error) => {
      assert.equal(error.code, 'UNSUPPORTED');
      assert.match(`${error.message} ${error.hint}`, /data/);
      return true;
    },
  );
  await session.release();
  model.dispose();
});

test('only tensors are filled, and those whose buffer was transferred are refused', async () => {
  const session = await InferenceSession.create(MODEL);
  const feeds = copyOf(samples[0]);
  const wrong = { code: 'INVALID_ARGUMENT', value: 'logits', message: /Tensor or null/ };
  for (const logits of [new Float32Array(10), 5]) {
    await assert.rejects(session.run(feeds, { logits }), wrong);
    assert.throws(() => session.bind(feeds, { logits }), wrong);
  }
  const target = () => new Tensor('float32', new Float32Array(10), [1, 10]);
  const transfer = ({ data: { buffer } }) => structuredClone(buffer, { transfer: [buffer] });
  const lost = { code: 'INVALID_ARGUMENT', value: 'logits', message: /transferred/ };
  const gone = target();
  transfer(gone);
  await assert.rejects(session.run(feeds, { logits: gone }), lost);
  const logits = target();
  const bound = session.bind(feeds, { logits });
  bound.run();
  transfer(logits);
  assert.throws(() => bound.run(), lost);
  await session.release();
});

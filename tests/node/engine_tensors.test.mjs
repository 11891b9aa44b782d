// Outputs with the location 'engine': they have the values of ordinary ones, wherever they are fed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  InferenceSession,
  RequantError,
  Tensor,
  createWorker,
  engineInfo,
  parseModel,
} from 'requant';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

// A past that grows by a row a run, as a decoder's, and a constant that depends on nothing.
const TEXT = `graph "g" opset 17
input %past: float32[n, 3]
input %row: float32[1, 3]
const %one: float32[1] = {1}
const %axis: int64[1] = {0}
%present = Concat(%past, %row) {axis = 0}
%sum = ReduceSum(%present, %axis) {keepdims = 0}
%next = Add(%sum, %one)
output %present
output %next
`;
// The number of non-zero elements depends on data, so nothing is prepared for the next run.
const OPEN = `graph "g" opset 17
input %x: float32[n, 3]
%where = NonZero(%x)
%twice = Add(%x, %x)
output %twice
output %where
`;

const floats = (values, dims) => new Tensor('float32', Float32Array.from(values), dims);
const refused = (code) => (error) => error instanceof RequantError && error.code === code;
const session = async (text, locations) =>
  InferenceSession.create(await parseModel(text), { preferredOutputLocation: locations });
const rowOf = (at) => floats([at, 0.5 * at, -at], [1, 3]);

let worker;
before(async () => (worker = await createWorker()));
after(() => worker.terminate());

test('a past in the engine grows as one outside', async () => {
  const inside = await session(TEXT, { present: 'engine' });
  const outside = await session(TEXT);
  let far = floats([], [0, 3]);
  let near = far;
  for (let at = 1; at < 12; at++) {
    const got = await inside.run({ past: far, row: rowOf(at) });
    const wanted = await outside.run({ past: near, row: rowOf(at) });
    assert.deepEqual(got.next, wanted.next);
    assert.equal(got.present.location, 'engine');
    assert.ok(got.present instanceof Tensor);
    const { type, dims, size } = wanted.present;
    assert.deepEqual([got.present.type, got.present.dims, got.present.size], [type, dims, size]);
    assert.deepEqual(await got.present.getData(), wanted.present.data);
    far.dispose();
    far = got.present;
    near = wanted.present;
  }
  // A session of another text, and one of another engine.
  const doubled = await (await session(OPEN, 'engine')).run({ x: far });
  assert.deepEqual(
    await doubled.twice.getData(),
    near.data.map((value) => 2 * value),
  );
  assert.equal(doubled.where.location, 'engine');
  const threaded = await InferenceSession.create((await parseModel(TEXT)).toOnnx(), {
    numThreads: 2,
  });
  const there = await threaded.run({ past: far, row: rowOf(0) });
  assert.deepEqual(there, await outside.run({ past: near, row: rowOf(0) }));
});

test('its data is outside after getData(true), and lost after dispose()', async () => {
  const inside = await session(TEXT, 'engine');
  const feeds = { past: floats([1, 2, 3], [1, 3]), row: rowOf(1) };
  const { present, next } = await inside.run(feeds);
  assert.throws(() => present.data, refused('UNSUPPORTED'));
  assert.throws(() => present.reshape([6]), refused('UNSUPPORTED'));
  const data = await present.getData(true);
  assert.equal(present.location, 'cpu');
  assert.equal(present.data, data);
  assert.deepEqual(present.reshape([6]).data, Float32Array.of(1, 2, 3, 1, 0.5, -1));
  present.dispose();
  assert.equal(present.data, data);

  next.dispose();
  next.dispose();
  assert.equal(next.location, 'none');
  assert.throws(() => next.data, refused('DISPOSED'));
  await assert.rejects(next.getData(), refused('DISPOSED'));
  const other = floats([0, 0, 0], [1, 3]);
  const { present: gone } = await inside.run(feeds);
  gone.dispose();
  await assert.rejects(inside.run({ past: gone, row: other }), refused('DISPOSED'));
  await assert.rejects(inside.run({ ...feeds, row: present }), refused('SHAPE_MISMATCH'));
  assert.equal((await inside.run(feeds)).present.size, 6);
  // It outlives its session.
  const last = await inside.run(feeds);
  inside.dispose();
  assert.deepEqual(await last.present.getData(), data);
});

test('empty tensors and scalars stay what they are', async () => {
  const text = `graph "g" opset 17
input %x: float32[n]
const %axes: int64[1] = {0}
%sum = ReduceSum(%x, %axes) {keepdims = 0}
%same = Relu(%x)
output %sum
output %same
`;
  const inside = await session(text, 'engine');
  const { sum, same } = await inside.run({ x: floats([], [0]) });
  assert.deepEqual([sum.dims, same.dims, sum.size, same.size], [[], [0], 1, 0]);
  assert.deepEqual(await same.getData(), new Float32Array(0));
  assert.deepEqual(await sum.getData(), Float32Array.of(0));
  assert.deepEqual((await inside.run({ x: same })).same.dims, [0]);
});

test('bound runs read and fill tensors in the engine', async () => {
  const text = `graph "g" opset 17
input %x: float32[4]
const %one: float32[1] = {1}
%y = Add(%x, %one)
output %y
`;
  const inside = await session(text, 'engine');
  const { y } = await inside.run({ x: floats([1, 2, 3, 4], [4]) });
  const bound = inside.bind({ x: y });
  bound.run();
  assert.equal(bound.outputs.y.location, 'engine');
  assert.deepEqual(await bound.outputs.y.getData(), Float32Array.of(3, 4, 5, 6));
  // The engine's memory moves when it grows.
  const model = await parseModel(
    'graph "g" opset 17\ninput %x: float32[n]\n%y = Relu(%x)\noutput %y\n',
  );
  const large = await InferenceSession.create(model);
  await large.run({ x: floats(new Float32Array(3e7), [3e7]) });
  bound.run();
  assert.deepEqual(await bound.outputs.y.getData(), Float32Array.of(3, 4, 5, 6));
  await bound.outputs.y.getData(true);
  bound.run();
  assert.deepEqual(bound.outputs.y.data, Float32Array.of(3, 4, 5, 6));
  y.dispose();
  assert.throws(() => bound.run(), refused('DISPOSED'));
  bound.dispose();
});

test('memory comes back, from forgotten tensors too', async () => {
  const inside = await session(TEXT, 'engine');
  const feeds = { past: floats(new Float32Array(30_000), [10_000, 3]), row: rowOf(1) };
  const step = async () => Object.values(await inside.run(feeds));
  for (const tensor of await step()) tensor.dispose();
  const live = async () => (await engineInfo()).liveBytes;
  const collected = async () => {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  };
  for (let i = 0; i < 5; i++) await collected(); // what other tests left
  const start = await live();
  for (let i = 0; i < 20; i++) for (const tensor of await step()) tensor.dispose();
  assert.equal(await live(), start);
  const [present] = await step();
  assert.ok((await live()) >= start + 120_000);
  await present.getData(true);
  for (let i = 0; i < 5; i++) await step();
  for (let i = 0; i < 50 && (await live()) > start; i++) await collected();
  assert.equal(await live(), start);
});

test('in a Worker they stay in its engine', async () => {
  const bytes = (await parseModel(TEXT)).toOnnx();
  const there = await worker.createSession(bytes, {
    preferredOutputLocation: { present: 'engine' },
  });
  const here = await session(TEXT, { present: 'engine' });
  let far = floats([], [0, 3]);
  let near = far;
  for (let at = 1; at < 6; at++) {
    const got = await there.run({ past: far, row: rowOf(at) });
    const wanted = await here.run({ past: near, row: rowOf(at) });
    assert.deepEqual(got.next, wanted.next);
    assert.equal(got.present.location, 'engine');
    assert.deepEqual(await got.present.getData(), await wanted.present.getData());
    far.dispose();
    far = got.present;
    near = wanted.present;
  }
  // A tensor of this thread's engine is copied for the Worker; one of a Worker is not seen here.
  const { next } = await there.run({ past: near, row: rowOf(0) });
  assert.deepEqual(next, (await here.run({ past: near, row: rowOf(0) })).next);
  await assert.rejects(here.run({ past: far, row: rowOf(0) }), refused('UNSUPPORTED'));
  await far.getData(true);
  assert.equal((await here.run({ past: far, row: rowOf(0) })).next.size, 3);
  const { present } = await there.run({ past: near, row: rowOf(0) });
  present.dispose();
  await assert.rejects(present.getData(), refused('DISPOSED'));
});

test('other locations are refused by name', async () => {
  await assert.rejects(session(TEXT, 'moon'), refused('INVALID_ARGUMENT'));
});

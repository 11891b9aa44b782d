// session.state(): what a session remembers from run to run, against onnxruntime-web, which is fed the past.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import ort from 'onnxruntime-web';
import { InferenceSession, SessionState, Tensor, parseModel } from 'requant';
import { Decoder } from 'requant/generate';
import { makeModels } from '../transformers/make.mjs';
import { MODELS } from '../transformers/package.mjs';

ort.env.wasm.numThreads = 1;

const file = (name) => readFileSync(path.join(MODELS, 'requant-test', name));
const TEXT = 'smol-llama/onnx/model.onnx';

before(() => makeModels(MODELS, ['fp32']));

const int64 = (values, dims) => new Tensor('int64', BigInt64Array.from(values, BigInt), dims);

/** The feeds of a batch of tokens behind `before` others. */
function feedsOf(session, rows, before) {
  const count = rows[0].length;
  const dims = [rows.length, count];
  const feeds = { input_ids: int64(rows.flat(), dims) };
  for (const name of session.inputNames) {
    if (name === 'attention_mask') {
      const all = before + count;
      feeds[name] = int64(Array(rows.length * all).fill(1), [rows.length, all]);
    }
    if (name === 'position_ids') {
      const places = rows.flatMap(() => Array.from({ length: count }, (_, at) => before + at));
      feeds[name] = int64(places, dims);
    }
  }
  return feeds;
}

/** The same run in onnxruntime-web, with `past` fed; returns logits and the new past. */
async function reference(session, feeds, past) {
  const all = {};
  for (const [name, { type, data, dims }] of Object.entries(feeds)) {
    all[name] = new ort.Tensor(type, data, dims);
  }
  const [batch] = feeds.input_ids.dims;
  for (const { name, type, shape } of session.inputMetadata) {
    if (!/^past/.test(name)) continue;
    const dims = shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === 0 ? batch : 0));
    all[name] = past[name] ?? new ort.Tensor(type, new Float32Array(0), dims);
  }
  const outputs = await session.run(all);
  const next = {};
  for (const [name, tensor] of Object.entries(outputs)) {
    if (/^present/.test(name)) next[name.replace(/^present/, 'past_key_values')] = tensor;
  }
  return { logits: outputs.logits, past: next };
}

function assertNear(got, wanted, tolerance = 1e-4) {
  assert.deepEqual([...got.dims], [...wanted.dims]);
  let worst = 0;
  got.data.forEach((value, at) => {
    worst = Math.max(worst, Math.abs(value - wanted.data[at]));
  });
  assert.ok(worst <= tolerance, `values differ by ${worst}`);
}

/** Rows [from] of every past tensor. */
function selected(past, from) {
  const next = {};
  for (const [name, { type, data, dims }] of Object.entries(past)) {
    const each = data.length / dims[0];
    const rows = from.flatMap((at) => [...data.subarray(at * each, (at + 1) * each)]);
    next[name] = new ort.Tensor(type, Float32Array.from(rows), [from.length, ...dims.slice(1)]);
  }
  return next;
}

test('runs remember the past, in place, for a batch and for beams', async () => {
  const session = await InferenceSession.create(file(TEXT));
  const theirs = await ort.InferenceSession.create(file(TEXT));
  const state = session.state();
  assert.ok(state instanceof SessionState);
  assert.equal(state.tokens, 0);
  let past = {};
  let rows = [
    [3, 14, 15, 9],
    [2, 7, 18, 28],
  ];
  let length = 0;
  const step = async () => {
    const feeds = feedsOf(session, rows, length);
    const outputs = await state.run(feeds);
    assert.deepEqual(Object.keys(outputs), ['logits']);
    const wanted = await reference(theirs, feeds, past);
    assertNear(outputs.logits, wanted.logits);
    past = wanted.past;
    length += rows[0].length;
    assert.equal(state.tokens, length);
  };
  await step();
  for (let i = 0; i < 6; i++) {
    rows = [[20 + i], [30 + i]];
    await step();
  }
  assert.ok(state.pairs().every(({ inPlace }) => inPlace));
  // The second beam goes on three times, the first one ends.
  state.select([1, 1, 1]);
  past = selected(past, [1, 1, 1]);
  rows = [[5], [6], [7]];
  await step();
  await step();
  assert.ok(state.plan().steps.length > 0);
  state.dispose();
  await assert.rejects(state.run({}), { code: 'DISPOSED' });
});

test('a state is cut, copied, saved and loaded', async () => {
  const session = await InferenceSession.create(file(TEXT));
  const state = session.state('auto', { capacity: 32 });
  assert.deepEqual(state.toTensors(), {});
  const run = async (one, tokens) =>
    (await one.run(feedsOf(session, [tokens], one.tokens), ['logits'])).logits;
  await run(state, [3, 14, 15, 9, 26]);
  const { bytes } = state;
  const twin = state.clone();
  const behind = await run(state, [40]);
  state.truncate(5);
  assert.deepEqual((await run(state, [40])).data, behind.data);
  assert.deepEqual((await run(twin, [40])).data, behind.data);
  assert.equal(state.bytes, bytes);
  // Another session of the model goes on with what was saved.
  state.truncate(5);
  const saved = state.toTensors();
  assert.equal(saved['past_key_values.0.key'].dims[2], 5);
  const other = (await InferenceSession.create(file(TEXT))).state();
  other.load(saved);
  assert.equal(other.tokens, 5);
  assert.deepEqual((await run(other, [40])).data, behind.data);
  state.truncate(0);
  assert.equal(state.tokens, 0);
  const fresh = session.state();
  assert.deepEqual((await run(state, [8])).data, (await run(fresh, [8])).data);
});

test('bad arguments are refused by name, and the state stays as it was', async () => {
  const session = await InferenceSession.create(file(TEXT));
  const past = 'past_key_values.0.key';
  const invalid = (value, message) => ({ code: 'INVALID_ARGUMENT', value, message });
  assert.throws(() => session.state(7), invalid('pairs', /'auto'/));
  assert.throws(() => session.state({}), invalid('pairs', /no output/));
  assert.throws(() => session.state({ logits: 'none' }), invalid('pairs', /no input "none"/));
  assert.throws(() => session.state({ none: past }), invalid('pairs', /no output "none"/));
  assert.throws(() => session.state('auto', { capacity: -1 }), invalid('capacity', /-1/));
  assert.throws(() => session.state('auto', { rooms: 1 }), { code: 'INVALID_ARGUMENT' });
  const state = session.state();
  await state.run(feedsOf(session, [[1, 2]], 0));
  const saved = state.toTensors();
  await assert.rejects(state.run({ ...feedsOf(session, [[1]], 2), [past]: saved[past] }), {
    ...invalid(past, /remembered/),
  });
  await assert.rejects(state.run({}), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(state.run(feedsOf(session, [[1]], 2), ['present.0.key']), {
    code: 'INVALID_ARGUMENT',
  });
  assert.throws(() => state.truncate(3), invalid('tokens', /3 of 2/));
  assert.throws(() => state.truncate(0.5), invalid('tokens', /0.5/));
  assert.throws(() => state.select([1]), { code: 'INVALID_ARGUMENT', message: /no sequence 1/ });
  assert.throws(() => state.select([]), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => state.select([0.5]), invalid('indices', /0.5/));
  assert.throws(() => state.load({}), invalid(past, /missing/));
  assert.throws(() => state.load({ ...saved, [past]: new Tensor('int64', [1n], [1]) }), {
    code: 'TYPE_MISMATCH',
  });
  const wrong = new Tensor('float32', [1, 2], [1, 1, 1, 2]);
  assert.throws(() => state.load({ ...saved, [past]: wrong }), { code: 'SHAPE_MISMATCH' });
  assert.equal(state.tokens, 2);
  assert.deepEqual(state.toTensors(), saved);
  await state.run(feedsOf(session, [[1]], 2));
  assert.equal(state.tokens, 3);
});

/** A decoder of one head: the keys of tokens are their embeddings. */
const head = (past) => `graph "" opset 17
input %input_ids: int64[1, N]
${past ? 'input %past_key_values.0.key: float32[1, P, 4]' : ''}
const %table: float32[6, 4] = {1, 0, 0, 1, 0, 1, 0, -1, 0, 0, 1, 0.5, 1, 1, 0, 0, 0, 1, 1, 0, -1, 0, 1, 0}
const %out: float32[4, 6] = {1, 0, 2, 0, -1, 1, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, -1}
%x = Gather(%table, %input_ids)
${past ? '%present.0.key = Concat(%past_key_values.0.key, %x) {axis = 1}' : '%present.0.key = Identity(%x)'}
%t = Transpose(%present.0.key) {perm = [0, 2, 1]}
%s = MatMul(%x, %t)
%p = Softmax(%s) {axis = -1}
%m = MatMul(%p, %present.0.key)
%logits = MatMul(%m, %out)
output %logits
output %present.0.key
`;

test('exports in two files, in place and in tensors', async () => {
  const main = await InferenceSession.create(await parseModel(head(true)));
  const first = await InferenceSession.create(await parseModel(head(false)));
  const wanted = new Decoder(main);
  const decoder = new Decoder(main, { first });
  // An object that only looks like a session has no state.
  const { inputNames, outputNames, inputMetadata, outputMetadata } = main;
  const remote = {
    inputNames,
    outputNames,
    inputMetadata,
    outputMetadata,
    run: (...rest) => main.run(...rest),
  };
  const inTensors = new Decoder(remote, { first });
  for (const tokens of [[1, 2, 3], [4], [5], [0, 1]]) {
    const logits = await wanted.append(tokens);
    const near = (got) =>
      got.forEach((value, at) =>
        assert.ok(Math.abs(value - logits[at]) < 1e-5, `${got}, ${logits}`),
      );
    near(await decoder.append(tokens));
    near(await inTensors.append(tokens));
    near(await new Decoder(main).append(decoder.tokens));
  }
  for (const one of [wanted, decoder, inTensors]) one.truncate(4);
  const logits = await wanted.append([2]);
  for (const one of [decoder, inTensors]) {
    const twin = one.clone();
    (await one.append([2])).forEach((value, at) => assert.ok(Math.abs(value - logits[at]) < 1e-5));
    assert.equal(twin.length, 4);
  }
  const state = main.state({ 'present.0.key': 'past_key_values.0.key' });
  await state.run({ input_ids: int64([1, 2], [1, 2]) });
  assert.deepEqual(
    state.pairs().map(({ axis, once, tokens, inPlace }) => ({ axis, once, tokens, inPlace })),
    [{ axis: 1, once: false, tokens: 2, inPlace: true }],
  );
});

test('sessions without open tokens have no state', async () => {
  const fixed = await InferenceSession.create(
    await parseModel(`graph "" opset 17
input %past_key_values.0.key: float32[1, 4]
%present.0.key = Relu(%past_key_values.0.key)
output %present.0.key
`),
  );
  assert.throws(() => fixed.state(), { code: 'UNSUPPORTED' });
});

// A Worker keeps the state of runs, also for decoders whose session is there.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { InferenceSession, Tensor, WorkerState, createWorker } from 'requant';
import { Decoder, generate } from 'requant/generate';
import { makeModels } from '../transformers/make.mjs';
import { MODELS } from '../transformers/package.mjs';

let bytes;
let worker;

before(async () => {
  makeModels(MODELS, ['fp32']);
  bytes = readFileSync(path.join(MODELS, 'requant-test/smol-llama/onnx/model.onnx'));
  worker = await createWorker();
});
after(() => worker.terminate());

const int64 = (values) =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);

/** The feeds of one sequence of tokens behind so many others. */
function feedsOf(session, tokens, past) {
  const feeds = { input_ids: int64(tokens) };
  if (session.inputNames.includes('attention_mask')) {
    feeds.attention_mask = int64(Array(past + tokens.length).fill(1));
  }
  if (session.inputNames.includes('position_ids')) {
    feeds.position_ids = int64(tokens.map((_, at) => past + at));
  }
  return feeds;
}

for (const bits of [32, 8]) {
  test(`a state of ${bits} bits in a Worker has the bits of one here`, async () => {
    const here = await InferenceSession.create(bytes);
    const there = await worker.createSession(bytes);
    const own = here.state('auto', { bits });
    const far = await there.state('auto', { capacity: 16, bits });
    assert.ok(far instanceof WorkerState);
    const step = async (tokens) => {
      const feeds = feedsOf(here, tokens, own.tokens);
      const wanted = await own.run(feeds);
      const got = await far.run(feeds);
      assert.deepEqual(Object.keys(got), Object.keys(wanted));
      assert.deepEqual(got.logits.data, wanted.logits.data);
      assert.equal(await far.tokens(), own.tokens);
    };
    await step([3, 14, 15, 9]);
    await step([2]);
    assert.deepEqual(await far.pairs(), own.pairs());
    assert.ok(own.pairs().every(({ codes }) => codes === (bits === 8)));
    assert.ok((await far.bytes()) > 0);
    assert.ok((await far.plan()).steps.length > 0);
    own.truncate(3);
    await far.truncate(3);
    await step([8, 1]);
    const twin = await far.clone();
    const saved = await far.toTensors();
    assert.deepEqual(saved, own.toTensors());
    await step([4]);
    assert.equal(await twin.tokens(), own.tokens - 1);
    await far.load(saved);
    own.load(saved);
    await far.select([0]);
    await step([7]);
    // Into a tensor of the caller.
    const feeds = feedsOf(here, [5], own.tokens);
    const { logits } = await own.run(feeds);
    const target = new Tensor('float32', new Float32Array(logits.size), logits.dims);
    const filled = await far.run(feeds, { logits: target });
    assert.equal(filled.logits, target);
    assert.deepEqual(target.data, logits.data);
    await assert.rejects(far.truncate(100), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(far.run(feeds, ['past']), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(there.state({ no: 'name' }), { code: 'INVALID_ARGUMENT' });
    await far.dispose();
    await assert.rejects(far.run(feeds), { code: 'DISPOSED' });
    assert.equal(await twin.tokens(), 5);
  });
}

test('a decoder in a Worker gives the tokens of one here', async () => {
  const here = await InferenceSession.create(bytes);
  const there = await worker.createSession(bytes);
  const collect = async (session) => {
    const ids = [];
    for await (const id of generate(session, [3, 14, 15], { maxNewTokens: 12 })) ids.push(id);
    return ids;
  };
  assert.deepEqual(await collect(there), await collect(here));
  const [own, far] = [new Decoder(here), new Decoder(there)];
  for (const decoder of [own, far]) await decoder.append([3, 14, 15, 9, 26]);
  for (const decoder of [own, far]) decoder.truncate(2);
  const twins = [own.clone(), far.clone()];
  assert.deepEqual(await far.append([4]), await own.append([4]));
  assert.deepEqual(await twins[1].append([9, 9]), await twins[0].append([9, 9]));
  far.dispose();
  await assert.rejects(far.append([1]), { code: 'DISPOSED' });
  assert.deepEqual(await twins[1].append([1]), await twins[0].append([1]));
});

test('a session of fixed shapes has no state in a Worker, either', async () => {
  const model = await worker.parseModel(`graph "" opset 17
input %past_key_values.0.key: float32[1, 4]
%present.0.key = Relu(%past_key_values.0.key)
output %present.0.key
`);
  const session = await worker.createSession(model);
  await assert.rejects(session.state(), { code: 'UNSUPPORTED' });
});

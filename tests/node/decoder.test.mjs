// requant/generate: decoders give token by token what onnxruntime-web gives for all tokens at once, and
// sampling draws what its options say.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import ort from 'onnxruntime-web';
import { InferenceSession, Tensor } from 'requant';
import { Decoder, generate } from 'requant/generate';
import { makeModels } from '../transformers/make.mjs';
import { MODELS } from '../transformers/package.mjs';

ort.env.wasm.numThreads = 1;

const file = (name) => readFileSync(path.join(MODELS, 'requant-test', name));
const TEXT = 'smol-llama/onnx/model';
const SPEECH = 'whisper-tiny/onnx/decoder_model_merged.onnx';
const PROMPT = [3, 14, 15, 9, 26, 5];

before(() => makeModels(MODELS, ['fp32', 'fp16', 'q4']));

/** The logits of onnxruntime-web behind all tokens, computed without a past. */
async function logitsOf(session, tokens, given = {}) {
  const feeds = { ...given };
  const int64 = (values, dims) => new ort.Tensor('int64', BigInt64Array.from(values, BigInt), dims);
  for (const { name, type, shape } of session.inputMetadata) {
    if (name in feeds) continue;
    if (name === 'use_cache_branch') {
      feeds[name] = new ort.Tensor('bool', Uint8Array.of(0), [1]);
    } else if (/^past/.test(name)) {
      const dims = shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === 0 ? 1 : 0));
      feeds[name] = new ort.Tensor(type, new Float32Array(0), dims);
    } else {
      const values = { attention_mask: () => 1, position_ids: (_, at) => at }[name];
      feeds[name] = int64(values ? tokens.map(values) : tokens, [1, tokens.length]);
    }
  }
  const { logits } = await session.run(feeds);
  return logits.data.slice(logits.data.length - logits.dims.at(-1));
}

const largest = (logits) => logits.indexOf(Math.max(...logits));

function assertNear(got, wanted, tolerance = 1e-4) {
  assert.equal(got.length, wanted.length);
  const worst = got.reduce((most, value, at) => Math.max(most, Math.abs(value - wanted[at])), 0);
  assert.ok(worst <= tolerance, `logits differ by ${worst}`);
}

async function collect(tokens) {
  const ids = [];
  for (;;) {
    const { value, done } = await tokens.next();
    if (done) return { ids, end: value };
    ids.push(value);
  }
}

test('a language model generates what onnxruntime-web computes without a past', async () => {
  const bytes = file(`${TEXT}.onnx`);
  const session = await InferenceSession.create(bytes);
  const theirs = await ort.InferenceSession.create(bytes);
  const { ids, end } = await collect(generate(session, PROMPT, { maxNewTokens: 40 }));
  assert.equal(end, 'length');
  assert.equal(ids.length, 40);
  for (const count of [0, 1, 2, 7, 20, 39]) {
    const logits = await logitsOf(theirs, [...PROMPT, ...ids.slice(0, count)]);
    assert.equal(ids[count], largest(logits), `token ${count}`);
  }
});

test('4-bit and half models generate', async () => {
  for (const form of ['_q4', '_fp16']) {
    const session = await InferenceSession.create(file(`${TEXT}${form}.onnx`));
    const decoder = new Decoder(session);
    const together = await new Decoder(session).append([...PROMPT, 7, 8]);
    await decoder.append(PROMPT);
    await decoder.append([7]);
    assertNear(await decoder.append([8]), together, form === '_q4' ? 1e-4 : 0.02);
  }
});

test('a decoder goes back, and two go on from one past', async () => {
  const bytes = file(`${TEXT}.onnx`);
  const session = await InferenceSession.create(bytes);
  const theirs = await ort.InferenceSession.create(bytes);
  const decoder = new Decoder(session);
  assertNear(await decoder.append(PROMPT), await logitsOf(theirs, PROMPT));
  const twin = decoder.clone();
  assertNear(await twin.append([40, 41]), await logitsOf(theirs, [...PROMPT, 40, 41]));
  assert.deepEqual(decoder.tokens, PROMPT);
  decoder.truncate(3);
  assert.equal(decoder.length, 3);
  assertNear(await decoder.append([8]), await logitsOf(theirs, [...PROMPT.slice(0, 3), 8]));
  decoder.truncate(0);
  assertNear(await decoder.append([5, 6]), await logitsOf(theirs, [5, 6]));
  // What was read stays read when a new generation begins.
  const { ids } = await collect(generate(decoder, [7], { maxNewTokens: 1 }));
  assert.deepEqual(decoder.tokens, [5, 6, 7]);
  assert.equal(ids[0], largest(await logitsOf(theirs, [5, 6, 7])));
});

test("the decoder of a speech model keeps the encoder's keys", async () => {
  const bytes = file(SPEECH);
  const session = await InferenceSession.create(bytes);
  const theirs = await ort.InferenceSession.create(bytes);
  const encoded = session.inputMetadata.find(({ name }) => name === 'encoder_hidden_states');
  const dims = [1, 100, encoded.shape[2]];
  const data = Float32Array.from({ length: 100 * dims[2] }, (_, i) => Math.sin(i * 0.37));
  const decoder = new Decoder(session, {
    feeds: { encoder_hidden_states: new Tensor('float32', data, dims) },
  });
  const feeds = { encoder_hidden_states: new ort.Tensor('float32', data, dims) };
  let tokens = [1, 2, 3];
  assertNear(await decoder.append(tokens), await logitsOf(theirs, tokens, feeds), 1e-3);
  for (const next of [30, 31, 32, 33, 34, 35, 36]) {
    tokens = [...tokens, next];
    assertNear(await decoder.append([next]), await logitsOf(theirs, tokens, feeds), 1e-3);
  }
  decoder.truncate(4);
  tokens = [...tokens.slice(0, 4), 50];
  assertNear(await decoder.append([50]), await logitsOf(theirs, tokens, feeds), 1e-3);
  assert.throws(() => new Decoder(session), {
    code: 'INVALID_ARGUMENT',
    value: 'encoder_hidden_states',
  });
});

/** A session whose logits are always the same. */
function constantModel(logits) {
  const one = { isTensor: true, type: 'float32' };
  const past = { ...one, name: 'past_key_values.0.key', shape: ['batch', 1, 'past', 1] };
  return {
    inputNames: ['input_ids', past.name],
    outputNames: ['logits', 'present.0.key'],
    inputMetadata: [{ ...one, name: 'input_ids', type: 'int64', shape: [1, 'n'] }, past],
    run: async ({ input_ids, [past.name]: before }) => {
      const length = before.dims[2] + input_ids.dims[1];
      return {
        logits: new Tensor('float32', logits, [1, 1, logits.length]),
        'present.0.key': new Tensor('float32', new Float32Array(length), [1, 1, length, 1]),
      };
    },
  };
}

const LOGITS = [1, 3, 2, -1, 2.5, 0];

/** How often each token comes, of 4000. */
async function shares(options) {
  const model = constantModel(LOGITS);
  const { ids } = await collect(generate(model, [0], { maxNewTokens: 4000, seed: 7, ...options }));
  return LOGITS.map((_, id) => ids.filter((one) => one === id).length / 4000);
}

/** The probabilities that options leave, by definition. */
function probabilities({ temperature, topK = LOGITS.length, topP = 1, suppress = [] }) {
  const weights = LOGITS.map((logit, id) =>
    suppress.includes(id) ? 0 : Math.exp(logit / temperature),
  );
  const order = weights.map((_, id) => id).sort((a, b) => weights[b] - weights[a]);
  const kept = order.slice(0, topK);
  const sum = (ids) => ids.reduce((total, id) => total + weights[id], 0);
  let count = 1;
  while (sum(kept.slice(0, count)) < topP * sum(kept)) count++;
  const left = kept.slice(0, count);
  return weights.map((weight, id) => (left.includes(id) ? weight / sum(left) : 0));
}

test('tokens are drawn with the probabilities that the options leave', async () => {
  for (const options of [
    { temperature: 1 },
    { temperature: 0.5 },
    { temperature: 2, topK: 3 },
    { temperature: 1, topP: 0.7 },
    { temperature: 1, topK: 4, topP: 0.9 },
    { temperature: 1, topK: 100, suppress: [1] },
  ]) {
    const got = await shares(options);
    probabilities(options).forEach((wanted, id) => {
      // Four standard deviations.
      const spread = 4 * Math.sqrt((wanted * (1 - wanted)) / 4000);
      const what = `${JSON.stringify(options)}: token ${id} came ${got[id]}, not ${wanted}`;
      assert.ok(Math.abs(got[id] - wanted) <= spread, what);
    });
  }
});

test('a seed draws the same tokens, another one others', async () => {
  const drawn = async (seed) =>
    (
      await collect(
        generate(constantModel(LOGITS), [0], { temperature: 1, seed, maxNewTokens: 50 }),
      )
    ).ids;
  assert.deepEqual(await drawn(3), await drawn(3));
  assert.notDeepEqual(await drawn(3), await drawn(4));
});

test('repetitions are made less probable', async () => {
  // 3 / 1.6 < 2.5, then 2.5 / 1.6 < 2.
  const options = { repetitionPenalty: 1.6, maxNewTokens: 3 };
  const { ids } = await collect(generate(constantModel(LOGITS), [0], options));
  assert.deepEqual(ids, [1, 4, 2]);
});

test('it stops at ids, by a signal, and where the caller leaves', async () => {
  const model = constantModel(LOGITS);
  assert.deepEqual(await collect(generate(model, [0], { stop: [5, 1] })), {
    ids: [1],
    end: 'stop',
  });
  const controller = new AbortController();
  const decoder = new Decoder(model);
  const tokens = generate(decoder, [0], { signal: controller.signal });
  await tokens.next();
  controller.abort();
  await assert.rejects(tokens.next(), { code: 'ABORTED' });
  for await (const id of generate(decoder, [0])) {
    assert.equal(id, 1);
    break;
  }
  assert.deepEqual(decoder.tokens, [0, 0]);
});

test('bad arguments are refused by name', async () => {
  const model = constantModel(LOGITS);
  const refused = (options) => collect(generate(model, [0], options));
  for (const [name, value] of Object.entries({
    temperature: -1,
    topK: 1.5,
    topP: 0,
    repetitionPenalty: 0,
    seed: -1,
    maxNewTokens: 0,
  })) {
    await assert.rejects(refused({ [name]: value }), { code: 'INVALID_ARGUMENT', value: name });
  }
  const decoder = new Decoder(model);
  await assert.rejects(decoder.append([]), { code: 'INVALID_ARGUMENT', value: 'tokens' });
  await assert.rejects(decoder.append([1, -2]), { code: 'INVALID_ARGUMENT', message: /-2/ });
  const first = decoder.append([1]);
  await assert.rejects(decoder.append([2]), { code: 'INVALID_ARGUMENT', message: /already/ });
  await first;
  assert.throws(() => decoder.truncate(2), { code: 'INVALID_ARGUMENT', value: 'length' });
  assert.throws(() => new Decoder({ ...model, outputNames: ['logits'] }), {
    code: 'INVALID_ARGUMENT',
    value: 'past_key_values.0.key',
  });
  assert.throws(() => new Decoder({ ...model, inputMetadata: [], inputNames: [] }), {
    code: 'INVALID_ARGUMENT',
    message: /input_ids/,
  });
  await assert.rejects(collect(generate(constantModel([NaN, NaN]), [0])), {
    code: 'INVALID_MODEL',
    value: 'logits',
  });
});

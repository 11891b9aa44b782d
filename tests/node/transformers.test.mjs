// @huggingface/transformers, unmodified, on this engine: its pipelines give what they give on onnxruntime-web, with
// models that tests/transformers makes.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { makeModels } from '../transformers/make.mjs';
import { MODELS, loadTransformers, skipTransformers } from '../transformers/package.mjs';
import { FORMS, offline, pipelines, runPipeline, toleranceOf } from '../transformers/pipelines.mjs';

const skip = skipTransformers();

/** What `device` must be for transformers.js to take the runtime of its slot. */
const device = 'auto';

const engines = {};

before(async () => {
  if (skip) return;
  makeModels(MODELS, FORMS);
  // The second import must not find the runtime of the first one.
  for (const engine of ['requant', 'onnxruntime-web']) {
    engines[engine] = offline(await loadTransformers(engine), `${MODELS}/`);
    engines[engine].env.logLevel = engines[engine].LogLevel?.ERROR;
  }
});

function assertNear(ours, theirs, what, tolerance) {
  assert.equal(ours.length, theirs.length, what);
  const worst = ours.reduce((most, value, at) => Math.max(most, Math.abs(value - theirs[at])), 0);
  assert.ok(worst <= tolerance, `${what}: they differ by ${worst}`);
  return worst;
}

for (const form of FORMS) {
  for (const task of Object.keys(pipelines)) {
    test(`${task}, ${form}`, { skip }, async (t) => {
      const options = { dtype: form, device };
      const ours = await runPipeline(engines.requant, task, options);
      const theirs = await runPipeline(engines['onnxruntime-web'], task, options);
      assert.deepEqual(ours.exact, theirs.exact);
      assert.ok(ours.exact.length > 0, 'the pipeline found nothing');
      const worst = assertNear(ours.numbers, theirs.numbers, 'numbers', toleranceOf(form));
      if (ours.numbers.length > 0) t.diagnostic(`largest difference ${worst.toExponential(1)}`);
    });
  }
}

test('chats, batches and streams of text', { skip }, async () => {
  const results = [];
  for (const transformers of Object.values(engines)) {
    const model = 'requant-test/smol-llama';
    const pipe = await transformers.pipeline('text-generation', model, { dtype: 'fp32', device });
    const streamed = [];
    const callback_function = (text) => streamed.push(text);
    const { tokenizer } = pipe;
    const streamer = new transformers.TextStreamer(tokenizer, { callback_function });
    const messages = [{ role: 'user', content: 'How hot is the water?' }];
    const chat = await pipe(messages, { max_new_tokens: 6, streamer });
    // Sentences of different lengths, so that one is padded.
    const batch = await pipe(['The first', 'No people said that'], { max_new_tokens: 5 });
    results.push({ chat, batch, streamed: streamed.join('') });
    await pipe.dispose();
  }
  assert.deepEqual(results[0], results[1]);
  assert.equal(results[0].chat[0].generated_text.at(-1).role, 'assistant');
});

test('transcripts with timestamps', { skip }, async () => {
  const results = [];
  for (const transformers of Object.values(engines)) {
    const model = 'requant-test/whisper-tiny';
    const task = 'automatic-speech-recognition';
    const pipe = await transformers.pipeline(task, model, { dtype: 'fp32', device });
    const audio = Float32Array.from({ length: 48000 }, (_, i) => Math.sin(i / (8 + (i >> 10))));
    const options = {
      return_timestamps: true,
      max_new_tokens: 8,
      chunk_length_s: 2,
      stride_length_s: 0.5,
    };
    results.push(await pipe(audio, options));
    await pipe.dispose();
  }
  assert.deepEqual(results[0], results[1]);
});

test('the operations that transformers.js runs as models of its own', { skip }, async () => {
  const operations = async ({ Tensor, interpolate_4d, matmul, rfft, slice, topk }) => {
    const numbers = Float32Array.from({ length: 48 }, (_, i) => Math.sin(i * i));
    const picture = new Tensor('float32', numbers, [1, 3, 4, 4]);
    const matrix = new Tensor('float32', numbers, [8, 6]);
    const one = (values) =>
      new Tensor('int64', BigInt64Array.from(values, BigInt), [values.length]);
    const results = [];
    for (const mode of ['nearest', 'bilinear', 'bicubic']) {
      results.push(await interpolate_4d(picture, { size: [7, 9], mode }));
    }
    results.push(await matmul(matrix, matrix.transpose(1, 0)));
    results.push(...(await topk(matrix, 3)));
    results.push(await slice(matrix, [1, 0], [7, 5], [0, 1], [2, 3]));
    results.push(await rfft(matrix, one([1]).squeeze()));
    return results.map(({ dims, data }) => ({ dims: [...dims], data: Array.from(data, Number) }));
  };
  const ours = await operations(engines.requant);
  const theirs = await operations(engines['onnxruntime-web']);
  assert.deepEqual(
    ours.map(({ dims }) => dims),
    theirs.map(({ dims }) => dims),
  );
  ours.forEach(({ data }, at) => assertNear(data, theirs[at].data, `operation ${at}`, 1e-5));
});

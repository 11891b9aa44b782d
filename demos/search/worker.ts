// The Worker: loads the model, turns texts into vectors, and finds those that are nearest to a question.

import { InferenceSession, Tensor } from 'requant';
import { type TokenizerFile, tokenizerOf } from './wordpiece.js';

/** From the page: texts to search in, or a question. */
export type Order = { texts: string[] } | { question: string };

/** To the page. */
export type News =
  | { progress: string }
  | { ready: { count: number; ms: number } }
  | { found: { text: string; score: number }[]; ms: number }
  | { error: string };

/** A MiniLM of six layers, with weights of 8 bits (Apache-2.0). */
const MODEL = 'https://huggingface.co/Xenova/all-MiniLM-L6-v2/resolve/main/';

const tell = (news: News) => postMessage(news);

async function load() {
  const get = async (name: string) => {
    const answer = await fetch(MODEL + name).catch(() => undefined);
    if (answer?.ok) return answer;
    const why = answer ? String(answer.status) : 'no network';
    throw new Error(`${name} cannot be fetched from huggingface.co (${why}). Try again later.`);
  };
  const [tokenizer, model] = await Promise.all([
    get('tokenizer.json').then((answer) => answer.json() as Promise<TokenizerFile>),
    get('onnx/model_quantized.onnx'),
  ]);
  const session = await InferenceSession.create(model, {
    onProgress: ({ phase, done, total }) => {
      if (phase !== 'download') return;
      const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
      const of = total ? ` of ${megabytes(total)}` : '';
      tell({ progress: `Fetching the model: ${megabytes(done)}${of} MB` });
    },
  });
  return { session, tokenize: tokenizerOf(tokenizer) };
}

let loading: ReturnType<typeof load> | undefined;
let kept: { text: string; vector: Float32Array }[] = [];

/** The mean over all tokens of the last layer, of length 1 (Reimers, Gurevych, arXiv:1908.10084). */
async function vectorOf(text: string): Promise<Float32Array> {
  const { session, tokenize } = await loading!;
  const ids = tokenize(text);
  const row = (value: (id: number) => number) =>
    new Tensor(
      'int64',
      BigInt64Array.from(ids, (id) => BigInt(value(id))),
      [1, ids.length],
    );
  const outputs = await session.run({
    input_ids: row((id) => id),
    attention_mask: row(() => 1),
    token_type_ids: row(() => 0),
  });
  const { data, dims } = outputs['last_hidden_state']!;
  const width = dims[2]!;
  const vector = new Float32Array(width);
  (data as Float32Array).forEach((value, at) => (vector[at % width]! += value));
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

async function obey(order: Order): Promise<void> {
  loading ??= load();
  await loading;
  const began = performance.now();
  if ('texts' in order) {
    kept = [];
    for (const [index, text] of order.texts.entries()) {
      tell({ progress: `Reading text ${index + 1} of ${order.texts.length} ...` });
      kept.push({ text, vector: await vectorOf(text) });
    }
    tell({ ready: { count: kept.length, ms: performance.now() - began } });
    return;
  }
  const wanted = await vectorOf(order.question);
  const found = kept.map(({ text, vector }) => ({
    text,
    score: vector.reduce((sum, value, at) => sum + value * wanted[at]!, 0),
  }));
  found.sort((a, b) => b.score - a.score);
  tell({ found, ms: performance.now() - began });
}

// Orders are obeyed one after another.
let last = Promise.resolve();
addEventListener('message', ({ data }: MessageEvent<Order>) => {
  last = last
    .then(() => obey(data))
    .catch((error: Error) => {
      loading = undefined;
      tell({ error: error.message });
    });
});

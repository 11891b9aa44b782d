// session.state(pairs, { bits: 8 }): a past in bytes, against onnxruntime-web, which is fed the rounded past.

import assert from 'node:assert/strict';
import test from 'node:test';
import ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from 'requant';
import { Decoder } from 'requant/generate';

ort.env.wasm.numThreads = 1;

const KV_HEADS = 2;
const WIDTH = 24;

/** A constant of the text form, with numbers from -1 to 1. */
function constant(name, rows, columns, seed) {
  const numbers = Array.from({ length: rows * columns }, (_, at) =>
    Math.sin(seed + at * 12.9898 * seed),
  );
  return `const %${name}: float32[${rows}, ${columns}] = {${numbers.map((x) => x.toFixed(4)).join(', ')}}`;
}

/** A decoder without layers around its attention: queries, keys and values are products of a table's rows. */
const around = ({ heads, text }) => `graph "" opset 17, com.microsoft 1
input %input_ids: int64[B, N]
input %attention_mask: int64[B, T]
input %past_key_values.0.key: float32[B, ${KV_HEADS}, P, ${WIDTH}]
input %past_key_values.0.value: float32[B, ${KV_HEADS}, P, ${WIDTH}]
${constant('table', 50, 16, 1)}
${constant('wq', 16, heads * WIDTH, 2)}
${constant('wk', 16, KV_HEADS * WIDTH, 3)}
${constant('wv', 16, KV_HEADS * WIDTH, 4)}
${constant('out', heads * WIDTH, 50, 5)}
%x = Gather(%table, %input_ids)
%q = MatMul(%x, %wq)
%k = MatMul(%x, %wk)
%v = MatMul(%x, %wv)
${text}
%logits = MatMul(%y, %out)
output %logits
output %present.0.key
output %present.0.value
`;

const byHead = (name, heads) => `
const %shape_${name}: int64[4] = {0, 0, ${heads}, ${WIDTH}}
%split_${name} = Reshape(%${name}, %shape_${name})
%${name}h = Transpose(%split_${name}) {perm = [0, 2, 1, 3]}`;

/** The products of attention as exporters write them behind a Concat; `repeat`: for twice as many heads. */
const products = (
  heads,
  repeat,
) => `${byHead('q', heads)}${byHead('k', KV_HEADS)}${byHead('v', KV_HEADS)}
%present.0.key = Concat(%past_key_values.0.key, %kh) {axis = 2}
%present.0.value = Concat(%past_key_values.0.value, %vh) {axis = 2}
${repeat ? '%keys = Concat(%present.0.key, %present.0.key) {axis = 1}' : ''}
${repeat ? '%values = Concat(%present.0.value, %present.0.value) {axis = 1}' : ''}
%turned = Transpose(%${repeat ? 'keys' : 'present.0.key'}) {perm = [0, 1, 3, 2]}
%scores = MatMul(%qh, %turned)
%p = Softmax(%scores) {axis = -1}
%m = MatMul(%p, %${repeat ? 'values' : 'present.0.value'})
%back = Transpose(%m) {perm = [0, 2, 1, 3]}
const %joined: int64[3] = {0, 0, ${heads * WIDTH}}
%y = Reshape(%back, %joined)`;

/** The forms in which a plan reads the past: an operator with a past, a fused one, and dense copies. */
const attentions = {
  operator: {
    heads: 4,
    text: `const %one: int64[] = {1}
const %axes: int64[1] = {1}
const %one32: int32[] = {1}
%dims = Shape(%attention_mask)
%all = Gather(%dims, %one)
%total = Cast(%all) {to = 6}
%sum = ReduceSum(%attention_mask, %axes) {keepdims = 0}
%sum32 = Cast(%sum) {to = 6}
%lengths = Sub(%sum32, %one32)
%y, %present.0.key, %present.0.value = com.microsoft::GroupQueryAttention(%q, %k, %v, %past_key_values.0.key, %past_key_values.0.value, %lengths, %total) {num_heads = 4, kv_num_heads = ${KV_HEADS}}`,
  },
  fused: { heads: KV_HEADS, text: products(KV_HEADS, false) },
  copies: { heads: 2 * KV_HEADS, text: products(2 * KV_HEADS, true) },
};

const int64 = (values, dims) => new Tensor('int64', BigInt64Array.from(values, BigInt), dims);

/** The feeds for a batch of tokens behind `before` others. */
function feedsOf(rows, before) {
  const all = before + rows[0].length;
  return {
    input_ids: int64(rows.flat(), [rows.length, rows[0].length]),
    attention_mask: int64(Array(rows.length * all).fill(1), [rows.length, all]),
  };
}

/** The outputs of onnxruntime-web for these feeds and this past. */
async function reference(session, feeds, past) {
  const all = {};
  for (const [name, { type, data, dims }] of Object.entries({ ...feeds, ...past })) {
    all[name] = new ort.Tensor(type, data, dims);
  }
  return session.run(all);
}

function decibels(got, wanted) {
  let power = 0;
  let error = 0;
  wanted.forEach((value, at) => {
    power += value ** 2;
    error += (got[at] - value) ** 2;
  });
  return 10 * Math.log10(power / error);
}

/** Holds each token of each head against the unrounded one: off by at most half of a 127th of its largest number. */
function assertRounded(got, wanted) {
  assert.deepEqual([...got.dims], [...wanted.dims]);
  for (let at = 0; at < got.data.length; at += WIDTH) {
    const exact = [...wanted.data.subarray(at, at + WIDTH)];
    const step = Math.max(...exact.map(Math.abs)) / 127;
    exact.forEach((value, i) => {
      const error = Math.abs(got.data[at + i] - value);
      assert.ok(error <= step * 0.501, `${error} of ${step} at ${at + i}`);
    });
  }
}

for (const [name, attention] of Object.entries(attentions)) {
  test(`a past in 8 bits, ${name}`, async () => {
    const model = await parseModel(around(attention));
    const session = await InferenceSession.create(model);
    const theirs = await ort.InferenceSession.create(model.toOnnx());
    const state = session.state('auto', { bits: 8 });
    const floats = session.state();
    const empty = new Tensor('float32', new Float32Array(0), [2, KV_HEADS, 0, WIDTH]);
    let past = { 'past_key_values.0.key': empty, 'past_key_values.0.value': empty };
    let rows = [
      [3, 14, 15, 9, 26],
      [2, 7, 18, 28, 1],
    ];
    const step = async () => {
      const feeds = feedsOf(rows, state.tokens);
      const { logits } = await state.run(feeds);
      const wanted = await reference(theirs, feeds, past);
      // Products read the new tokens as codes, too.
      const least = name === 'operator' ? 100 : 30;
      const db = decibels(logits.data, wanted.logits.data);
      assert.ok(db > least, `${db} dB`);
      past = state.toTensors();
      assertRounded(past['past_key_values.0.key'], wanted['present.0.key']);
      assertRounded(past['past_key_values.0.value'], wanted['present.0.value']);
      await floats.run(feeds);
      return logits.data;
    };
    await step();
    for (let i = 0; i < 5; i++) {
      rows = [[20 + i], [30 + i]];
      await step();
    }
    assert.ok(state.pairs().every(({ inPlace, codes }) => inPlace && codes));
    assert.ok(floats.pairs().every(({ inPlace, codes }) => inPlace && !codes));
    // A byte for each float, and a scale for each token.
    assert.equal(state.bytes / floats.bytes, (WIDTH + 4) / (4 * WIDTH));
    const operators = state.plan().steps.map(({ op }) => op);
    assert.equal(operators.includes('DenseCopy'), name === 'copies');
    assert.ok(operators.some((op) => op.includes('Attention')));

    state.truncate(6);
    floats.truncate(6);
    past = Object.fromEntries(
      Object.entries(past).map(([key, { data, dims }]) => {
        const [, , tokens] = dims;
        const kept = data.filter((_, at) => Math.floor(at / WIDTH) % tokens < 6);
        return [key, new Tensor('float32', kept, [2, KV_HEADS, 6, WIDTH])];
      }),
    );
    const twin = state.clone();
    rows = [[40], [41]];
    const cut = await step();
    assert.deepEqual((await twin.run(feedsOf(rows, 6))).logits.data, cut);
    // Saved tensors are floats, which become the same codes again.
    const saved = state.toTensors();
    const other = session.state('auto', { bits: 8 });
    other.load(saved);
    const next = feedsOf([[5], [6]], 7);
    const { logits } = await state.run(next);
    const again = (await other.run(next)).logits;
    assert.ok(decibels(again.data, logits.data) > 100);
    state.select([1]);
    assert.deepEqual(state.toTensors()['past_key_values.0.key'].dims, [1, KV_HEADS, 8, WIDTH]);
  });
}

test('a decoder takes the option, and wrong ones are refused', async () => {
  const session = await InferenceSession.create(await parseModel(around(attentions.operator)));
  const decoder = new Decoder(session, { bits: 8 });
  const exact = new Decoder(session);
  for (const tokens of [[1, 2, 3], [4], [5]]) {
    const [got, wanted] = [await decoder.append(tokens), await exact.append(tokens)];
    const db = decibels(got, wanted);
    assert.ok(db > 25, `${db} dB`);
    if (tokens.length === 1) assert.notDeepEqual(got, wanted);
  }
  assert.throws(() => session.state('auto', { bits: 4 }), {
    code: 'INVALID_ARGUMENT',
    value: 'bits',
  });
  const { inputNames, outputNames, inputMetadata, outputMetadata } = session;
  const foreign = { inputNames, outputNames, inputMetadata, outputMetadata, run: () => {} };
  assert.throws(() => new Decoder(foreign, { bits: 8 }), { value: 'bits' });
});

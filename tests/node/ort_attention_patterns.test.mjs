// Attention that exporters decompose into operators of ONNX becomes one operator. It is compared with ONNX
// Runtime's run of the original file.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseModel } from '../../dist/index.js';
import {
  TOLERANCE,
  check,
  difference,
  feedsOf,
  graph,
  runOurs,
  runTheirs,
} from './ort_operators.mjs';

describe('attention written out', () => {
  /** A self-attention as PyTorch exports it; `open`: batch and length are symbols. */
  const block = (opset, mask) => {
    const inputs = { x: 'float32[2, 9, 16]', ...(mask && { m: 'float32[2, 1, 1, 9]' }) };
    const weights = feedsOf(
      { q: 'float32[16, 16]', k: 'float32[16, 16]', v: 'float32[16, 16]' },
      3,
    );
    const body = [
      ...weights.map(
        ({ name, data }) =>
          `const %w${name}: float32[16, 16] = {${[...data].map((x) => x.toFixed(6)).join(', ')}}`,
      ),
      'const %apart: int64[4] = {0, 0, 4, 4}',
      'const %joined: int64[3] = {0, 0, 16}',
      'const %two: float32[] = {2.0}',
      ...['q', 'k', 'v'].flatMap((name) => [
        `%${name}2 = MatMul(%x, %w${name})`,
        `%${name}4 = Reshape(%${name}2, %apart)`,
        `%${name} = Transpose(%${name}4) {perm = [${name === 'k' ? '0, 2, 3, 1' : '0, 2, 1, 3'}]}`,
      ]),
      '%raw = MatMul(%q, %k)',
      '%scaled = Div(%raw, %two)',
      ...(mask ? ['%scores = Add(%scaled, %m)'] : ['%scores = Identity(%scaled)']),
      '%p = Softmax(%scores) {axis = 3}',
      '%mixed = MatMul(%p, %v)',
      '%back = Transpose(%mixed) {perm = [0, 2, 1, 3]}',
      '%y = Reshape(%back, %joined)',
    ];
    return [graph(opset, inputs, body, ['y']), inputs];
  };
  for (const [opset, mask] of [
    [12, true],
    [17, true],
    [17, false],
    [23, true],
  ]) {
    test(`becomes one operator, opset ${opset}${mask ? ', with a mask' : ''}`, async () => {
      const [text, inputs] = block(opset, mask);
      const { model } = await check(text, inputs, ['y'], { fast: true });
      assert.match(model, opset < 23 ? /com\.microsoft::MultiHeadAttention\(/ : /= Attention\(/);
    });
  }

  test('with a causal mask cut out for open lengths, as GPT-2 has it', async () => {
    const square = Array.from({ length: 256 }, (_, i) => Number(i % 16 <= Math.floor(i / 16)));
    const text = graph(
      17,
      { x: 'float32[N, L, 16]', pk: 'float32[N, 4, P, 4]', pv: 'float32[N, 4, P, 4]' },
      [
        `const %square: bool[1, 1, 16, 16] = {${square.join(', ')}}`,
        'const %apart: int64[4] = {0, 0, 4, 4}',
        'const %joined: int64[3] = {0, 0, 16}',
        'const %half: float32[] = {2.0}',
        'const %far: float32[] = {-3.4028234663852886e+38}',
        'const %at: int64[] = {-2}',
        'const %zero: int64[1] = {0}',
        'const %rows: int64[1] = {2}',
        'const %columns: int64[1] = {3}',
        '%x4 = Reshape(%x, %apart)',
        '%q = Transpose(%x4) {perm = [0, 2, 1, 3]}',
        '%k = Concat(%pk, %q) {axis = 2}',
        '%v = Concat(%pv, %q) {axis = 2}',
        '%kt = Transpose(%k) {perm = [0, 1, 3, 2]}',
        '%raw = MatMul(%q, %kt)',
        '%scaled = Div(%raw, %half)',
        '%qs = Shape(%q)',
        '%s = Gather(%qs, %at)',
        '%ks = Shape(%k)',
        '%t = Gather(%ks, %at)',
        '%p = Sub(%t, %s)',
        '%first = Unsqueeze(%p, %zero)',
        '%last = Unsqueeze(%t, %zero)',
        '%band = Slice(%square, %first, %last, %rows)',
        '%mask = Slice(%band, %zero, %last, %columns)',
        '%masked = Where(%mask, %scaled, %far)',
        '%weights = Softmax(%masked) {axis = 3}',
        '%mixed = MatMul(%weights, %v)',
        '%back = Transpose(%mixed) {perm = [0, 2, 1, 3]}',
        '%y = Reshape(%back, %joined)',
      ],
      ['y'],
    );
    const model = await parseModel(text);
    const bytes = model.toOnnx();
    const made = await parseModel(text);
    made.optimize();
    assert.match(made.toText(), /com\.microsoft::MultiHeadAttention\(/);
    for (const [tokens, past] of [
      [5, 0],
      [1, 6],
      [3, 13],
    ]) {
      const past4 = `float32[2, 4, ${past}, 4]`;
      const feeds = feedsOf({ x: `float32[2, ${tokens}, 16]`, pk: past4, pv: past4 }, 5);
      const theirs = await runTheirs(bytes, feeds);
      const ours = await runOurs(model, feeds);
      assert.ok(difference(ours.results, theirs, ['y']) < TOLERANCE);
      assert.ok(difference(await runTheirs(made.toOnnx(), feeds), theirs, ['y']) < TOLERANCE);
      const steps = ours.kernels.join();
      assert.match(steps, /MultiHeadAttention conv_f32/);
    }
    model.dispose();
    made.dispose();
  });

  test('as nn.MultiheadAttention has it, for an open number of images before opset 23', async () => {
    const text = graph(
      17,
      { q: 'float32[S, N, 16]', k: 'float32[T, N, 16]', v: 'float32[T, N, 16]' },
      [
        'const %first: int64[] = {0}',
        'const %second: int64[] = {1}',
        'const %four: int64[] = {4}',
        'const %axes: int64[1] = {0}',
        'const %width: int64[1] = {4}',
        'const %all: int64[1] = {16}',
        'const %rest: int64[1] = {-1}',
        'const %half: float32[] = {0.5}',
        '%shape = Shape(%q)',
        '%tokens = Gather(%shape, %first)',
        '%images = Gather(%shape, %second)',
        '%heads = Mul(%images, %four)',
        '%tokens1 = Unsqueeze(%tokens, %axes)',
        '%images1 = Unsqueeze(%images, %axes)',
        '%heads1 = Unsqueeze(%heads, %axes)',
        '%apart = Concat(%tokens1, %heads1, %width) {axis = 0}',
        '%others = Concat(%rest, %heads1, %width) {axis = 0}',
        '%joined = Concat(%tokens1, %images1, %all) {axis = 0}',
        '%q3 = Reshape(%q, %apart)',
        '%qh = Transpose(%q3) {perm = [1, 0, 2]}',
        '%scaled = Mul(%qh, %half)',
        '%k3 = Reshape(%k, %others)',
        '%kt = Transpose(%k3) {perm = [1, 2, 0]}',
        '%v3 = Reshape(%v, %others)',
        '%vh = Transpose(%v3) {perm = [1, 0, 2]}',
        '%scores = MatMul(%scaled, %kt)',
        '%weights = Softmax(%scores) {axis = -1}',
        '%mixed = MatMul(%weights, %vh)',
        '%back = Transpose(%mixed) {perm = [1, 0, 2]}',
        '%y = Reshape(%back, %joined)',
      ],
      ['y'],
    );
    const model = await parseModel(text);
    const bytes = model.toOnnx();
    for (const [images, tokens, keys] of [
      [2, 5, 5],
      [3, 1, 7],
    ]) {
      const kv = `float32[${keys}, ${images}, 16]`;
      const feeds = feedsOf({ q: `float32[${tokens}, ${images}, 16]`, k: kv, v: kv }, 6);
      const ours = await runOurs(model, feeds);
      assert.ok(difference(ours.results, await runTheirs(bytes, feeds), ['y']) < TOLERANCE);
      assert.deepEqual(
        ours.kernels.map((step) => step.split(' ')[0]),
        ['MultiHeadAttention'],
      );
    }
    model.dispose();
  });
});

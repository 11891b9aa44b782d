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

  /**
   * A decoder's layer with rotary embedding, whose 6 heads of queries share `kvHeads` of keys that Expand repeats, as
   * transformers write it (eager attention); `form`: cap, sinks, flat (keys are turned in three dimensions).
   */
  const rotary = (opset, kvHeads, form = {}) => {
    const repeat = (name) => [
      `%${name}u = Unsqueeze(%${name}, %two)`,
      `%${name}e = Expand(%${name}u, %copies)`,
      `%${name}r = Reshape(%${name}e, %heads)`,
    ];
    const rotated = (name) => [
      `%${name}a = Slice(%${name}, %none, %half, %at)`,
      `%${name}b = Slice(%${name}, %half, %full, %at)`,
      `%${name}n = Neg(%${name}b)`,
      `%${name}o = Concat(%${name}n, %${name}a) {axis = -1}`,
      `%${name}c = Mul(%${name}, %cos)`,
      `%${name}s = Mul(%${name}o, %sin)`,
      `%${name}t = Add(%${name}c, %${name}s)`,
    ];
    const apart = (name, heads) => [
      `const %${name}sizes: int64[4] = {0, 0, ${heads}, 4}`,
      `%${name}4 = Reshape(%${name}x, %${name}sizes)`,
      `%${name} = Transpose(%${name}4) {perm = [0, 2, 1, 3]}`,
    ];
    const body = [
      ...[
        'none: int64[1] = {0}',
        'one: int64[1] = {1}',
        'two: int64[1] = {2}',
        'at: int64[1] = {3}',
      ],
      ...['half: int64[1] = {2}', 'full: int64[1] = {4}', `times: int64[1] = {${6 / kvHeads}}`],
      ...['six: int64[1] = {6}', 'scale: float32[] = {0.5}', 'cap: float32[] = {1.5}'],
      ...['last: int64[1] = {-1}', 'joined: int64[3] = {0, 0, 24}', 'flat: int64[1] = {-1}'],
      'sinks: float32[1, 6, 1, 1] = {0.5, -1, 2, 0, 1.25, -3}',
    ].map((text) => `const %${text}`);
    body.push(...apart('q', 6), ...apart('k0', kvHeads), ...apart('v0', kvHeads));
    body.push(...rotated('q'), ...rotated('k0'));
    body.push('%k = Concat(%pk, %k0t) {axis = 2}', '%v = Concat(%pv, %v0) {axis = 2}');
    body.push(
      '%shape = Shape(%k)',
      '%front = Slice(%shape, %none, %two)',
      '%images = Slice(%shape, %none, %one)',
      '%tokens = Slice(%shape, %two, %at)',
      '%rest = Slice(%shape, %two, %full)',
      '%copies = Concat(%front, %times, %rest) {axis = 0}',
      '%heads = Concat(%images, %six, %rest) {axis = 0}',
      ...repeat('k'),
      ...repeat('v'),
    );
    if (form.flat) {
      body.push(
        '%three = Concat(%flat, %rest) {axis = 0}',
        '%turned = Concat(%images, %six, %full, %tokens) {axis = 0}',
        '%kf = Reshape(%kr, %three)',
        '%kg = Transpose(%kf) {perm = [0, 2, 1]}',
        '%kt = Reshape(%kg, %turned)',
      );
    } else {
      body.push('%kt = Transpose(%kr) {perm = [0, 1, 3, 2]}');
    }
    body.push('%raw = MatMul(%qt, %kt)', '%scaled = Mul(%raw, %scale)');
    if (form.cap) body.push('%d = Div(%scaled, %cap)', '%e = Tanh(%d)', '%capped = Mul(%e, %cap)');
    body.push(`%scores = Add(${form.cap ? '%capped' : '%scaled'}, %m)`);
    if (form.sinks) {
      body.push(
        '%queries = Shape(%qt)',
        '%rows = Slice(%queries, %two, %at)',
        '%each = Concat(%images, %one, %rows, %one) {axis = 0}',
        '%spread = Expand(%sinks, %each)',
        '%all = Concat(%scores, %spread) {axis = -1}',
        opset < 18 ? '%top = ReduceMax(%all) {axes = [-1]}' : '%top = ReduceMax(%all, %last)',
        '%low = Sub(%all, %top)',
        '%whole = Softmax(%low) {axis = -1}',
        '%p = Slice(%whole, %none, %last, %at)',
      );
    } else {
      body.push('%p = Softmax(%scores) {axis = -1}');
    }
    body.push('%mixed = MatMul(%p, %vr)', '%back = Transpose(%mixed) {perm = [0, 2, 1, 3]}');
    body.push('%y = Reshape(%back, %joined)');
    const past = `float32[N, ${kvHeads}, P, 4]`;
    const inputs = {
      ...{ qx: 'float32[N, L, 24]', k0x: `float32[N, L, ${4 * kvHeads}]` },
      ...{ v0x: `float32[N, L, ${4 * kvHeads}]`, m: 'float32[N, 1, L, T]' },
      ...{ pk: past, pv: past, cos: 'float32[1, 1, L, 4]', sin: 'float32[1, 1, L, 4]' },
    };
    return graph(opset, inputs, body, ['y', 'k', 'v']);
  };

  for (const [opset, kvHeads, form] of [
    [14, 6, {}],
    [14, 3, {}],
    [14, 1, {}],
    [17, 2, { flat: true }],
    [17, 3, { cap: true }],
    [17, 2, { sinks: true }],
    [18, 3, { sinks: true, cap: true, flat: true }],
    [23, 3, {}],
    [23, 2, { cap: true, sinks: true }],
  ]) {
    const named = Object.keys(form).join(', ');
    test(`with rotary embedding, opset ${opset}, ${kvHeads} heads of keys ${named}`, async () => {
      const model = await parseModel(rotary(opset, kvHeads, form));
      const bytes = model.toOnnx();
      for (const [images, tokens, past] of [
        [2, 5, 0],
        [1, 1, 6],
        [1, 1, 7],
        [1, 1, 8],
        [2, 3, 13],
      ]) {
        const columns = `float32[${images}, ${tokens}, ${4 * kvHeads}]`;
        const kept = `float32[${images}, ${kvHeads}, ${past}, 4]`;
        const turn = `float32[1, 1, ${tokens}, 4]`;
        const feeds = feedsOf(
          {
            ...{ qx: `float32[${images}, ${tokens}, 24]`, k0x: columns, v0x: columns },
            ...{ m: `float32[${images}, 1, ${tokens}, ${past + tokens}]` },
            ...{ pk: kept, pv: kept, cos: turn, sin: turn },
          },
          7,
        );
        const ours = await runOurs(model, feeds);
        const theirs = await runTheirs(bytes, feeds);
        assert.ok(difference(ours.results, theirs, ['y', 'k', 'v']) < TOLERANCE);
        const steps = ours.kernels.join();
        assert.match(steps, /(Heads)?Attention conv_f32/);
        assert.doesNotMatch(steps, /Softmax|Expand|Unsqueeze|MatMul/);
      }
      model.dispose();
    });
  }
});

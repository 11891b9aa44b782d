// Attention operators against ONNX Runtime on equal inputs: in the session (fast kernels), and in the files
// that the optimizer writes.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InferenceSession, parseModel } from '../../dist/index.js';
import {
  TOLERANCE,
  check,
  difference,
  feedsOf,
  graph,
  runOurs,
  runTheirs,
} from './ort_operators.mjs';

const qkv = (q, kv = q) => ({
  q: `float32[${q}]`,
  k: `float32[${kv}]`,
  v: `float32[${kv}]`,
});

describe('operators of ONNX', () => {
  const cases = {
    'three dimensions': [qkv('2, 5, 12', '2, 7, 12'), '', 'q_num_heads = 3, kv_num_heads = 3'],
    causal: [qkv('2, 5, 12'), '', 'q_num_heads = 3, kv_num_heads = 3, is_causal = 1'],
    'heads that share keys': [
      { q: 'float32[2, 5, 24]', k: 'float32[2, 5, 8]', v: 'float32[2, 5, 8]' },
      '',
      'q_num_heads = 6, kv_num_heads = 2, scale = 0.4',
    ],
    'numbers as a mask': [
      { ...qkv('2, 5, 12', '2, 7, 12'), m: 'float32[5, 7]' },
      '%m',
      'q_num_heads = 3, kv_num_heads = 3',
    ],
    'a mask for every head': [
      { ...qkv('2, 5, 12', '2, 7, 12'), m: 'float32[2, 3, 5, 7]' },
      '%m',
      'q_num_heads = 3, kv_num_heads = 3',
    ],
    'a boolean mask': [
      { ...qkv('2, 5, 12', '2, 7, 12'), m: 'bool[5, 7]' },
      '%m',
      'q_num_heads = 3, kv_num_heads = 3',
    ],
    'a cap': [
      { ...qkv('2, 5, 12', '2, 7, 12') },
      '',
      'q_num_heads = 3, kv_num_heads = 3, softcap = 0.5',
    ],
    'four dimensions': [qkv('2, 3, 5, 4', '2, 3, 7, 4'), '', 'scale = 0.7'],
  };
  for (const [name, [inputs, more, attributes]] of Object.entries(cases)) {
    test(`Attention: ${name}`, () =>
      check(
        graph(
          23,
          inputs,
          [`%y = Attention(%q, %k, %v${more ? `, ${more}` : ''}) {${attributes}}`],
          ['y'],
        ),
        inputs,
        ['y'],
        { fast: true },
      ));
  }

  test('Attention: a past', () => {
    const inputs = {
      ...qkv('2, 3, 8'),
      pk: 'float32[2, 2, 4, 4]',
      pv: 'float32[2, 2, 4, 4]',
    };
    const body = [
      '%y, %nk, %nv = Attention(%q, %k, %v, _, %pk, %pv) {q_num_heads = 2, kv_num_heads = 2}',
    ];
    return check(graph(23, inputs, body, ['y', 'nk', 'nv']), inputs, ['y', 'nk', 'nv'], {
      fast: true,
    });
  });

  for (const mode of [0, 3]) {
    test(`Attention: scores as an output, mode ${mode}`, () => {
      const inputs = qkv('1, 2, 5, 4');
      const body = [`%y, _, _, %s = Attention(%q, %k, %v) {qk_matmul_output_mode = ${mode}}`];
      return check(graph(23, inputs, body, ['y', 's']), inputs, ['y', 's']);
    });
  }

  const rotary = {
    'three dimensions': ['2, 3, 16', 'num_heads = 2', true],
    interleaved: ['2, 3, 16', 'num_heads = 2, interleaved = 1', true],
    'four dimensions': ['2, 2, 3, 8', '', true],
    'a part of the head': ['2, 2, 3, 12', 'rotary_embedding_dim = 8', true],
    'caches by token': ['2, 2, 3, 8', '', false],
  };
  for (const [name, [shape, attributes, listed]] of Object.entries(rotary)) {
    test(`RotaryEmbedding: ${name}`, () => {
      const caches = listed ? '10, 4' : '2, 3, 4';
      const inputs = {
        x: `float32[${shape}]`,
        c: `float32[${caches}]`,
        s: `float32[${caches}]`,
        ...(listed && { p: ['int64[2, 3]', [0, 1, 2, 7, 8, 9]] }),
      };
      const call = `RotaryEmbedding(%x, %c, %s${listed ? ', %p' : ''})`;
      const body = [`%y = ${call}${attributes && ` {${attributes}}`}`];
      return check(graph(23, inputs, body, ['y']), inputs, ['y']);
    });
  }

  test('Attention: lengths of a cache', () => {
    const inputs = { ...qkv('2, 2, 3, 4', '2, 2, 7, 4'), n: ['int64[2]', [4, 7]] };
    const body = ['%y = Attention(%q, %k, %v, _, _, _, %n)'];
    return check(graph(24, inputs, body, ['y']), inputs, ['y'], { fast: true });
  });

  for (const mode of ['linear', 'circular']) {
    test(`TensorScatter, ${mode}`, () => {
      const places = mode === 'linear' ? [1, 4] : [5, 2];
      const inputs = {
        c: 'float32[2, 3, 6, 4]',
        u: 'float32[2, 3, 2, 4]',
        i: ['int64[2]', places],
      };
      const body = [`%y = TensorScatter(%c, %u, %i) {mode = "${mode}"}`];
      return check(graph(24, inputs, body, ['y']), inputs, ['y']);
    });
  }

  test('Swish', () => {
    const inputs = { x: 'float32[2, 5, 9]' };
    const body = ['%y = Swish(%x) {alpha = 1.3}'];
    return check(graph(24, inputs, body, ['y']), inputs, ['y']);
  });

  test('RMSNormalization', () => {
    const inputs = { x: 'float32[2, 5, 9]', w: 'float32[9]' };
    const body = ['%y = RMSNormalization(%x, %w) {epsilon = 0.01}'];
    return check(graph(23, inputs, body, ['y']), inputs, ['y']);
  });
});

describe('operators of com.microsoft', () => {
  const call = (op, operands, attributes) => `com.microsoft::${op}(${operands}) {${attributes}}`;
  const cases = {
    MultiHeadAttention: [qkv('2, 5, 12', '2, 7, 12'), '%q, %k, %v', 'num_heads = 3'],
    'MultiHeadAttention: an input bias': [
      { ...qkv('2, 5, 12', '2, 7, 12'), b: 'float32[36]' },
      '%q, %k, %v, %b',
      'num_heads = 3, scale = 0.3',
    ],
    'MultiHeadAttention: a padding mask': [
      {
        ...qkv('2, 5, 12', '2, 7, 12'),
        p: ['int32[2, 7]', [1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1]],
      },
      '%q, %k, %v, _, %p',
      'num_heads = 3',
    ],
    'MultiHeadAttention: an attention bias': [
      { ...qkv('2, 5, 12', '2, 7, 12'), m: 'float32[1, 3, 5, 7]' },
      '%q, %k, %v, _, _, %m',
      'num_heads = 3',
    ],
    'MultiHeadAttention: causal': [
      qkv('2, 5, 12'),
      '%q, %k, %v',
      'num_heads = 3, unidirectional = 1',
    ],
    'MultiHeadAttention: keys by head': [
      { q: 'float32[2, 5, 12]', k: 'float32[2, 3, 7, 4]', v: 'float32[2, 3, 7, 4]' },
      '%q, %k, %v',
      'num_heads = 3',
    ],
  };
  for (const [name, [inputs, operands, attributes]] of Object.entries(cases)) {
    test(name, () =>
      check(
        graph(17, inputs, [`%y = ${call('MultiHeadAttention', operands, attributes)}`], ['y']),
        inputs,
        ['y'],
        { fast: true },
      ),
    );
  }

  test('MultiHeadAttention: a past', () => {
    const inputs = {
      ...qkv('2, 3, 8'),
      pk: 'float32[2, 2, 4, 4]',
      pv: 'float32[2, 2, 4, 4]',
    };
    const body = [
      `%y, %nk, %nv = ${call('MultiHeadAttention', '%q, %k, %v, _, _, _, %pk, %pv', 'num_heads = 2')}`,
    ];
    return check(graph(17, inputs, body, ['y', 'nk', 'nv']), inputs, ['y', 'nk', 'nv'], {
      fast: true,
    });
  });

  const attention = { x: 'float32[2, 5, 8]', w: 'float32[8, 24]', b: 'float32[24]' };
  const packed = {
    Attention: [{}, '', ''],
    'Attention: causal': [{}, '', ', unidirectional = 1'],
    'Attention: lengths': [{ m: ['int32[2]', [3, 5]] }, ', %m', ''],
    'Attention: ends and starts': [{ m: ['int32[4]', [5, 4, 0, 2]] }, ', %m', ''],
    'Attention: a mask': [{ m: ['int32[2, 5]', [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]] }, ', %m', ''],
    'Attention: a mask and causal': [
      { m: ['int32[2, 5]', [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]] },
      ', %m',
      ', unidirectional = 1, mask_filter_value = -1000.0',
    ],
    'Attention: a mask for every query': [
      { m: ['int32[2, 5, 5]', Array.from({ length: 50 }, (_, i) => Number(i % 3 > 0))] },
      ', %m',
      '',
    ],
    'Attention: an attention bias': [{ a: 'float32[2, 2, 5, 5]' }, ', _, _, %a', ''],
  };
  for (const [name, [more, operands, attributes]] of Object.entries(packed)) {
    test(name, () => {
      const inputs = { ...attention, ...more };
      const body = [
        `%y = ${call('Attention', `%x, %w, %b${operands}`, `num_heads = 2${attributes}`)}`,
      ];
      return check(graph(17, inputs, body, ['y']), inputs, ['y'], { fast: true });
    });
  }

  for (const unidirectional of [0, 1]) {
    test(`Attention: a past, ${unidirectional ? 'causal' : 'all keys'}`, () => {
      const inputs = { ...attention, p: 'float32[2, 2, 2, 3, 4]' };
      const body = [
        `%y, %n = ${call('Attention', '%x, %w, %b, _, %p', `num_heads = 2, unidirectional = ${unidirectional}`)}`,
      ];
      return check(graph(17, inputs, body, ['y', 'n']), inputs, ['y', 'n'], { fast: true });
    });
  }

  test('Attention with do_rotary is refused by name', async () => {
    const inputs = { x: 'float32[2, 5, 8]', w: 'float32[8, 24]' };
    const body = [`%y = ${call('Attention', '%x, %w', 'num_heads = 2, do_rotary = 1')}`];
    const model = await parseModel(graph(17, inputs, body, ['y']));
    await assert.rejects(InferenceSession.create(model), {
      code: 'UNSUPPORTED',
      message: /do_rotary/,
    });
    model.dispose();
  });

  // On a CPU, ONNX Runtime supports neither square masks nor buffers: it gets the same attention with a mask
  // for every query and a past that grows.
  const BUFFER = 9;
  const slice = ({ name, type, dims, data }, axis, from, to) => {
    const inner = dims.slice(axis + 1).reduce((a, b) => a * b, 1);
    const picked = data.filter((_, at) => {
      const place = Math.floor(at / inner) % dims[axis];
      return place >= from && place < to;
    });
    return { name, type, dims: dims.with(axis, to - from), data: picked };
  };
  const masks = {
    'no mask': [],
    lengths: ['int32[2]', [4, 5]],
    'ends and starts': ['int32[4]', [5, 4, 0, 2]],
    'a mask': ['int32[2, 5]', [1, 1, 1, 0, 1, 0, 1, 1, 1, 1]],
    'a mask for every query': [
      'int32[2, 3, 5]',
      Array.from({ length: 30 }, (_, i) => Number(i % 4 > 0)),
    ],
    'a square': [
      `int32[2, 1, ${BUFFER}, ${BUFFER}]`,
      Array.from({ length: 2 * BUFFER * BUFFER }, (_, i) => Number(i % 5 > 0)),
    ],
  };
  for (const [name, mask] of Object.entries(masks)) {
    for (const causal of [0, 1]) {
      for (const [form, kept, opset] of [
        ['a past', 2, 17],
        ['a buffer', 2, 17],
        ['a buffer', 0, 12],
        ['nothing before', 0, 17],
      ]) {
        const square = name === 'a square';
        if (form !== 'a buffer' && !square) continue; // compared above
        const fresh = 5 - kept;
        const shared = form === 'a buffer';
        if (!square && mask[0]?.startsWith('int32[2, 3') && fresh !== 3) continue;
        test(`Attention, ${form} of ${kept}, ${name}${causal ? ', causal' : ''}`, async () => {
          const buffer = shared ? BUFFER : kept;
          const inputs = {
            x: `float32[2, ${fresh}, 8]`,
            w: 'float32[8, 24]',
            b: 'float32[24]',
            ...(mask.length > 0 && { m: mask }),
            ...(form !== 'nothing before' && { p: `float32[2, 2, 2, ${buffer}, 4]` }),
            ...(shared && { n: ['int32[1]', [kept]] }),
            // ONNX Runtime supports no past together with a bias.
            ...(shared && kept === 0 && { a: `float32[1, 2, ${fresh}, 5]` }),
          };
          const feeds = feedsOf(inputs, 3);
          const operands = `%x, %w, %b, ${inputs.m ? '%m' : '_'}, ${inputs.p ? '%p' : '_'}`;
          const attributes = `num_heads = 2, unidirectional = ${causal}`;
          const ours = await parseModel(
            graph(
              opset,
              inputs,
              [
                `%y, %o = ${call(
                  'Attention',
                  operands + (shared ? `, ${inputs.a ? '%a' : '_'}, %n` : ''),
                  attributes + (shared ? ', past_present_share_buffer = 1' : ''),
                )}`,
              ],
              ['y', 'o'],
            ),
          );
          const got = await runOurs(ours, feeds);
          // Only the buffer's length depends on data; no step does.
          assert.ok(got.kernels.some((step) => step.startsWith('MultiHeadAttention')));
          ours.dispose();

          const by = Object.fromEntries(feeds.map((feed) => [feed.name, feed]));
          const theirInputs = { x: inputs.x, w: inputs.w, b: inputs.b };
          const theirFeeds = [by.x, by.w, by.b];
          if (square) {
            theirInputs.m = `int32[2, ${fresh}, 5]`;
            const rows = slice(slice(by.m, 2, kept, 5), 3, 0, 5);
            theirFeeds.push({ ...rows, dims: [2, fresh, 5] });
          } else if (inputs.m) {
            theirInputs.m = inputs.m;
            theirFeeds.push(by.m);
          }
          if (kept > 0) {
            theirInputs.p = `float32[2, 2, 2, ${kept}, 4]`;
            theirFeeds.push(slice(by.p, 3, 0, kept));
          }
          if (inputs.a) {
            theirInputs.a = inputs.a;
            theirFeeds.push(by.a);
          }
          const theirOperands = ['m', 'p', 'a'].map((one) => (theirInputs[one] ? `%${one}` : '_'));
          const model = await parseModel(
            graph(
              17,
              theirInputs,
              [
                `%y, %o = ${call('Attention', `%x, %w, %b, ${theirOperands.join(', ')}`, attributes)}`,
              ],
              ['y', 'o'],
            ),
          );
          const theirs = await runTheirs(model.toOnnx(), theirFeeds);
          model.dispose();
          assert.ok(difference(got.results, theirs, ['y']) < TOLERANCE);
          const present = { name: 'o', type: 'float32', ...got.results.o };
          present.dims = [...got.results.o.dims];
          present.data = got.results.o.data;
          assert.deepEqual(present.dims, [2, 2, 2, shared ? BUFFER : 5, 4]);
          assert.ok(difference({ o: slice(present, 3, 0, 5) }, theirs, ['o']) < TOLERANCE);
          if (shared) {
            assert.deepEqual(slice(present, 3, 5, BUFFER).data, slice(by.p, 3, 5, BUFFER).data);
          }
        });
      }
    }
  }

  test('Attention: a buffer without its length is refused', async () => {
    const inputs = { x: 'float32[2, 5, 8]', w: 'float32[8, 24]' };
    const body = [
      `%y = ${call('Attention', '%x, %w', 'num_heads = 2, past_present_share_buffer = 1')}`,
    ];
    const model = await parseModel(graph(17, inputs, body, ['y']));
    await assert.rejects(InferenceSession.create(model), {
      code: 'INVALID_MODEL',
      message: /past_sequence_length/,
    });
    model.dispose();
  });

  const grouped = (tokens, past, total, attributes, more = {}, operands = '') => {
    const inputs = {
      q: `float32[1, ${tokens}, 64]`,
      k: `float32[1, ${tokens}, 32]`,
      v: `float32[1, ${tokens}, 32]`,
      pk: `float32[1, 2, ${past}, 16]`,
      pv: `float32[1, 2, ${past}, 16]`,
      ...more,
    };
    const text = graph(
      17,
      inputs,
      [
        `const %s: int32[1] = {${total - 1}}`,
        `const %t: int32[1] = {${total}}`,
        `%y, %nk, %nv = ${call('GroupQueryAttention', `%q, %k, %v, %pk, %pv, %s, %t${operands}`, `num_heads = 4, kv_num_heads = 2${attributes}`)}`,
      ],
      ['y', 'nk', 'nv'],
    );
    return check(text, inputs, ['y', 'nk', 'nv'], { fast: true });
  };
  const caches = { c: 'float32[12, 8]', n: 'float32[12, 8]' };
  test('GroupQueryAttention: a prompt', () => grouped(5, 0, 5, ''));
  test('GroupQueryAttention: one token and a past', () => grouped(1, 6, 7, ''));
  test('GroupQueryAttention: rotary embedding', () =>
    grouped(1, 6, 7, ', do_rotary = 1', caches, ', %c, %n'));
  test('GroupQueryAttention: interleaved rotary embedding of a prompt', () =>
    grouped(5, 0, 5, ', do_rotary = 1, rotary_interleaved = 1', caches, ', %c, %n'));
  test('GroupQueryAttention: a window', () => grouped(7, 0, 7, ', local_window_size = 3'));
  test('GroupQueryAttention: a cap', () => grouped(5, 0, 5, ', softcap = 0.7, scale = 0.4'));

  test('GroupQueryAttention: a smooth softmax', () => grouped(5, 0, 5, ', smooth_softmax = 1'));
  test('GroupQueryAttention: a sink for every head', () =>
    grouped(1, 6, 7, '', { h: 'float32[4]' }, ', _, _, _, _, %h'));
  test('GroupQueryAttention: sinks and a cap', () =>
    grouped(5, 0, 5, ', softcap = 0.7', { h: 'float32[4]' }, ', _, _, _, _, %h'));

  test('RotaryEmbedding', () => {
    const inputs = { x: 'float32[2, 3, 32]', p: ['int64[2, 3]', [0, 1, 2, 4, 5, 6]], ...caches };
    const body = [`%y = ${call('RotaryEmbedding', '%x, %p, %c, %n', 'interleaved = 0')}`];
    return check(graph(17, inputs, body, ['y']), inputs, ['y']);
  });

  test('SkipSimplifiedLayerNormalization', () => {
    const inputs = { x: 'float32[2, 3, 9]', s: 'float32[2, 3, 9]', w: 'float32[9]' };
    const body = [
      `%y = ${call('SkipSimplifiedLayerNormalization', '%x, %s, %w', 'epsilon = 0.001')}`,
      '%z = SimplifiedLayerNormalization(%y, %w) {epsilon = 0.001}',
    ];
    return check(graph(17, inputs, body, ['z']), inputs, ['z']);
  });
});

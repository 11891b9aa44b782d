// Operators of com.microsoft that language models have, against ONNX Runtime, or against their definition in
// doubles where ONNX Runtime has no kernel for the CPU.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InferenceSession, parseModel } from '../../dist/index.js';
import { both, cases, defined, floats, list, shaped } from './ort_cases.mjs';
import { difference, feedsOf, graph, runOurs, runTheirs } from './ort_operators.mjs';
import { constant, float, integers, product, scale, zero } from './ort_quantized.mjs';

describe('transformers', () => {
  cases('QEmbedLayerNormalization', async (pick, random, round) => {
    const [batch, steps, width] = [pick(1, 3), pick(1, 5), 4 * pick(1, 3)];
    const [words, kinds] = [pick(1, 9), pick(1, 3)];
    const ids = (most) => [
      shaped('int32', [batch, steps]),
      list(batch * steps, () => pick(0, most)),
    ];
    const segments = round % 2 === 0;
    const inputs = { i: ids(words - 1) };
    if (segments) inputs.t = ids(kinds - 1);
    if (random() < 0.5) inputs.m = ids(1);
    const table = (name, dims) =>
      constant(name, 'uint8', dims, integers(random, product(dims), 0, 255));
    const names = ['w', 'p', 's', 'g', 'b'].filter((name) => segments || name !== 's');
    const given = (name) => (names.includes(name) ? `%${name}` : '_');
    const body = [
      table('w', [words, width]),
      table('p', [steps + 2, width]),
      table('g', [width]),
      table('b', [width]),
      ...(segments ? [table('s', [kinds, width])] : []),
      ...names.map((name) => scale(`${name}s`, 0.01 + random() * 0.02)),
      ...names.map((name) => zero(`${name}z`, 'uint8', pick(90, 160))),
    ];
    const suffixed = (suffix) =>
      ['w', 'p', 's', 'g', 'b'].map((name) => (names.includes(name) ? `%${name}${suffix}` : '_'));
    body.push(
      `%y, %n = com.microsoft::QEmbedLayerNormalization(%i, ${segments ? '%t' : '_'}, %w, %p, ${given('s')}, ` +
        `%g, %b, ${inputs.m ? '%m' : '_'}, ${[...suffixed('s'), ...suffixed('z')].join(', ')}) ` +
        `{epsilon = ${float(1e-5)}}`,
    );
    await both(13, inputs, body, ['y', 'n'], { tolerance: 5e-5 });
  });

  cases('DecoderMaskedMultiHeadAttention', async (pick, random, round) => {
    const [batch, heads, size, past] = [pick(1, 2), pick(1, 3), pick(1, 4) * 2, pick(1, 5)];
    const hidden = heads * size;
    const inputs = { q: shaped('float32', [batch, 1, hidden]) };
    inputs.k = shaped('float32', [batch, 1, hidden]);
    inputs.v = shaped('float32', [batch, 1, hidden]);
    inputs.pk = shaped('float32', [batch, heads, past, size]);
    inputs.pv = shaped('float32', [batch, heads, past, size]);
    const body = [floats('b', [3 * hidden], random)];
    const bias = round % 2 ? '%b' : '_';
    // ONNX Runtime's operator of this name works with shared buffers only; its MultiHeadAttention is the oracle.
    const outputs = ['y', 'nk', 'nv'];
    const text = (operator) =>
      graph(
        17,
        inputs,
        [...body, `%y, %nk, %nv = com.microsoft::${operator} {num_heads = ${heads}}`],
        outputs,
      );
    const model = await parseModel(
      text(`DecoderMaskedMultiHeadAttention(%q, %k, %v, _, _, %pk, %pv, _, _, _, ${bias})`),
    );
    const other = await parseModel(text(`MultiHeadAttention(%q, %k, %v, ${bias}, _, _, %pk, %pv)`));
    const feeds = feedsOf(inputs, 3);
    const { results } = await runOurs(model, feeds);
    const theirs = await runTheirs(other.toOnnx(), feeds);
    assert.ok(difference(results, theirs, outputs) < 2e-5);
    model.dispose();
    other.dispose();
  });

  cases('RelativePositionBias', async (pick) => {
    const [buckets, heads, queries, keys] = [4 * pick(1, 8), pick(1, 4), pick(1, 30), pick(1, 30)];
    const both = pick(0, 1);
    const most = buckets + pick(1, 60);
    await defined(
      17,
      {
        t: shaped('float32', [buckets, heads]),
        q: ['int64[]', [queries]],
        k: ['int64[]', [keys]],
      },
      [
        '%y = com.microsoft::RelativePositionBias(%t, %q, %k) ' +
          `{max_distance = ${most}, is_bidirectional = ${both}}`,
      ],
      ['y'],
      ({ t }) => [
        [
          [1, heads, queries, keys],
          list(heads * queries * keys, (i) => {
            let [distance, count, first] = [
              (i % keys) - (Math.floor(i / keys) % queries),
              buckets,
              0,
            ];
            if (both) {
              count /= 2;
              if (distance > 0) first = count;
              distance = Math.abs(distance);
            } else {
              distance = Math.max(-distance, 0);
            }
            const exact = count / 2;
            if (distance >= exact) {
              const share = Math.log(distance / exact) / Math.log(most / exact);
              distance = Math.min(exact + Math.floor(share * (count - exact) + 1e-6), count - 1);
            }
            return t[(first + distance) * heads + Math.floor(i / keys / queries)];
          }),
        ],
      ],
    );
  });

  cases('GatedRelativePositionBias', async (pick) => {
    const [batch, steps, heads, size, half] = [
      pick(1, 2),
      pick(1, 4),
      pick(1, 3),
      pick(1, 4),
      pick(1, 3),
    ];
    const hidden = heads * size;
    await defined(
      [13, 17, 18][pick(0, 2)],
      {
        q: shaped('float32', [batch, steps, hidden]),
        qb: shaped('float32', [hidden]),
        r: shaped('float32', [1, heads, steps, steps]),
        w: shaped('float32', [size, 2 * half]),
        b: shaped('float32', [2 * half]),
        e: shaped('float32', [1, heads, 1, 1]),
      },
      [
        `%y = com.microsoft::GatedRelativePositionBias(%q, %qb, %r, %w, %b, %e) {num_heads = ${heads}}`,
      ],
      ['y'],
      ({ q, qb, r, w, b, e }) => [
        [
          [batch, heads, steps, steps],
          list(batch * heads * steps * steps, (i) => {
            const step = Math.floor(i / steps) % steps;
            const head = Math.floor(i / steps / steps) % heads;
            const first =
              (Math.floor(i / steps / steps / heads) * steps + step) * hidden + head * size;
            const gates = list(2, (g) => {
              let sum = 0;
              for (let c = g * half; c < (g + 1) * half; c++) {
                sum += b[c];
                for (let j = 0; j < size; j++) {
                  sum += (q[first + j] + qb[head * size + j]) * w[j * 2 * half + c];
                }
              }
              return 1 / (1 + Math.exp(-sum));
            });
            const at = (head * steps + step) * steps + (i % steps);
            return (gates[0] * (gates[1] * e[head] - 1) + 2) * r[at];
          }),
        ],
      ],
    );
  });

  cases('MoE', async (pick, random, round) => {
    const [tokens, width, inner, experts] = [pick(1, 4), pick(1, 5), pick(1, 5), pick(2, 5)];
    const kind = ['relu', 'gelu', 'silu', 'identity'][round % 4];
    const k = pick(1, Math.min(2, experts));
    const bias = random() < 0.5;
    const body = [
      floats('w1', [experts, inner, width], random),
      floats('w2', [experts, width, inner], random),
      floats('b1', [experts, inner], random),
      floats('b2', [experts, width], random),
      `%y = com.microsoft::MoE(%x, %r, %w1, ${bias ? '%b1' : '_'}, %w2${bias ? ', %b2' : ''}) ` +
        `{k = ${k}, activation_type = "${kind}", normalize_routing_weights = ${pick(0, 1)}}`,
    ];
    await both(
      17,
      { x: shaped('float32', [tokens, width]), r: shaped('float32', [tokens, experts]) },
      body,
      ['y'],
      { tolerance: 1e-4 },
    );
  });

  cases('QMoE', async (pick, random, round) => {
    const [tokens, experts, bits] = [pick(1, 4), pick(2, 5), [4, 8][round % 2]];
    const blocked = round % 4 >= 2;
    const width = 16 * pick(1, 3);
    // ONNX Runtime wants as many blocks in both layers.
    const inner = blocked ? width : 16 * pick(1, 3);
    const swiglu = round % 8 >= 4;
    const rows = swiglu ? 2 * inner : inner;
    const weights = (name, of, columns) => [
      constant(
        `w${name}`,
        'uint8',
        [experts, of, (columns * bits) / 8],
        integers(random, (experts * of * columns * bits) / 8, 0, 255),
      ),
      constant(
        `s${name}`,
        'float32',
        blocked ? [experts, of, columns / 16] : [experts, of],
        list((experts * of * columns) / (blocked ? 16 : columns), () =>
          float((0.01 + random() * 0.02) / (bits === 8 ? 16 : 1)),
        ),
      ),
      floats(`b${name}`, [experts, of], random),
    ];
    const body = [
      ...weights(1, rows, width),
      ...weights(2, width, inner),
      `%y = com.microsoft::QMoE(%x, %r, %w1, %s1, %b1, %w2, %s2, %b2) {k = ${pick(1, 2)}, ` +
        `activation_type = "${swiglu ? 'swiglu' : 'silu'}", swiglu_fusion = ${swiglu ? 1 : 0}, ` +
        `normalize_routing_weights = 1, expert_weight_bits = ${bits}` +
        `${swiglu ? ', activation_alpha = 1.702, activation_beta = 1.0, swiglu_limit = 7.0' : ''}` +
        `${blocked ? ', block_size = 16' : ''}}`,
    ];
    await both(
      17,
      { x: shaped('float32', [tokens, width]), r: shaped('float32', [tokens, experts]) },
      body,
      ['y'],
      { tolerance: 1e-4 },
    );
  });

  cases('LinearAttention', async (pick, random, round) => {
    const rule = ['linear', 'gated', 'delta', 'gated_delta'][round % 4];
    const [batch, steps, kv, share] = [pick(1, 2), pick(1, 4), pick(1, 2), pick(1, 2)];
    const [keys, values] = [pick(1, 4), pick(1, 4)];
    const heads = kv * share;
    const inputs = {
      q: shaped('float32', [batch, steps, heads * keys]),
      k: shaped('float32', [batch, steps, kv * keys]),
      v: shaped('float32', [batch, steps, kv * values]),
      s: shaped('float32', [batch, kv, keys, values]),
      d: shaped('float32', [batch, steps, kv]),
      b: shaped('float32', [batch, steps, kv]),
    };
    await defined(
      17,
      inputs,
      [
        `%y, %n = com.microsoft::LinearAttention(%q, %k, %v, %s, %d, %b) ` +
          `{q_num_heads = ${heads}, kv_num_heads = ${kv}, update_rule = "${rule}"}`,
      ],
      ['y', 'n'],
      ({ q, k, v, s, d, b }) => {
        const state = Array.from(s);
        const out = new Array(batch * steps * heads * values).fill(0);
        for (let n = 0; n < batch; n++) {
          for (let t = 0; t < steps; t++) {
            const token = n * steps + t;
            for (let h = 0; h < kv; h++) {
              const at = (i, j) => ((n * kv + h) * keys + i) * values + j;
              const decay = rule.startsWith('gated') ? Math.exp(d[token * kv + h]) : 1;
              const rate = rule.endsWith('delta') ? b[token * kv + h] : 1;
              const key = (i) => k[(token * kv + h) * keys + i];
              for (let j = 0; j < values; j++) {
                let change = v[(token * kv + h) * values + j];
                if (rule.endsWith('delta')) {
                  for (let i = 0; i < keys; i++) change -= decay * state[at(i, j)] * key(i);
                }
                for (let i = 0; i < keys; i++) {
                  state[at(i, j)] = decay * state[at(i, j)] + rate * key(i) * change;
                }
                for (let r = 0; r < share; r++) {
                  let sum = 0;
                  const head = token * heads + h * share + r;
                  for (let i = 0; i < keys; i++) sum += q[head * keys + i] * state[at(i, j)];
                  out[head * values + j] = sum / Math.sqrt(keys);
                }
              }
            }
          }
        }
        return [
          [[batch, steps, heads * values], out],
          [[batch, kv, keys, values], state],
        ];
      },
    );
  });

  cases('CausalConvWithState', async (pick, random, round) => {
    const [batch, channels, length, taps] = [pick(1, 2), pick(1, 3), pick(1, 6), pick(1, 4)];
    const dilation = pick(1, 2);
    const kept = (taps - 1) * dilation;
    const past = kept > 0 && round % 2 === 0;
    const inputs = {
      x: shaped('float32', [batch, channels, length]),
      w: shaped('float32', [channels, 1, taps]),
      b: shaped('float32', [channels]),
    };
    if (past) inputs.s = shaped('float32', [batch, channels, kept]);
    const silu = pick(0, 1);
    await defined(
      17,
      inputs,
      [
        `%y, %n = com.microsoft::CausalConvWithState(%x, %w, %b${past ? ', %s' : ''}) ` +
          `{activation = "${silu ? 'silu' : 'none'}", dilation = ${dilation}}`,
      ],
      ['y', 'n'],
      ({ x, w, b, s }) => {
        const at = (row, i) => (i >= kept ? x[row * length + i - kept] : s ? s[row * kept + i] : 0);
        return [
          [
            [batch, channels, length],
            list(batch * channels * length, (i) => {
              const row = Math.floor(i / length);
              let sum = b[row % channels];
              for (let tap = 0; tap < taps; tap++) {
                sum += w[(row % channels) * taps + tap] * at(row, (i % length) + tap * dilation);
              }
              return silu ? sum / (1 + Math.exp(-sum)) : sum;
            }),
          ],
          [
            [batch, channels, kept],
            list(batch * channels * kept, (i) => at(Math.floor(i / kept), length + (i % kept))),
          ],
        ];
      },
    );
  });
});

test('search operators name what to do in JavaScript', async () => {
  for (const op of ['BeamSearch', 'GreedySearch', 'Sampling', 'WhisperBeamSearch']) {
    const model = parseModel(
      graph(17, { x: 'float32[1]' }, [`%y = com.microsoft::${op}(%x)`], ['y']),
    );
    await assert.rejects(
      async () => InferenceSession.create(await model),
      ({ code, hint }) => code === 'UNSUPPORTED' && /JavaScript/.test(hint),
    );
  }
});

// The parts of transformers and recurrent networks, in our engine and in onnxruntime-web, in turns on one
// thread.
//
//   node tests/bench/transformer.mjs [--rounds N] [--before DIST] [--json] [CASE ...]
//
// --before: the dist folder of another build of this package, which takes part. CASE: see below; all by
// default.

import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { readArguments } from './arguments.mjs';
import { formatRatio, formatTimes, ratios, snr, spread, takeTurns } from './networks.mjs';
import { uniform } from './numbers.js';

const standards = { rounds: 15, before: '', json: false };
const { rounds, before, json, words } = readArguments(standards);
const engines = { ours: await import('requant') };
if (before) {
  engines.before = await import(pathToFileURL(path.resolve(before, 'index.js')).href);
}
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

let seeds = 1;
/** A constant of small random numbers, as text. */
function weights(name, dims, scale = 1 / Math.sqrt(dims.at(-2) ?? 1)) {
  const length = dims.reduce((a, b) => a * b, 1);
  const numbers = Array.from(uniform(length, ++seeds), (x) => (x * scale).toFixed(5));
  return `const %${name}: float32[${dims.join(', ')}] = {${numbers.join(', ')}}`;
}

const HEADS = 12;
const TOKENS = 128;
const WIDTH = 768;
const EACH = WIDTH / HEADS;

/** Softmax(q k^T / 8) v of three values [batch, tokens, width], as PyTorch writes it. */
const attention = (q, k, v, y) => [
  `const %${y}_apart: int64[4] = {0, 0, ${HEADS}, ${EACH}}`,
  `const %${y}_joined: int64[3] = {0, 0, ${WIDTH}}`,
  `const %${y}_eight: float32[] = {8.0}`,
  ...[q, k, v].flatMap((name, i) => [
    `%${y}_${name}4 = Reshape(%${name}, %${y}_apart)`,
    `%${y}_${name}t = Transpose(%${y}_${name}4) {perm = [${i === 1 ? '0, 2, 3, 1' : '0, 2, 1, 3'}]}`,
  ]),
  `%${y}_raw = MatMul(%${y}_${q}t, %${y}_${k}t)`,
  `%${y}_scaled = Div(%${y}_raw, %${y}_eight)`,
  `%${y}_masked = Add(%${y}_scaled, %m)`,
  `%${y}_p = Softmax(%${y}_masked) {axis = -1}`,
  `%${y}_mixed = MatMul(%${y}_p, %${y}_${v}t)`,
  `%${y}_back = Transpose(%${y}_mixed) {perm = [0, 2, 1, 3]}`,
  `%${y} = Reshape(%${y}_back, %${y}_joined)`,
];

const layer = (x, name, from, to, y) => [
  weights(`${name}_w`, [from, to]),
  weights(`${name}_b`, [to], 0.1),
  `%${y}_product = MatMul(%${x}, %${name}_w)`,
  `%${y} = Add(%${name}_b, %${y}_product)`,
];

const layerNorm = (x, name, y) => [
  weights(`${name}_g`, [WIDTH], 1),
  weights(`${name}_b`, [WIDTH], 1),
  `%${y} = LayerNormalization(%${x}, %${name}_g, %${name}_b)`,
];

const tokens = [1, TOKENS, WIDTH];
const mask = { m: [1, 1, 1, TOKENS] };

/**
 * Lists of inputs (name: dims), lines of a graph's text, whose output is y, its opset, options of our session, and
 * the least signal to noise ratio.
 */
const cases = {
  'BERT block': () => [
    { x: tokens, ...mask },
    [
      ...layer('x', 'q', WIDTH, WIDTH, 'queries'),
      ...layer('x', 'k', WIDTH, WIDTH, 'keys'),
      ...layer('x', 'v', WIDTH, WIDTH, 'values'),
      ...attention('queries', 'keys', 'values', 'mixed'),
      ...layer('mixed', 'o', WIDTH, WIDTH, 'out'),
      '%sum = Add(%out, %x)',
      ...layerNorm('sum', 'first', 'normal'),
      ...layer('normal', 'up', WIDTH, 4 * WIDTH, 'wide'),
      'const %root: float32[] = {1.4142135381698608}',
      'const %one: float32[] = {1.0}',
      'const %half: float32[] = {0.5}',
      '%inner = Div(%wide, %root)',
      '%erf = Erf(%inner)',
      '%gate = Add(%erf, %one)',
      '%gated = Mul(%wide, %gate)',
      '%active = Mul(%gated, %half)',
      ...layer('active', 'down', 4 * WIDTH, WIDTH, 'narrow'),
      '%sum2 = Add(%narrow, %normal)',
      ...layerNorm('sum2', 'second', 'y'),
    ],
  ],
  attention: () => [{ q: tokens, k: tokens, v: tokens, ...mask }, attention('q', 'k', 'v', 'y')],
  'one query of 512 keys': () => [
    { q: [1, HEADS, 1, EACH], k: [1, HEADS, 512, EACH], v: [1, HEADS, 512, EACH] },
    [
      '%kt = Transpose(%k) {perm = [0, 1, 3, 2]}',
      '%s = MatMul(%q, %kt)',
      '%p = Softmax(%s) {axis = -1}',
      '%y = MatMul(%p, %v)',
    ],
  ],
  'MatMul 12 x 128 x 64 x 128': () => [
    { a: [HEADS, TOKENS, EACH], b: [HEADS, EACH, TOKENS] },
    ['%y = MatMul(%a, %b)'],
  ],
  'Einsum abc,cde->abde': () => [
    { x: tokens },
    [weights('w', [WIDTH, HEADS, EACH], 0.05), '%y = Einsum(%x, %w) {equation = "abc,cde->abde"}'],
  ],
  'Einsum aecd,abcd->acbe': () => [
    { a: [1, TOKENS, HEADS, EACH], b: [1, TOKENS, HEADS, EACH] },
    ['%y = Einsum(%a, %b) {equation = "aecd,abcd->acbe"}'],
  ],
  'RMS normalization': () => [
    { x: tokens },
    [
      weights('g', [WIDTH], 1),
      'const %two: float32[] = {2.0}',
      'const %e: float32[] = {0.00001}',
      '%squares = Pow(%x, %two)',
      '%mean = ReduceMean(%squares) {axes = [-1]}',
      '%shifted = Add(%mean, %e)',
      '%root = Sqrt(%shifted)',
      '%inverse = Reciprocal(%root)',
      '%normal = Mul(%x, %inverse)',
      '%y = Mul(%normal, %g)',
    ],
  ],
  ...Object.fromEntries(
    ['Mean', 'Sum', 'Max'].map((kind) => [
      `Reduce${kind} of the last axis`,
      () => [
        { x: tokens },
        kind === 'Sum'
          ? ['const %last: int64[1] = {-1}', '%y = ReduceSum(%x, %last)']
          : [`%y = Reduce${kind}(%x) {axes = [-1]}`],
      ],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({ LSTM: 4, GRU: 3 }).map(([cell, gates]) => [
      `${cell} of 64 steps, 256 wide`,
      () => [
        { x: [64, 1, 256] },
        [
          weights('w', [1, gates * 256, 256], 0.06),
          weights('r', [1, gates * 256, 256], 0.06),
          weights('b', [1, 2 * gates * 256], 0.1),
          `%y = ${cell}(%x, %w, %r, %b) {hidden_size = 256}`,
        ],
      ],
    ]),
  ),
};

for (const rows of [1, 32]) {
  cases[`int4 weights in blocks, ${rows} x 1024 x 1024`] = () => [
    { x: [rows, 1024] },
    [
      `const %w: int4[1024, 1024] = {${Array.from(uniform(1 << 20, 5), (x) => Math.floor(x * 8)).join(', ')}}`,
      `const %s: float32[32, 1024] = {${Array.from(uniform(1 << 15, 6), (x) => (0.02 + 0.01 * x).toFixed(5)).join(', ')}}`,
      '%d = DequantizeLinear(%w, %s) {axis = 0, block_size = 32}',
      '%y = MatMul(%x, %d)',
    ],
    21,
  ];
}

// Attention in 8 bits has fewer decibels, whose least number comes last.
const OPSET = 17;
for (const count of [256, 1024]) {
  const all = [1, count, WIDTH];
  const many = () => [
    { q: all, k: all, v: all, m: [1, 1, 1, count] },
    attention('q', 'k', 'v', 'y'),
  ];
  cases[`attention of ${count} tokens`] = many;
  cases[`attention of ${count} tokens, accuracyLevel 4`] = () => [
    ...many(),
    OPSET,
    { accuracyLevel: 4 },
    35,
  ];
}

const unknown = words.find((name) => !(name in cases));
if (unknown) throw new Error(`no case ${unknown} (${Object.keys(cases).join(', ')})`);

async function measure(name) {
  const [inputs, body, opset = OPSET, options = {}, least = 80] = cases[name]();
  const text = [
    `graph "${name}" opset ${opset}`,
    ...Object.entries(inputs).map(
      ([input, dims]) => `input %${input}: float32[${dims.join(', ')}]`,
    ),
    ...body,
    'output %y',
  ].join('\n');
  const model = await engines.ours.parseModel(text);
  const bytes = model.toOnnx();
  model.dispose();
  const data = Object.entries(inputs).map(([input, dims], i) => [
    input,
    uniform(
      dims.reduce((a, b) => a * b, 1),
      100 + i,
    ),
    dims,
  ]);
  const feedsOf = ({ Tensor }) =>
    Object.fromEntries(
      data.map(([input, numbers, dims]) => [input, new Tensor('float32', numbers, dims)]),
    );
  const theirs = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  const rows = [{ label: 'ort', session: theirs, feeds: feedsOf(ort), times: [] }];
  for (const [label, engine] of Object.entries(engines)) {
    const own = label === 'ours' ? options : {};
    const session = await engine.InferenceSession.create(bytes, own);
    rows.push({ label, session, feeds: feedsOf(engine), times: [] });
  }
  const [expected] = Object.values(await rows[0].session.run(rows[0].feeds));
  for (const row of rows) {
    const [got] = Object.values(await row.session.run(row.feeds));
    const decibel = snr(expected.data, got.data);
    if (!(decibel > least)) throw new Error(`${name}, ${row.label}: SNR ${decibel.toFixed(1)} dB`);
    row.run = () => row.session.run(row.feeds);
  }
  await takeTurns(rows, rounds, { roundMs: 60, warmUpMs: 800 });
  for (const row of rows) await row.session.release();
  return Object.fromEntries(rows.map(({ label, times }) => [label, times]));
}

const report = {};
if (!json) {
  console.log(
    `| case | ORT ms | ours | ORT : ours |${before ? ' before, ms | before : ours |' : ''}`,
  );
  console.log(`| --- | --- | --- | --- |${before ? ' --- | --- |' : ''}`);
}
for (const name of words.length > 0 ? words : Object.keys(cases)) {
  const times = await measure(name);
  report[name] = {
    ...Object.fromEntries(Object.entries(times).map(([label, all]) => [label, spread(all)])),
    ratio: ratios(times.ort, times.ours),
  };
  if (json) continue;
  const cells = [
    name,
    formatTimes(spread(times.ort)),
    formatTimes(spread(times.ours)),
    formatRatio(ratios(times.ort, times.ours)),
  ];
  if (before) {
    cells.push(formatTimes(spread(times.before)), formatRatio(ratios(times.before, times.ours)));
  }
  console.log(`| ${cells.join(' | ')} |`);
}
if (json) console.log(JSON.stringify({ rounds, cases: report }, null, 2));

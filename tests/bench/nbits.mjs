// Matrix products with 4-bit weights in blocks of 32 (com.microsoft.MatMulNBits): our kernels and
// onnxruntime-web's, each beside its own float product, in turns.
//
//   node tests/bench/nbits.mjs [--rounds N] [--size K=N] [--simd auto|relaxed|simd128] [--json]
//
// M = 1 is a language model's next token, M = 64 a prompt. "4-bit, int8": accuracy_level 4, activations
// in eight bits with a scale for 32; "4-bit, float": activations as they are.

import { parseArgs } from 'node:util';
import {
  count,
  ensureNode,
  formatRatio,
  formatTimes,
  ratios,
  snr,
  spread,
  takeTurns,
} from './networks.mjs';

ensureNode();
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    size: { type: 'string', default: '2048' },
    simd: { type: 'string', default: 'auto' },
    json: { type: 'boolean', default: false },
  },
});
const rounds = count(values, 'rounds');
const size = count(values, 'size');
const { InferenceSession, Tensor, env, parseModel, quantizeWeights } = await import('requant');
const ort = await import('onnxruntime-web');
env.wasm.simd = values.simd;
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

/** Deterministic, about uniform in [-1, 1]. */
function noise(length, seed) {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround(state / 2 ** 31 - 1);
  });
}

async function makeFiles() {
  const weights = noise(size * size, 7);
  const text = `graph "product" opset 17
input %x: float32["M", ${size}]
const %w: float32[${size}, ${size}] = {${[...weights].map((w) => w.toFixed(3)).join(', ')}}
%y = MatMul(%x, %w)
output %y
`;
  const model = await parseModel(text);
  const made = {};
  for (const [label, int8Activations] of [
    ['4-bit, float', false],
    ['4-bit, int8', true],
  ]) {
    const quantized = await quantizeWeights(model, { format: 'matmulnbits', int8Activations });
    made[label] = quantized.toOnnx();
    quantized.dispose();
  }
  made.float = model.toOnnx();
  model.dispose();
  return made;
}

const files = await makeFiles();
const report = [];
for (const m of [1, 64]) {
  const x = noise(m * size, 3);
  const rows = [];
  for (const [label, bytes] of Object.entries(files)) {
    const ours = await InferenceSession.create(bytes);
    const feeds = { x: new Tensor('float32', x, [m, size]) };
    rows.push({ label, run: () => ours.run(feeds), release: () => ours.release(), times: [] });
    const theirs = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
    const ortFeeds = { x: new ort.Tensor('float32', x, [m, size]) };
    rows.push({
      label: `ort ${label}`,
      run: () => theirs.run(ortFeeds),
      release: () => theirs.release(),
      times: [],
    });
  }
  const outputs = {};
  for (const { label, run } of rows) outputs[label] = (await run()).y.data;
  const agreement = Object.fromEntries(
    Object.keys(files).map((label) => [label, snr(outputs[`ort ${label}`], outputs[label])]),
  );
  await takeTurns(rows, rounds, { warmUpMs: 1000 });
  const times = Object.fromEntries(rows.map(({ label, times: all }) => [label, all]));
  for (const { release } of rows) await release();
  report.push({
    m,
    k: size,
    n: size,
    agreement,
    times: Object.fromEntries(Object.entries(times).map(([label, all]) => [label, spread(all)])),
    ratios: {
      '4-bit, float : float': ratios(times.float, times['4-bit, float']),
      '4-bit, int8 : float': ratios(times.float, times['4-bit, int8']),
      '4-bit, float : ort': ratios(times['ort 4-bit, float'], times['4-bit, float']),
      '4-bit, int8 : ort': ratios(times['ort 4-bit, int8'], times['4-bit, int8']),
      'ort 4-bit, float : ort float': ratios(times['ort float'], times['ort 4-bit, float']),
    },
  });
}

if (values.json) {
  console.log(JSON.stringify({ node: process.versions.node, rounds, report }, null, 2));
} else {
  for (const { m, agreement, times, ratios: faster } of report) {
    console.log(`\n[${m}, ${size}] x [${size}, ${size}], ms: median [min-max]`);
    for (const [label, of] of Object.entries(times)) {
      console.log(`  ${label.padEnd(30)} ${formatTimes(of)}`);
    }
    for (const [label, of] of Object.entries(faster)) {
      console.log(`  ${label.padEnd(30)} ${formatRatio(of)}`);
    }
    const text = Object.entries(agreement).map(([label, db]) => `${label} ${db.toFixed(1)} dB`);
    console.log(`  agreement with onnxruntime-web: ${text.join(', ')}`);
  }
  const bytes = Object.entries(files).map(([label, file]) => `${label} ${file.length}`);
  console.log(`\nbytes of the files: ${bytes.join(', ')}`);
}

// Matrix products with 4-bit weights in blocks of 32 (com.microsoft.MatMulNBits): our kernels and
// onnxruntime-web's, each compared with its own float product, in turns.
//
//   node tests/bench/nbits.mjs [--rounds N] [--size K=N] [--simd auto|relaxed|simd128] [--chromium] [--json]
//
// M = 1 is a language model's next token, M = 64 a prompt. "4-bit, int8": accuracy_level 4, activations in
// eight bits with one scale for 32; "4-bit, float": float activations.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { readArguments } from './arguments.mjs';
import { FOLDER, formatRatio, formatTimes, ratios, snr, spread, takeTurns } from './networks.mjs';
import { uniform } from './numbers.js';
import { openPlace } from './place.mjs';

const standards = { rounds: 15, size: 2048, simd: 'auto', chromium: false, json: false };
const { rounds, size, simd, chromium, json } = readArguments(standards);
const { parseModel, quantizeWeights } = await import('requant');

/** Writes the models to files of build/bench, and gives their names by label. */
async function makeFiles() {
  const weights = uniform(size * size, 7);
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
  mkdirSync(FOLDER, { recursive: true });
  return Object.fromEntries(
    Object.entries(made).map(([label, bytes], at) => {
      const file = `nbits.${at}.onnx`;
      writeFileSync(path.join(FOLDER, file), bytes);
      return [label, { file, bytes: bytes.length }];
    }),
  );
}

const files = await makeFiles();
const report = [];
const place = await openPlace({ chromium, simd });
for (const m of [1, 64]) {
  const rows = [];
  const outputs = {};
  for (const [label, { file }] of Object.entries(files)) {
    for (const [key, engine] of [
      [label, 'ours'],
      [`ort ${label}`, 'ort'],
    ]) {
      const dims = { x: [m, size] };
      await place.call('open', key, { file, engine, numbers: 'uniform', dims });
      outputs[key] = await place.call('output', key);
      rows.push({ label: key, time: (runs) => place.call('time', key, runs), times: [] });
    }
  }
  const agreement = Object.fromEntries(
    Object.keys(files).map((label) => [label, snr(outputs[`ort ${label}`], outputs[label])]),
  );
  await takeTurns(rows, rounds, { warmUpMs: 1000 });
  const times = Object.fromEntries(rows.map(({ label, times: all }) => [label, all]));
  for (const { label } of rows) await place.call('close', label);
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

await place.close();
if (json) {
  console.log(JSON.stringify({ place: place.name, rounds, report }, null, 2));
} else {
  console.log(`${place.name}, ${rounds} rounds`);
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
  const bytes = Object.entries(files).map(([label, file]) => `${label} ${file.bytes}`);
  console.log(`\nbytes of the files: ${bytes.join(', ')}`);
}

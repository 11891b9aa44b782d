// Times our float and 8-bit sessions and those of onnxruntime-web (the QDQ export of the same
// quantized model), turn by turn in one process, each on one thread.
//
//   npm run bench -- [MODEL.onnx ...] [--runs N] [--simd auto|relaxed|simd128] [--json]
//
// Without a model: the demo network, and the networks in ../shared/models that are there. Input is
// random; open dimensions are 1.

import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import * as ort from 'onnxruntime-web';
import { InferenceSession, engineInfo, env, loadModel, quantize } from 'requant';
import { feedsOf } from 'requant/dataset';
import { table } from 'requant/report';
import { randomSamples, timing } from '../../dist/cli/bench.js';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

function defaultModels() {
  const shared = path.resolve(ROOT, '../shared/models');
  const networks = existsSync(shared) ? readdirSync(shared).sort() : [];
  return [
    path.join(ROOT, 'demos/models/fashion_mnist.onnx'),
    ...networks
      .map((name) => path.join(shared, name, 'model.onnx'))
      .filter((file) => existsSync(file)),
  ];
}

function nameOf(file) {
  const base = path.basename(file, '.onnx');
  return base === 'model' ? path.basename(path.dirname(path.resolve(file))) : base;
}

async function benchModel(file, runs) {
  const model = await loadModel(file);
  const data = randomSamples(model.info.inputs, 8);
  const quantized = await quantize(model, { calibration: feedsOf(data) });
  const samples = [];
  for await (const { feeds } of data) samples.push(feeds);
  const theirs = samples.map((feeds) =>
    Object.fromEntries(
      Object.entries(feeds).map(([name, { type, data: values, dims }]) => [
        name,
        new ort.Tensor(type, values, dims),
      ]),
    ),
  );
  const float = await InferenceSession.create(model);
  const int8 = await InferenceSession.create(quantized);
  const ortOptions = { executionProviders: ['wasm'], graphOptimizationLevel: 'all' };
  const ortFloat = await ort.InferenceSession.create(model.toOnnx(), ortOptions);
  const ortInt8 = await ort.InferenceSession.create(
    quantized.toOnnx({ format: 'qdq' }),
    ortOptions,
  );
  const rows = [
    { name: 'float', run: (at) => float.run(samples[at]), times: [] },
    { name: 'int8', run: (at) => int8.run(samples[at]), times: [] },
    { name: 'ort float', run: (at) => ortFloat.run(theirs[at]), times: [] },
    { name: 'ort int8', run: (at) => ortInt8.run(theirs[at]), times: [] },
  ];
  const warmUp = 5;
  for (let round = -warmUp; round < runs; round++) {
    const at = (round + warmUp) % samples.length;
    for (const { run, times } of rows) {
      const start = performance.now();
      await run(at);
      if (round >= 0) times.push(performance.now() - start);
    }
  }
  await Promise.all([float.release(), int8.release(), ortFloat.release(), ortInt8.release()]);
  quantized.dispose();
  model.dispose();
  const results = Object.fromEntries(rows.map(({ name, times }) => [name, timing(times)]));
  return {
    model: nameOf(file),
    results,
    ratios: {
      'int8 : float': results.int8.median / results.float.median,
      'int8 : ort int8': results.int8.median / results['ort int8'].median,
      'float : ort float': results.float.median / results['ort float'].median,
    },
  };
}

let values;
let positionals;
try {
  ({ values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      runs: { type: 'string', default: '30' },
      simd: { type: 'string', default: 'auto' },
      json: { type: 'boolean', default: false },
    },
  }));
  if (!/^[1-9]\d*$/.test(values.runs)) throw new Error(`--runs ${values.runs}`);
} catch (error) {
  console.error(`bench: ${error.message}`);
  process.exit(2);
}
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
env.wasm.simd = values.simd;
const all = [];
for (const file of positionals.length > 0 ? positionals : defaultModels()) {
  if (!values.json) console.error(`${nameOf(file)} ...`);
  all.push(await benchModel(file, Number(values.runs)));
}
const { variant } = await engineInfo();
if (values.json) {
  console.log(JSON.stringify({ engine: variant, runs: Number(values.runs), models: all }, null, 2));
} else {
  const ms = ({ median, min, max }) => `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})`;
  const header = ['model', 'float', 'int8', 'ort float', 'ort int8'];
  const rows = all.map(({ model, results }) => [
    model,
    ...header.slice(1).map((name) => ms(results[name])),
  ]);
  console.log(`Median (least-most) ms of ${values.runs} interleaved runs; engine ${variant}\n`);
  console.log(table(header, rows));
  const ratios = Object.keys(all[0].ratios);
  const cells = all.map(({ model, ratios: of }) => [
    model,
    ...ratios.map((one) => of[one].toFixed(3)),
  ]);
  console.log(`\nRatios of medians (below 1: the first is faster)\n`);
  console.log(table(['model', ...ratios], cells));
}
// onnxruntime-web keeps Node alive.
process.exit(0);

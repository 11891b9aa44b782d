// Latency: our sessions and those of onnxruntime-web take turns in one process.
//
//   node tests/bench/latency.mjs [NETWORK ...] [--rounds N] [--simd auto|relaxed|simd128] [--threads N]
//                                [--low w4a4,w2a8,...|all] [--json]
//
// --low adds networks of fewer than eight bits (the first and the last layer keep eight), and the bytes of
// files and packed weights.
//
// Networks: resnet18 resnet50 mobilenet_v2 resnet20 (default all), made on first use (networks.mjs); input is
// random. In every round each contender runs for some 40 ms, in an order that rotates. Ratios are those of
// one round, so that other load of the machine affects both sides. Before timing, the outputs of both engines
// on the same file are compared.

import { chosenForms, chosenNetworks, readArguments } from './arguments.mjs';
import {
  NETWORKS,
  bytesOf,
  checkAgreement,
  formatRatio,
  formatTimes,
  inputOf,
  makeNetworks,
  ratios,
  snr,
  spread,
  takeTurns,
} from './networks.mjs';

// The contenders: `engine` is ours or ort, with the file it runs.
const CONTENDERS = {
  float: { engine: 'ours', file: 'float' },
  int8: { engine: 'ours', file: 'qoperator', requantize: 'fixed' },
  'int8, 7-bit weights': { engine: 'ours', file: 'qoperator7', requantize: 'fixed' },
  'int8, same file': { engine: 'ours', file: 'qdq', requantize: 'float' },
  'ort float': { engine: 'ort', file: 'float' },
  'ort QDQ': { engine: 'ort', file: 'qdq' },
  'ort QOperator': { engine: 'ort', file: 'qoperator' },
};

const standards = { rounds: 15, simd: 'auto', threads: 1, low: '', json: false };
const { rounds, simd, threads, json, names, low } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
  low: chosenForms(values.low),
}));
for (const form of low) CONTENDERS[form] = { engine: 'ours', file: form, requantize: 'fixed' };

const ort = await import('onnxruntime-web');
const { InferenceSession, Tensor, engineInfo, env } = await import('requant');
const { table } = await import('requant/report');
ort.env.wasm.numThreads = threads;
ort.env.logLevel = 'error';
env.wasm.simd = simd;
env.wasm.numThreads = threads;

async function open(name, { engine, file, requantize }) {
  const { data, dims } = inputOf(name);
  const bytes = bytesOf(name, file);
  if (engine === 'ours') {
    const session = await InferenceSession.create(bytes, requantize ? { requantize } : {});
    const feeds = { input: new Tensor('float32', data, dims) };
    const packed = () => session.plan().memory.packedWeights;
    return { run: () => session.run(feeds), packed, release: () => session.release() };
  }
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  const feeds = { input: new ort.Tensor('float32', data, dims) };
  return { run: () => session.run(feeds), release: () => session.release() };
}

async function measure(name) {
  const rows = [];
  for (const [label, contender] of Object.entries(CONTENDERS)) {
    rows.push({ label, times: [], ...(await open(name, contender)) });
  }
  const outputs = {};
  for (const { label, run } of rows) outputs[label] = (await run()).output.data;
  const agreement = {
    float: checkAgreement(`${name} float`, 'float', outputs['ort float'], outputs.float),
    int8: checkAgreement(`${name} int8`, 'int8', outputs['ort QDQ'], outputs['int8, same file']),
    'int8 to float': snr(outputs.float, outputs.int8),
  };
  await takeTurns(rows, rounds);
  const timesOf = Object.fromEntries(rows.map(({ label, times }) => [label, times]));
  const bytes = Object.fromEntries(
    rows
      .filter(({ packed }) => packed)
      .map(({ label, packed }) => [
        label,
        { file: bytesOf(name, CONTENDERS[label].file).length, packed: packed() },
      ]),
  );
  for (const { release } of rows) await release();
  // The faster of their two forms is what a user of ONNX Runtime would choose.
  const better = ['ort QDQ', 'ort QOperator'].sort(
    (a, b) => spread(timesOf[a]).median - spread(timesOf[b]).median,
  )[0];
  const ours = ['int8', 'int8, 7-bit weights'].sort(
    (a, b) => spread(timesOf[a]).median - spread(timesOf[b]).median,
  )[0];
  const lowRatios = low.flatMap((form) =>
    [...new Set(['int8', ours, 'float', 'ort float', better])].map((slower) => [
      `${form} : ${slower}`,
      ratios(timesOf[slower], timesOf[form]),
    ]),
  );
  return {
    network: name,
    agreement,
    bytes,
    times: Object.fromEntries(rows.map(({ label, times }) => [label, spread(times)])),
    ortInt8: better,
    ratios: {
      'float : ort float': ratios(timesOf['ort float'], timesOf.float),
      'same file : ort int8': ratios(timesOf[better], timesOf['int8, same file']),
      'int8 : ort int8': ratios(timesOf[better], timesOf.int8),
      '7-bit : ort int8': ratios(timesOf[better], timesOf['int8, 7-bit weights']),
      'int8 : float': ratios(timesOf.float, timesOf.int8),
      '7-bit : float': ratios(timesOf.float, timesOf['int8, 7-bit weights']),
      ...Object.fromEntries(lowRatios),
    },
  };
}

function print({ network, agreement, bytes, times, ratios: faster }) {
  const { title, macs } = NETWORKS[network];
  const db = (value) => (value === Infinity ? 'exact' : `${value.toFixed(1)} dB`);
  console.log(
    `\n${title}, ${macs} million MACs; agreement with onnxruntime-web on one file: float ` +
      `${db(agreement.float)}, int8 ${db(agreement.int8)}\n`,
  );
  const cells = Object.entries(times).map(([label, of]) => [
    label,
    formatTimes(of),
    ((2 * macs) / of.median).toFixed(1),
  ]);
  console.log(table(['', 'ms: median [min-max]', 'GOPS'], cells));
  const lines = Object.entries(faster).map(([label, of]) => [label, formatRatio(of)]);
  console.log(`\n${table(['as fast as', 'median [min-max]'], lines)}`);
  if (low.length === 0) return;
  const megabytes = (value) => (value / 1e6).toFixed(2);
  const sizes = Object.entries(bytes).map(([label, { file, packed }]) => [
    label,
    megabytes(file),
    megabytes(packed),
  ]);
  console.log(`\n${table(['MB', 'file', 'packed weights'], sizes)}`);
}

await makeNetworks(names, low);
const { variant, threads: used } = await engineInfo();
if (threads > 1 && used !== threads) {
  console.error(`bench: this build of the package has no threads (npm run build has the option)`);
  process.exit(2);
}
const networks = [];
if (!json) {
  console.log(
    `Node ${process.versions.node}, engine ${variant}, threads ${threads}, ${rounds} rounds`,
  );
}
for (const name of names) {
  const result = await measure(name);
  networks.push(result);
  if (!json) print(result);
}
if (json) {
  const { node } = process.versions;
  console.log(JSON.stringify({ node, engine: variant, threads, rounds, networks }, null, 2));
}
// onnxruntime-web keeps Node alive.
process.exit(0);

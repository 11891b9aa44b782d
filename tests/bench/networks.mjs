// The networks of the benchmarks, which are made once into build/bench and quantized once by the package, and
// the functions and statistics that all benchmarks share.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { normals } from './numbers.js';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const FOLDER = path.join(ROOT, 'build/bench');
const NEW_NODE = path.join(ROOT, 'build/node/node_modules/node/bin/node');

/** Networks by name; `macs` is in millions of multiply-accumulate operations. */
export const NETWORKS = {
  resnet18: { title: 'ResNet-18', size: 224, macs: 1814 },
  resnet50: { title: 'ResNet-50', size: 224, macs: 4089 },
  mobilenet_v2: { title: 'MobileNetV2', size: 224, macs: 301 },
  resnet20: { title: 'ResNet-20', size: 32, macs: 41 },
};

/** Forms below eight bits: bits of weights and activations. The first and the last layer keep 8 bits. */
export const LOW_BITS = {
  w4a4: [4, 4],
  w4a8: [4, 8],
  w8a4: [8, 4],
  w2a8: [2, 8],
  w2a6: [2, 6],
  w2a4: [2, 4],
  w2a2: [2, 2],
  w1a2: [1, 2],
  w1a1: [1, 1],
};

/** Suffixes of a network's files, by kind. */
export const FILES = {
  float: '.onnx',
  qdq: '.qdq.onnx',
  qoperator: '.qoperator.onnx',
  qdq7: '.w7.qdq.onnx',
  qoperator7: '.w7.qoperator.onnx',
  ...Object.fromEntries(Object.keys(LOW_BITS).map((form) => [form, `.${form}.onnx`])),
};

export const fileOf = (name, kind) => path.join(FOLDER, name + FILES[kind]);

/** The input that every benchmark gives a network. */
export function inputOf(name, seed = 1) {
  const { size } = NETWORKS[name];
  return { data: normals(3 * size * size, seed), dims: [1, 3, size, size] };
}

/** Milliseconds of one run, averaged over `runs`. */
export async function time(run, runs) {
  const start = performance.now();
  for (let at = 0; at < runs; at++) await run();
  return (performance.now() - start) / runs;
}

/**
 * Times contenders in turns, each for about `roundMs` per round, in an order that rotates. A warm-up
 * precedes, because V8 compiles every function a second time with optimizations, and only the final code
 * counts. Fills `times` of every row with the milliseconds of one run for each round.
 * @param rows `{ run, times: [] }`, or rows with `time(runs)`, which gives the milliseconds of one run, if
 * they run elsewhere
 */
export async function takeTurns(rows, rounds, { roundMs = 40, warmUpMs = 1500 } = {}) {
  const runs = new Map();
  const timeOf = (row, count) => (row.time ? row.time(count) : time(row.run, count));
  for (const row of rows) {
    const start = performance.now();
    let least = Infinity;
    for (let at = 0; at < 5 || performance.now() - start < warmUpMs; at++) {
      least = Math.min(least, await timeOf(row, 1));
    }
    runs.set(row, Math.max(1, Math.round(roundMs / least)));
  }
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < rows.length; at++) {
      const row = rows[(at + round) % rows.length];
      row.times.push(await timeOf(row, runs.get(row)));
    }
  }
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Median, least and most. */
export function spread(values) {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** The ratios `slower / faster` round by round: 2 means that the second is twice as fast. */
export function ratios(slower, faster) {
  return spread(slower.map((time, round) => time / faster[round]));
}

/** Signal to noise ratio in dB of `got` compared with `expected`. */
export function snr(expected, got) {
  if (expected.length !== got.length) return -Infinity;
  let [signal, noise] = [0, 0];
  for (let at = 0; at < expected.length; at++) {
    signal += expected[at] ** 2;
    noise += (expected[at] - got[at]) ** 2;
  }
  return noise === 0 ? Infinity : 10 * Math.log10(signal / noise);
}

// Two engines differ only by the order of additions on a float file. On a quantized file they differ by
// single steps of rounding, which random weights propagate through all layers.
const LEAST_SNR = { float: 80, int8: 25 };

/** Throws if two engines that ran one file do not agree, so that no broken run is timed. */
export function checkAgreement(label, kind, expected, got) {
  const decibel = snr(expected, got);
  if (!(decibel >= LEAST_SNR[kind])) {
    throw new Error(`${label}: outputs differ, SNR ${decibel.toFixed(1)} dB`);
  }
  return decibel;
}

/** Formats a ratio: `1.52x [1.40-1.61]` */
export const formatRatio = ({ median: middle, min, max }) =>
  `${middle.toFixed(2)}x [${min.toFixed(2)}-${max.toFixed(2)}]`;

/** Formats times: `12.3 [11.9-14.0]` */
export const formatTimes = ({ median: middle, min, max }) => {
  const digits = middle < 10 ? 2 : 1;
  return `${middle.toFixed(digits)} [${min.toFixed(digits)}-${max.toFixed(digits)}]`;
};

/**
 * Restarts this script if that enables relaxed SIMD, which browsers have and Node 20 does not: with the newer
 * Node that `npm test` fetches, or else with flags. Returns if nothing is to be done.
 */
export function ensureNode() {
  if (Number(process.versions.node.split('.')[0]) >= 22) return;
  const flags = ['--experimental-wasm-relaxed-simd', '--no-liftoff'];
  if (process.execArgv.includes(flags[0])) return;
  const newer = existsSync(NEW_NODE);
  const args = [...(newer ? [] : flags), ...process.execArgv, ...process.argv.slice(1)];
  const { status } = spawnSync(newer ? NEW_NODE : process.execPath, args, { stdio: 'inherit' });
  process.exit(status ?? 1);
}

/** Makes the float networks that are missing. */
function makeFloat(names) {
  const missing = names.filter((name) => !existsSync(fileOf(name, 'float')));
  if (missing.length === 0) return;
  const python = process.env.REQUANT_PYTHON ?? '/usr/bin/python3';
  const script = path.join(ROOT, 'tests/bench/make_networks.py');
  console.error(`making ${missing.join(', ')} ...`);
  const { status } = spawnSync(python, [script, FOLDER, ...missing], { stdio: 'inherit' });
  if (status !== 0) {
    throw new Error(`${python} could not make the networks: needs python3-torch, python3-onnx`);
  }
}

// Whether a quantized file is newer than its float network.
function isFresh(name, kind) {
  const file = fileOf(name, kind);
  if (!existsSync(file)) return false;
  const { mtimeMs } = statSync(file);
  return mtimeMs >= statSync(fileOf(name, 'float')).mtimeMs;
}

async function quantizeOne(name, bits) {
  const { InferenceSession, Tensor, loadModel, quantize } = await import('requant');
  const feeds = (seed) => {
    const { data, dims } = inputOf(name, seed);
    return { input: new Tensor('float32', data, dims) };
  };
  console.error(`quantizing ${name}, ${bits} bits of weights ...`);
  const model = await loadModel(fileOf(name, 'float'));
  // Recovery is off, as it changes values and not time. Outputs are rounded, so that all formats can express
  // every layer.
  const quantized = await quantize(model, {
    calibration: [1, 2, 3, 4].map(feeds),
    config: { recover: [], floatOutputs: false, weights: { bits } },
  });
  const suffix = bits === 8 ? '' : String(bits);
  for (const format of ['qdq', 'qoperator']) {
    writeFileSync(fileOf(name, format + suffix), quantized.toOnnx({ format }));
  }
  // The file must give the same bits as the model that was quantized here.
  const direct = await InferenceSession.create(quantized);
  const read = await InferenceSession.create(fileOf(name, `qoperator${suffix}`), {
    requantize: 'fixed',
  });
  const float = await InferenceSession.create(model);
  const [a, b, c] = await Promise.all([direct, read, float].map((one) => one.run(feeds(9))));
  if (snr(a.output.data, b.output.data) !== Infinity) {
    throw new Error(`${name}: the exported file computes something else`);
  }
  const quality = snr(c.output.data, a.output.data);
  if (!(quality > 10)) throw new Error(`${name}: SNR against float ${quality.toFixed(1)} dB`);
  for (const one of [direct, read, float, quantized, model]) one.dispose();
}

/** Overrides of a config by which the first and the last layer of a quantized model keep 8 bits. */
export function edgesOf(quantized, activations = { bits: 8 }) {
  const layers = quantized.config.operators.filter(({ type }) =>
    ['Conv', 'Gemm', 'MatMul'].includes(type),
  );
  // Records are sorted by name; the float model's text has the order of the graph.
  const order = quantized.floatModel().toText({ maxConstantElements: 0 });
  const place = ({ name }) => order.indexOf(`"${name}"`);
  layers.sort((x, y) => place(x) - place(y));
  const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return {
    [escape(layers[0].name)]: { activations, weights: { bits: 8 } },
    [escape(layers.at(-1).name)]: { activations: { bits: 8 }, weights: { bits: 8 } },
  };
}

/** Writes a file whose 2-bit weights become -1 and 1, and whose activations, for one bit, become 0 and 1. */
async function binarized(file, activations) {
  const { loadModel, parseModel } = await import('requant');
  const model = await loadModel(file);
  let text = model.toText({ maxConstantElements: 1e9 }).replace(
    /^(const %.*: int8\[\d+, .*\] = \{)([-12 ,0]+)\}/gm, // with more than one dimension
    (_, head, numbers) => `${head}${numbers.replace(/-?\d/g, (w) => (w < 0 ? '-1' : '1'))}}`,
  );
  if (activations === 1) text = text.replace(/^(const %.*_high: uint8\[\] = )\{3\}/gm, '$1{1}');
  const binary = await parseModel(text);
  const bytes = binary.toOnnx();
  for (const one of [model, binary]) one.dispose();
  return bytes;
}

/** Quantizes a network to few bits. With random weights its results are noise, but its speed is real. */
async function quantizeLow(name, form) {
  const { Tensor, loadModel, quantize } = await import('requant');
  console.error(`quantizing ${name}, ${form} ...`);
  const { data, dims } = inputOf(name);
  const calibration = [{ input: new Tensor('float32', data, dims) }];
  const model = await loadModel(fileOf(name, 'float'));
  const probe = await quantize(model, {
    calibration,
    config: { recover: [], floatOutputs: false },
  });
  const [bits, activations] = LOW_BITS[form];
  const quantized = await quantize(model, {
    calibration,
    config: {
      recover: [],
      floatOutputs: false,
      weights: { bits: Math.max(bits, 2) },
      activations: { bits: Math.max(activations, 2) },
      operators: edgesOf(probe),
    },
  });
  const file =
    bits === 1
      ? await binarized(quantized.toOnnx({ format: 'qdq' }), activations)
      : quantized.toOnnx({ format: 'qdq', int2: true });
  writeFileSync(fileOf(name, form), file);
  for (const one of [probe, quantized, model]) one.dispose();
}

/** Makes all missing files of these networks and low-bit forms. */
export async function makeNetworks(names, forms = []) {
  mkdirSync(FOLDER, { recursive: true });
  makeFloat(names);
  for (const name of names) {
    for (const bits of [8, 7]) {
      const suffix = bits === 8 ? '' : '7';
      if (!isFresh(name, `qdq${suffix}`) || !isFresh(name, `qoperator${suffix}`)) {
        await quantizeOne(name, bits);
      }
    }
    for (const form of forms) if (!isFresh(name, form)) await quantizeLow(name, form);
  }
}

export const bytesOf = (name, kind) => new Uint8Array(readFileSync(fileOf(name, kind)));

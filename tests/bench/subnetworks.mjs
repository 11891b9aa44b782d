// Parts of networks as `requant extract` cuts them out, in float, 8 bits and 4 bits of weights and activations,
// and in onnxruntime-web, in turns on one thread.
//
//   node tests/bench/subnetworks.mjs [--rounds N] [--json] [CASE ...]
//
// CASE: see subnetwork_cases.mjs; all by default. Parts of pretrained networks are left out where ../shared is
// missing.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { readArguments } from './arguments.mjs';
import {
  FOLDER,
  checkAgreement,
  formatTimes,
  ratios,
  snr,
  spread,
  takeTurns,
} from './networks.mjs';
import { normals } from './numbers.js';
import { CASES } from './subnetwork_cases.mjs';

const { rounds, json, words } = readArguments({ rounds: 9, json: false });
const { InferenceSession, Tensor, loadModel, parseModel, quantize, quantizeDynamic } =
  await import('requant');
const { runCli } = await import('../../dist/cli/run.js');
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const unknown = words.find((name) => !CASES.some((one) => one.name === name));
if (unknown) {
  console.error(`subnetworks: no case ${unknown} (${CASES.map(({ name }) => name).join(', ')})`);
  process.exit(2);
}

/** Cuts a part out by the command; gives the name of its file. */
async function cut({ name, file, text, from, to, dims = {} }) {
  const folder = path.join(FOLDER, 'parts');
  mkdirSync(folder, { recursive: true });
  const slug = name.replaceAll(/\W+/g, '_');
  let whole = file;
  if (text) {
    whole = path.join(folder, `${slug}.whole.onnx`);
    const model = await parseModel(text());
    writeFileSync(whole, model.toOnnx());
    model.dispose();
  }
  const part = path.join(folder, `${slug}.onnx`);
  const errors = [];
  const streams = { out: () => {}, err: (line) => errors.push(line), tty: false };
  const sizes = Object.entries(dims).flatMap(([key, size]) => ['--dim', `${key}=${size}`]);
  const args = ['extract', whole, '--from', from, '--to', to, '-o', part, ...sizes];
  if ((await runCli(args, streams)) !== 0) throw new Error(`${name}: ${errors.join('')}`);
  return part;
}

/** Numbers for every input of a part: those that follow a ReLU are not negative. */
const feedsOf = (Type, inputs, seed, positive) =>
  Object.fromEntries(
    inputs.map(({ name, type, dims }, i) => {
      const sizes = dims.map((dim) => (typeof dim === 'number' && dim > 0 ? dim : 1));
      const count = sizes.reduce((a, b) => a * b, 1);
      const numbers = normals(count, 100 * seed + i).map((x) => (positive ? Math.max(x, 0) : x));
      const data = type === 'int64' ? BigInt64Array.from(numbers, (x) => BigInt(x | 0)) : numbers;
      return [name, new Type(type, data, sizes)];
    }),
  );

/** Quantizes a part; undefined if all of it stays in float. */
async function quantizeTo(bits, model, calibration) {
  const quantized = await quantize(model, {
    calibration,
    config: { recover: [], weights: { bits }, activations: { bits } },
  });
  if (quantized.config.operators.some((operator) => operator.quantized)) return quantized;
  quantized.dispose();
  return undefined;
}

async function measure(one) {
  const file = await cut(one);
  const bytes = new Uint8Array(readFileSync(file));
  const model = await loadModel(file);
  const { inputs } = model.info;
  const give = (Type, seed) => feedsOf(Type, inputs, seed, one.positive);
  const calibration = [1, 2, 3, 4].map((seed) => give(Tensor, seed));
  const forms = { int8: await quantizeTo(8, model, calibration) };
  // Recurrent layers have integers only with scales that follow each input.
  const dynamic = forms.int8 === undefined;
  forms.int8 ??= await quantizeDynamic(model);
  forms.w4a4 = await quantizeTo(4, model, calibration);
  const rows = [];
  const add = (label, session, feeds) =>
    rows.push({ label, session, times: [], run: () => session.run(feeds) });
  const [mine, theirs] = [give(Tensor, 9), give(ort.Tensor, 9)];
  const openOrt = (of) => ort.InferenceSession.create(of, { executionProviders: ['wasm'] });
  add('float', await InferenceSession.create(bytes), mine);
  add('ort float', await openOrt(bytes), theirs);
  for (const [form, quantized] of Object.entries(forms)) {
    if (quantized) add(form, await InferenceSession.create(quantized), mine);
  }
  const files = dynamic
    ? { dynamic: forms.int8.toOnnx() }
    : {
        qdq: forms.int8.toOnnx({ format: 'qdq' }),
        qoperator: forms.int8.toOnnx({ format: 'qoperator' }),
      };
  const theirInt8 = Object.keys(files).map((form) => `ort ${form}`);
  for (const [form, given] of Object.entries(files)) {
    add(`ort ${form}`, await openOrt(given), theirs);
  }
  const outputs = {};
  for (const row of rows) {
    const made = await row.run();
    outputs[row.label] = Object.values(made)[0].data.slice();
    // Results go into the same tensors again: new ones of some megabytes would cost more than the parts.
    const feeds = row.label.startsWith('ort') ? theirs : mine;
    row.run = () => row.session.run(feeds, made);
  }
  checkAgreement(one.name, 'float', outputs['ort float'], outputs.float);
  for (const label of theirInt8) {
    checkAgreement(one.name, 'int8', outputs[label], outputs.int8);
  }
  await takeTurns(rows, rounds, { roundMs: 40, warmUpMs: 800 });
  const times = Object.fromEntries(rows.map((row) => [row.label, spread(row.times)]));
  const of = (label) => rows.find((row) => row.label === label)?.times;
  const ortInt8 = theirInt8.sort((a, b) => times[a].median - times[b].median)[0];
  const against = (slow, fast) => (of(slow) && of(fast) ? ratios(of(slow), of(fast)) : undefined);
  const result = {
    source: one.source,
    operators: model.info.nodes.length,
    times,
    ortInt8,
    ratios: {
      float: against('ort float', 'float'),
      int8: against(ortInt8, 'int8'),
      w4a4: against('int8', 'w4a4'),
    },
    snr: Object.fromEntries(
      ['int8', 'w4a4']
        .filter((form) => outputs[form])
        .map((form) => [form, snr(outputs.float, outputs[form])]),
    ),
  };
  for (const { session } of rows) await session.release();
  for (const quantized of Object.values(forms)) quantized?.dispose();
  model.dispose();
  return result;
}

const cases = {};
for (const one of words.length > 0 ? CASES.filter(({ name }) => words.includes(name)) : CASES) {
  if (one.missing) {
    console.error(`${one.name}: left out, ${one.missing}`);
    continue;
  }
  cases[one.name] = await measure(one);
  if (json) continue;
  const { times, ortInt8, snr: noise } = cases[one.name];
  const cells = ['float', 'int8', 'w4a4', 'ort float', ortInt8].map((label) =>
    label && times[label] ? formatTimes(times[label]) : '-',
  );
  const decibels = Object.values(noise).map((value) => value.toFixed(1));
  console.log(`| ${[one.name, ...cells, decibels.join(' ')].join(' | ')} |`);
}
if (json) console.log(JSON.stringify({ rounds, cases }, null, 2));
process.exit();

// The gain of tune(): compares the kernels it finds with the default ones, and then both in new sessions, in
// turns.
//
//   node tests/bench/tune.mjs [NETWORK | FILE.onnx ...] [--forms int8,float,w4a4,w1a2,...] [--budget MS] [--rounds N]
//                             [--simd auto|relaxed|simd128] [--threads N] [--dims 1,3,48,192] [--set sr=16000 ...] [--json]
//
// A file runs as it is, on noise; the open dimensions of its first input are 1, or those of --dims, and --set
// gives all elements of an input a value. Networks are made in the requested forms.

import { readFileSync } from 'node:fs';
import { chosenNetworks, readArguments } from './arguments.mjs';
import {
  LOW_BITS,
  bytesOf,
  formatRatio,
  formatTimes,
  inputOf,
  makeNetworks,
  ratios,
  spread,
  takeTurns,
} from './networks.mjs';
import { noiseFor } from './noise.mjs';

const FILE_OF = { int8: 'qoperator', int7: 'qoperator7' };

const standards = {
  forms: 'int8',
  budget: 20000,
  rounds: 15,
  simd: 'auto',
  threads: 1,
  dims: '',
  set: [],
  json: false,
};
const read = (values) => {
  const files = values.words.filter((name) => name.endsWith('.onnx'));
  const networks = values.words.filter((name) => !files.includes(name));
  return {
    ...values,
    files,
    names: files.length > 0 && networks.length === 0 ? [] : chosenNetworks(networks),
    forms: values.forms.split(','),
    openDims: values.dims.split(',').filter(Boolean).map(Number),
    given: Object.fromEntries(
      values.set.map((text) => [text.split('=')[0], Number(text.split('=')[1])]),
    ),
  };
};
const { files, names, forms, openDims, given, budget, rounds, simd, threads, json } = readArguments(
  standards,
  read,
);
const { InferenceSession, Tensor, env, loadModel, tune } = await import('requant');
env.wasm.simd = simd;
await makeNetworks(
  names,
  forms.filter((form) => form in LOW_BITS),
);

async function measure(name, form) {
  const isFile = form === 'as it is';
  const model = await loadModel(
    isFile ? new Uint8Array(readFileSync(name)) : bytesOf(name, FILE_OF[form] ?? form),
    { numThreads: threads },
  );
  let feeds;
  if (isFile) {
    feeds = await noiseFor(model, openDims, given);
  } else {
    const { data, dims } = inputOf(name);
    feeds = { input: new Tensor('float32', data, dims) };
  }
  const planning = form === 'float' || isFile ? {} : { requantize: 'fixed' };
  const { tuning, steps } = await tune(model, { feeds, budget, ...planning });
  const rows = [];
  for (const options of [{}, { tuning }]) {
    const session = await InferenceSession.create(model, { ...planning, ...options });
    rows.push({ session, run: () => session.run(feeds), times: [] });
  }
  const outputs = [];
  for (const { run } of rows) outputs.push(Object.values(await run())[0].data);
  if (outputs[0].some((value, at) => value !== outputs[1][at])) {
    throw new Error(`${name}, ${form}: the outputs differ`);
  }
  await takeTurns(rows, rounds, { warmUpMs: 1000 });
  for (const { session } of rows) await session.release();
  model.dispose();
  const changed = steps.filter(
    ({ before, kernel, threads, panel, output }) =>
      before !== kernel || [threads, panel, output].some((setting) => setting !== undefined),
  );
  return {
    network: name,
    form,
    shapes: steps.length,
    changed,
    usual: spread(rows[0].times),
    tuned: spread(rows[1].times),
    faster: ratios(rows[0].times, rows[1].times),
  };
}

const results = [];
const tasks = [
  ...files.map((file) => [file, 'as it is']),
  ...names.flatMap((name) => forms.map((form) => [name, form])),
];
for (const [name, form] of tasks) {
  const result = await measure(name, form);
  results.push(result);
  if (json) continue;
  const { shapes, changed, usual, tuned, faster } = result;
  console.log(
    `${name}, ${form}: ${formatRatio(faster)}; ${formatTimes(usual)} -> ${formatTimes(tuned)} ms; ` +
      `${changed.length} of ${shapes} shapes changed`,
  );
  for (const { tuning, before, kernel, faster: times, ...settings } of changed) {
    const more = Object.entries(settings).map(([name, setting]) => `, ${name} ${setting}`);
    console.log(`    ${tuning}: ${before} -> ${kernel}${more.join('')}, ${times.toFixed(2)}x`);
  }
}
if (json) console.log(JSON.stringify({ rounds, budget, numThreads: threads, results }, null, 2));

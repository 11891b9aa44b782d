// What tune() gains: the kernels it finds against those that are chosen without, and then both in new
// sessions, turn by turn.
//
//   node tests/bench/tune.mjs [NETWORK | FILE.onnx ...] [--forms int8,float,w4a4,w1a2,...] [--budget MS] [--rounds N]
//                             [--simd auto|relaxed|simd128] [--threads N] [--dims 1,3,48,192] [--set sr=16000 ...] [--json]
//
// A file runs as it is, on noise; the open dimensions of its first input are 1, or those of --dims, and --set gives
// all elements of an input a value. The others are made in the forms that are asked for.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import {
  LOW_BITS,
  bytesOf,
  chosenNetworks,
  count,
  ensureNode,
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

ensureNode();
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    forms: { type: 'string', default: 'int8' },
    budget: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '15' },
    simd: { type: 'string', default: 'auto' },
    threads: { type: 'string', default: '1' },
    dims: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    json: { type: 'boolean', default: false },
  },
});
const files = positionals.filter((name) => name.endsWith('.onnx'));
const networks = positionals.filter((name) => !files.includes(name));
const names = files.length > 0 && networks.length === 0 ? [] : chosenNetworks(networks);
const rounds = count(values, 'rounds');
const budget = count(values, 'budget');
const numThreads = count(values, 'threads');
const forms = values.forms.split(',');
const openDims = (values.dims ?? '').split(',').filter(Boolean).map(Number);
const given = Object.fromEntries(
  values.set.map((text) => [text.split('=')[0], Number(text.split('=')[1])]),
);
const { InferenceSession, Tensor, env, loadModel, tune } = await import('requant');
env.wasm.simd = values.simd;
await makeNetworks(
  names,
  forms.filter((form) => form in LOW_BITS),
);

async function measure(name, form) {
  const isFile = form === 'as it is';
  const model = await loadModel(
    isFile ? new Uint8Array(readFileSync(name)) : bytesOf(name, FILE_OF[form] ?? form),
    { numThreads },
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
  if (values.json) continue;
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
if (values.json) console.log(JSON.stringify({ rounds, budget, numThreads, results }, null, 2));

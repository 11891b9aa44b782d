// What tune() gains: the kernels it finds against those that are chosen without, and then both in new
// sessions, turn by turn.
//
//   node tests/bench/tune.mjs [NETWORK ...] [--forms int8,float,w4a4,w1a2,...] [--budget MS] [--rounds N]
//                             [--simd auto|relaxed|simd128] [--threads N] [--json]

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
    json: { type: 'boolean', default: false },
  },
});
const names = chosenNetworks(positionals);
const rounds = count(values, 'rounds');
const budget = count(values, 'budget');
const numThreads = count(values, 'threads');
const forms = values.forms.split(',');
const { InferenceSession, Tensor, env, loadModel, tune } = await import('requant');
env.wasm.simd = values.simd;
await makeNetworks(
  names,
  forms.filter((form) => form in LOW_BITS),
);

async function measure(name, form) {
  const { data, dims } = inputOf(name);
  const feeds = { input: new Tensor('float32', data, dims) };
  const model = await loadModel(bytesOf(name, FILE_OF[form] ?? form), { numThreads });
  const planning = form === 'float' ? {} : { requantize: 'fixed' };
  const { tuning, steps } = await tune(model, { feeds, budget, ...planning });
  const rows = [];
  for (const options of [{}, { tuning }]) {
    const session = await InferenceSession.create(model, { ...planning, ...options });
    rows.push({ session, run: () => session.run(feeds), times: [] });
  }
  const outputs = [];
  for (const { run } of rows) outputs.push((await run()).output.data);
  if (form !== 'float' && outputs[0].some((value, at) => value !== outputs[1][at])) {
    throw new Error(`${name}, ${form}: the outputs differ`);
  }
  await takeTurns(rows, rounds, { warmUpMs: 1000 });
  for (const { session } of rows) await session.release();
  model.dispose();
  const changed = steps.filter(
    ({ before, kernel, threads }) => before !== kernel || threads !== undefined,
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
for (const name of names) {
  for (const form of forms) {
    const result = await measure(name, form);
    results.push(result);
    if (values.json) continue;
    const { shapes, changed, usual, tuned, faster } = result;
    console.log(
      `${name}, ${form}: ${formatRatio(faster)}; ${formatTimes(usual)} -> ${formatTimes(tuned)} ms; ` +
        `${changed.length} of ${shapes} shapes changed`,
    );
    for (const { tuning, before, kernel, threads, faster: times } of changed) {
      const split = threads === undefined ? '' : `, threads ${threads}`;
      console.log(`    ${tuning}: ${before} -> ${kernel}${split}, ${times.toFixed(2)}x`);
    }
  }
}
if (values.json) console.log(JSON.stringify({ rounds, budget, numThreads, results }, null, 2));

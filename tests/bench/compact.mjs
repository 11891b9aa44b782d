// Networks of few bits in less memory (`compact`): bytes of files, plans, weights and intermediates, and
// their cost in time. All forms take turns in one process.
//
//   node tests/bench/compact.mjs [NETWORK ...] [--low w4a4,w2a4,...|all] [--rounds N] [--json]
//
// W4A4 by default. "compact" keeps weights packed even if a machine is faster on whole bytes, and stores
// values of at most 16 codes two to a byte; "packed weights" forces the same kernels without packing values.

import { chosenForms, chosenNetworks, readArguments } from './arguments.mjs';
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

const standards = { rounds: 11, low: 'w4a4', json: false };
const { rounds, json, names, low } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
  low: chosenForms(values.low),
}));
const { InferenceSession, Tensor, engineInfo } = await import('requant');
const { table } = await import('requant/report');
await makeNetworks(names, low);

async function openForms(name) {
  const { data, dims } = inputOf(name);
  const feeds = { input: new Tensor('float32', data, dims) };
  const rows = [];
  const add = async (label, file, options) => {
    const bytes = bytesOf(name, file);
    const session = await InferenceSession.create(bytes, { requantize: 'fixed', ...options });
    const output = (await session.run(feeds)).output.data;
    const { memory } = session.plan();
    const sizes = {
      file: bytes.length,
      plan: session.toPlan().length,
      packedWeights: memory.packedWeights,
      arena: memory.arena,
      // Largest sum of tensors that exist at the same time.
      intermediates: memory.lowerBound,
    };
    rows.push({ label, sizes, output, times: [], run: () => session.run(feeds), session });
  };
  await add('int8', 'qoperator', {});
  for (const form of low) {
    await add(form, form, {});
    const kernels = { conv_q8: `conv_q8_narrow_${LOW_BITS[form][1] <= 4 ? 'x' : 'w'}` };
    await add(`${form}, packed weights`, form, { kernels });
    await add(`${form}, compact`, form, { compact: true });
  }
  return rows;
}

async function measure(name) {
  const rows = await openForms(name);
  for (const form of low) {
    const outputs = rows.filter(({ label }) => label.startsWith(form)).map(({ output }) => output);
    if (outputs.some((output) => output.some((value, at) => value !== outputs[0][at]))) {
      throw new Error(`${name}, ${form}: outputs differ`);
    }
  }
  await takeTurns(rows, rounds);
  for (const { session } of rows) await session.release();
  const timesOf = Object.fromEntries(rows.map(({ label, times }) => [label, times]));
  return {
    network: name,
    forms: rows.map(({ label, sizes, times }) => ({
      label,
      ...sizes,
      times: spread(times),
      againstInt8: ratios(timesOf.int8, times),
      againstUsual: ratios(timesOf[label.split(',')[0]], times),
    })),
  };
}

const networks = [];
for (const name of names) {
  const result = await measure(name);
  networks.push(result);
  if (json) continue;
  const kilobytes = (bytes) => (bytes / 1e3).toFixed(0);
  console.log(`\n${name}`);
  console.log(
    table(
      ['', 'file, kB', 'plan', 'weights', 'arena', 'tensors', 'ms', 'int8 : it', 'usual : it'],
      result.forms.map((form) => [
        form.label,
        ...[form.file, form.plan, form.packedWeights, form.arena, form.intermediates].map(
          kilobytes,
        ),
        formatTimes(form.times),
        formatRatio(form.againstInt8),
        formatRatio(form.againstUsual),
      ]),
    ),
  );
}
if (json) {
  const { variant } = await engineInfo();
  const { node } = process.versions;
  console.log(JSON.stringify({ node, engine: variant, rounds, networks }, null, 2));
}

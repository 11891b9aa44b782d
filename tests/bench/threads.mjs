// The gain of a second thread: sessions with one thread and with more take turns in one process.
//
//   node tests/bench/threads.mjs [NETWORK ...] [--rounds N] [--threads N] [--json]
//
// Outputs must be the same bits. A ratio is that of one round, as in latency.mjs.

import { chosenNetworks, readArguments } from './arguments.mjs';
import {
  NETWORKS,
  bytesOf,
  formatRatio,
  formatTimes,
  inputOf,
  makeNetworks,
  ratios,
  spread,
  takeTurns,
} from './networks.mjs';

const FORMS = {
  float: { file: 'float', options: {} },
  int8: { file: 'qoperator', options: { requantize: 'fixed' } },
};

const standards = { rounds: 15, threads: 2, json: false };
const { rounds, threads, json, names } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
}));
const { InferenceSession, Tensor } = await import('requant');
const { table } = await import('requant/report');

async function measure(name, { file, options }) {
  const { data, dims } = inputOf(name);
  const feeds = { input: new Tensor('float32', data, dims) };
  const rows = [];
  for (const numThreads of [1, threads]) {
    const session = await InferenceSession.create(bytesOf(name, file), { ...options, numThreads });
    const run = () => session.run(feeds);
    const first = (await run()).output.data;
    rows.push({ session, run, first, times: [] });
  }
  if (rows[0].first.some((value, index) => !Object.is(value, rows[1].first[index]))) {
    throw new Error(`${name}: the outputs depend on the number of threads`);
  }
  await takeTurns(rows, rounds, { roundMs: 60 });
  for (const { session } of rows) session.dispose();
  return {
    one: spread(rows[0].times),
    more: spread(rows[1].times),
    ratio: ratios(rows[0].times, rows[1].times),
  };
}

try {
  await makeNetworks(names);
  const results = {};
  for (const name of names) {
    results[name] = {};
    for (const [label, form] of Object.entries(FORMS)) {
      results[name][label] = await measure(name, form);
    }
  }
  if (json) {
    console.log(JSON.stringify({ threads, rounds, networks: results }, null, 2));
  } else {
    const cells = names.flatMap((name) =>
      Object.entries(results[name]).map(([label, { one, more, ratio }]) => [
        `${NETWORKS[name].title} ${label}`,
        formatTimes(one),
        formatTimes(more),
        formatRatio(ratio),
      ]),
    );
    console.log(table(['', 'one thread, ms', `${threads} threads, ms`, 'faster'], cells));
  }
} catch (error) {
  console.error(`threads: ${error.message}`);
  process.exit(1);
}

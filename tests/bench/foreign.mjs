// Models that other tools made (../shared/models/third_party): how far the outputs are from the reference
// files, here and in onnxruntime-web, and the times of both on the same file, in turns, one thread.
//
//   node tests/bench/foreign.mjs [--rounds N] [MODEL ...]

import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { FOREIGN, foreignModel } from '../node/shared_models.mjs';
import { readArguments } from './arguments.mjs';
import { formatRatio, formatTimes, ratios, spread } from './networks.mjs';

const { InferenceSession, Tensor } = await import('requant');
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
const QUIET = { logSeverityLevel: 3 };

const { rounds, words } = readArguments({ rounds: 11 });

/** "equal", or the largest error of all outputs by the largest magnitude of theirs. */
function distance(outputs, references) {
  let most = 0;
  for (const { name, data } of references) {
    let [error, scale] = [0, 0];
    for (const [at, value] of data.entries()) {
      error = Math.max(error, Math.abs(Number(outputs[name].data[at]) - Number(value)));
      scale = Math.max(scale, Math.abs(Number(value)));
    }
    if (error > 0) most = Math.max(most, error / scale);
  }
  return most === 0 ? 'equal' : most.toExponential(1);
}

async function row(name) {
  const { file, inputs, outputs } = foreignModel(name);
  const contenders = [
    { engine: ort, make: () => ort.InferenceSession.create(file, QUIET) },
    { engine: { Tensor }, make: () => InferenceSession.create(file, { requantize: 'float' }) },
  ];
  const runs = [];
  const cells = [];
  for (const { engine, make } of contenders) {
    try {
      const session = await make();
      const feeds = Object.fromEntries(
        inputs.map(({ name: key, type, data, dims }) => [key, new engine.Tensor(type, data, dims)]),
      );
      cells.push(distance(await session.run(feeds), outputs));
      runs.push(() => session.run(feeds));
    } catch (error) {
      cells.push('refused');
      runs.push(null);
      if (error.code) console.error(`${name}: ${error.message}`);
    }
  }
  if (runs.includes(null)) return [...cells, '-', '-', '-'];
  const times = runs.map(() => []);
  for (let round = -3; round < rounds; round++) {
    for (const [index, run] of runs.entries()) {
      const start = performance.now();
      await run();
      if (round >= 0) times[index].push(performance.now() - start);
    }
  }
  return [
    ...cells,
    formatTimes(spread(times[0])),
    formatTimes(spread(times[1])),
    formatRatio(ratios(times[0], times[1])),
  ];
}

console.log('| model | error: ORT | ours | ORT ms | ours | ratio |');
console.log('| --- | --- | --- | --- | --- | --- |');
// Those without reference outputs are refused by both engines.
const all = readdirSync(FOREIGN).filter((name) => existsSync(path.join(FOREIGN, name, 'io.json')));
for (const name of words.length > 0 ? words : all.sort()) {
  console.log(`| ${[name, ...(await row(name))].join(' | ')} |`);
}
process.exit(0);

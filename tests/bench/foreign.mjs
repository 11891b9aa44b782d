// Models of other tools (../shared/models/third_party): the errors of the outputs relative to the reference
// files, here and in onnxruntime-web, and the times of both on the same file, in turns on one thread.
//
//   node tests/bench/foreign.mjs [--rounds N] [--json] [MODEL ...]

import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { FOREIGN, foreignModel } from '../node/shared_models.mjs';
import { readArguments } from './arguments.mjs';
import { formatRatio, formatTimes, ratios, spread, takeTurns } from './networks.mjs';

const { InferenceSession, Tensor } = await import('requant');
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
const QUIET = { logSeverityLevel: 3 };

const { rounds, json, words } = readArguments({ rounds: 11, json: false });

/** "equal", or the largest error of all outputs relative to their largest magnitude. */
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

/**
 * Measures a model: `{ name, errors: { ort, ours }, times, ratio }`, without times if an engine refuses it.
 */
async function measure(name) {
  const { file, inputs, outputs } = foreignModel(name);
  const contenders = [
    { key: 'ort', engine: ort, make: () => ort.InferenceSession.create(file, QUIET) },
    {
      key: 'ours',
      engine: { Tensor },
      make: () => InferenceSession.create(file, { requantize: 'float' }),
    },
  ];
  const runs = [];
  const errors = {};
  for (const { key, engine, make } of contenders) {
    try {
      const session = await make();
      const feeds = Object.fromEntries(
        inputs.map(({ name: input, type, data, dims }) => [
          input,
          new engine.Tensor(type, data, dims),
        ]),
      );
      errors[key] = distance(await session.run(feeds), outputs);
      runs.push(() => session.run(feeds));
    } catch (error) {
      errors[key] = 'refused';
      runs.push(null);
      if (error.code) console.error(`${name}: ${error.message}`);
    }
  }
  if (runs.includes(null)) return { name, errors };
  const [theirs, ours] = runs.map((run) => ({ run, times: [] }));
  await takeTurns([theirs, ours], rounds, { warmUpMs: 400 });
  return {
    name,
    errors,
    times: { ort: spread(theirs.times), ours: spread(ours.times) },
    ratio: ratios(theirs.times, ours.times),
  };
}

if (!json) {
  console.log('| model | error: ORT | ours | ORT ms | ours | ratio |');
  console.log('| --- | --- | --- | --- | --- | --- |');
}
// Both engines refuse models without reference outputs.
const all = readdirSync(FOREIGN).filter((name) => existsSync(path.join(FOREIGN, name, 'io.json')));
const models = [];
for (const name of words.length > 0 ? words : all.sort()) {
  const model = await measure(name);
  models.push(model);
  if (json) continue;
  const { errors, times, ratio } = model;
  const speed = times
    ? [formatTimes(times.ort), formatTimes(times.ours), formatRatio(ratio)]
    : ['-', '-', '-'];
  console.log(`| ${[name, errors.ort, errors.ours, ...speed].join(' | ')} |`);
}
if (json) console.log(JSON.stringify({ rounds, models }, null, 2));
process.exit(0);

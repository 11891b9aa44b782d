// Calibrates one network in several processes, each on its share of the samples, and merges what they saw. The file is
// the same, bit for bit, as that of one process on all samples.
//
//   node demos/calibration/run.mjs [PROCESSES] [SAMPLES]        (after npm run build; default 3 and all)

import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { Calibration, loadModel, quantize } from 'requant';
import { CONFIG, MODEL, samples } from './task.mjs';

const count = Number(process.argv[2] ?? 3);
const all = await samples(process.argv[3]);
if (!Number.isInteger(count) || count < 1 || count > all.length) {
  console.error(`the number of processes must be from 1 to ${all.length}, not ${process.argv[2]}`);
  process.exit(2);
}

/** Starts a process for the samples from `first` to `end`; gives a function that asks it for a pass. */
function startShard(index) {
  const [first, end] = [index, index + 1].map((edge) => Math.floor((edge * all.length) / count));
  const child = fork(
    new URL('./shard.mjs', import.meta.url),
    [first, end, all.length].map(String),
    {
      serialization: 'advanced',
    },
  );
  const pass = (number, before) =>
    new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`process ${index} ended with ${code}`)));
      child.once('message', (state) => {
        child.removeAllListeners('exit');
        resolve(state);
      });
      child.send({ pass: number, before });
    });
  return { pass, end: () => child.disconnect(), size: end - first };
}

const began = performance.now();
const model = await loadModel(MODEL);
const whole = await Calibration.create(model, { config: CONFIG });
const shards = Array.from({ length: count }, (_, index) => startShard(index));
console.log(`${count} processes see ${shards.map(({ size }) => size).join(', ')} samples`);
for (let pass = 0; pass < whole.passes; pass++) {
  // A pass begins with all that the passes before it saw, in all processes.
  const before = pass > 0 ? whole.save(pass - 1) : undefined;
  const states = await Promise.all(shards.map((shard) => shard.pass(pass, before)));
  whole.load(pass, states[0]);
  for (const state of states.slice(1)) whole.merge(pass, state);
  const bytes = states.map((state) => state.length).join(', ');
  console.log(`pass ${pass + 1} of ${whole.passes}: merged ${bytes} bytes`);
}
for (const shard of shards) shard.end();
const merged = (await whole.finish()).toOnnx();
console.log(`took ${((performance.now() - began) / 1000).toFixed(1)} s`);

const alone = (await quantize(model, { calibration: all, config: CONFIG })).toOnnx();
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
console.log(`merged ${hash(merged)}, one process ${hash(alone)}`);
if (hash(merged) !== hash(alone)) {
  console.error('the files differ');
  process.exitCode = 1;
}

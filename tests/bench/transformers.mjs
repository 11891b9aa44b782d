// Pipelines of @huggingface/transformers on this engine and on onnxruntime-web, in turns on one thread, with models of
// the sizes of MiniLM, ViT-tiny, Whisper-tiny and others that tests/transformers makes.
//
//   node tests/bench/transformers.mjs [--rounds N] [--forms fp32,q8,q4] [--small] [--json] [TASK ...]

import path from 'node:path';
import { makeModels } from '../transformers/make.mjs';
import { FOLDER, install, loadTransformers } from '../transformers/package.mjs';
import { offline, pipelines } from '../transformers/pipelines.mjs';
import { readArguments } from './arguments.mjs';
import { formatRatio, formatTimes, ratios, spread } from './networks.mjs';

const standards = { rounds: 7, forms: 'fp32,q8,q4', small: false, json: false };
const { rounds, forms, small, json, words } = readArguments(standards);
const unknown = words.find((task) => !(task in pipelines));
if (unknown) throw new Error(`no task ${unknown} (${Object.keys(pipelines).join(', ')})`);

install();
const folder = path.join(FOLDER, small ? 'models' : 'large_models');
const chosen = forms.split(',');
makeModels(folder, chosen, !small);
const engines = {
  ours: offline(await loadTransformers('requant'), `${folder}/`),
  theirs: offline(await loadTransformers('onnxruntime-web'), `${folder}/`),
};

const rows = [];
for (const dtype of chosen) {
  for (const task of words.length > 0 ? words : Object.keys(pipelines)) {
    const { model, run } = pipelines[task];
    const pipes = {};
    const times = { ours: [], theirs: [] };
    const created = {};
    for (const [name, transformers] of Object.entries(engines)) {
      const start = performance.now();
      pipes[name] = await transformers.pipeline(task, model, { dtype, device: 'auto' });
      created[name] = performance.now() - start;
      await run(pipes[name], transformers);
    }
    for (let round = 0; round < rounds; round++) {
      for (const [name, transformers] of Object.entries(engines)) {
        const start = performance.now();
        await run(pipes[name], transformers);
        times[name].push(performance.now() - start);
      }
    }
    for (const pipe of Object.values(pipes)) await pipe.dispose();
    const ratio = ratios(times.theirs, times.ours);
    rows.push({
      task,
      dtype,
      created,
      ours: spread(times.ours),
      theirs: spread(times.theirs),
      ratio,
    });
    if (json) continue;
    const [ours, theirs] = [times.ours, times.theirs].map((list) => formatTimes(spread(list)));
    const line = [task.padEnd(30), dtype.padEnd(5), ours, theirs, formatRatio(ratio)];
    const opened = Object.values(created).map((ms) => ms.toFixed(0));
    console.log(line.join('  '), ` created in ${opened.join(' and ')} ms`);
  }
}
if (json) console.log(JSON.stringify({ rows }));

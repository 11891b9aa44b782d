// Makes web/model/default_tuning.ts, the records that come with the package: tunes models twice on this
// machine, and keeps the kernels that both runs found. Records of other kinds of devices, and of other
// models, stay.
//
//   node tests/bench/default_tuning.mjs FILE.onnx ... [--budget MS] [--simd auto|relaxed|simd128] [--dims 1,16000]

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import { readArguments } from './arguments.mjs';
import { ROOT } from './networks.mjs';
import { noiseFor } from './noise.mjs';

const {
  budget,
  simd,
  dims,
  words: files,
} = readArguments({ budget: 15000, simd: 'auto', dims: '' });
const openDims = dims.split(',').filter(Boolean).map(Number);
const FILE = path.join(ROOT, 'web/model/default_tuning.ts');
const { env, loadModel, tune } = await import('requant');
const { defaultKernels } = await import('../../dist/model/default_tuning.js');
const { deviceKind } = await import('../../dist/model/tuning.js');
env.wasm.simd = simd;

/** The records on which two tunings of a model agree. */
async function findTwice(model) {
  const feeds = await noiseFor(model, openDims);
  const runs = [];
  for (let at = 0; at < 2; at++) {
    const { steps } = await tune(model, { feeds, budget });
    const changed = steps.filter(({ before, kernel }) => before !== kernel);
    runs.push(new Map(changed.map(({ tuning, kernel }) => [tuning, kernel])));
  }
  return [...runs[0]].filter(([tuning, kernel]) => runs[1].get(tuning) === kernel);
}

const all = structuredClone(defaultKernels);
for (const file of files) {
  const model = await loadModel(new Uint8Array(readFileSync(file)));
  const kind = deviceKind(model.handle.core);
  // Compare with the defaults of a shape, not with earlier records.
  delete defaultKernels[kind];
  const found = await findTwice(model);
  model.dispose();
  all[kind] = { ...all[kind], ...Object.fromEntries(found) };
  console.log(`${file}, ${kind}: ${found.length}`);
}
const head = readFileSync(FILE, 'utf8').split('= {')[0];
const text = `${head}= ${JSON.stringify(all, null, 2)};\n`;
writeFileSync(FILE, await format(text, { ...(await resolveConfig(FILE)), parser: 'typescript' }));

// How many images a second train() learns from (forward, backward, update), beside PyTorch's CPU with as many
// threads. Networks of ../shared on random images, in turns: a batch each. Markdown, or --json, on stdout;
// progress on stderr.
//
//   node tests/bench/training_speed.mjs [network ...] [--batch 32] [--rounds 9] [--threads 1] [--json]
//
// PyTorch gets the graph that is trained here: optimized, with a BatchNorm2d behind every convolution, and Adam. "float"
// is train() of the float network from labels. "8 bits" is train() of the quantized network by the answers of the
// float network; PyTorch fakes the same grids. PyTorch needs python3-torch and python3-onnx.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Tensor, env, loadModel, quantize, train } from 'requant';
import { modelPath } from '../node/shared_models.mjs';
import { readArguments } from './arguments.mjs';
import { formatRatio, median, ratios } from './networks.mjs';
import { uniform } from './numbers.js';

const { words, batch, rounds, threads, python, json } = readArguments({
  batch: 32,
  rounds: 9,
  threads: 1,
  python: '/usr/bin/python3',
  json: false,
});
const names =
  words.length > 0 ? words : ['resnet8_cifar10', 'resnet20_cifar10', 'mobilenet_v1_025_224'];
env.wasm.numThreads = threads;
const script = join(dirname(fileURLToPath(import.meta.url)), 'training_torch.py');
const folder = mkdtempSync(join(tmpdir(), 'training-'));

/** A process that trains one batch for each call, and answers with its seconds. */
async function torch(file, bits) {
  const child = spawn(
    python,
    [script, file, '--batch', batch, '--fake-quantize', bits, '--threads', threads].map(String),
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  if ((await lines.next()).value !== 'ready') throw new Error('PyTorch did not start');
  return {
    async step() {
      child.stdin.write('\n');
      return Number((await lines.next()).value);
    },
    end: () => child.stdin.end(),
  };
}

/** A training whose batches start when they are asked for. */
function ours(start, samples) {
  let begin = () => {};
  let finished = () => {};
  const asked = () => new Promise((resolve) => (begin = resolve));
  let next = asked();
  async function* dataset() {
    yield samples[0]; // the buffer of `shuffle` holds one
    for (;;) {
      if (await next) return;
      next = asked();
      yield* samples;
    }
  }
  let began = 0;
  const done = start({
    dataset: dataset(),
    epochs: 1,
    batchSize: batch,
    shuffle: 1,
    keep: 'last',
    onProgress: ({ done: count }) => count > 0 && finished((performance.now() - began) / 1000),
  });
  return {
    step: () =>
      new Promise((resolve) => {
        finished = resolve;
        began = performance.now();
        begin(false);
      }),
    async end() {
      begin(true);
      (await done).dispose();
    },
  };
}

const networks = {};
for (const name of names) {
  const model = await loadModel(modelPath(name));
  const [input] = model.info.inputs;
  const dims = input.dims.map((dim) => (typeof dim === 'number' ? dim : 1));
  const size = dims.reduce((a, b) => a * b, 1);
  const samples = Array.from({ length: batch }, (_, index) => ({
    feeds: { [input.name]: new Tensor('float32', uniform(size, index + 1), dims) },
    label: index % 10,
  }));
  const plain = model.clone();
  plain.optimize();
  const file = join(folder, `${name}.onnx`);
  writeFileSync(file, plain.toOnnx());
  plain.dispose();
  const quantized = await quantize(model, {
    calibration: samples.slice(0, 8).map(({ feeds }) => feeds),
    config: { recover: [] },
  });
  const rows = [
    ['float', 0, (options) => train(model, options)],
    ['8 bits', 8, (options) => train(quantized, { ...options, labelShare: 0 })],
  ];
  networks[name] = {};
  for (const [title, bits, start] of rows) {
    const pair = [ours(start, samples), await torch(file, bits)];
    const seconds = [[], []];
    for (let round = -2; round < rounds; round++) {
      for (const [at, one] of pair.entries()) {
        const took = await one.step();
        if (round >= 0) seconds[at].push(took);
      }
      console.error(name, title, round, ...seconds.map((all) => all.at(-1)?.toFixed(3) ?? ''));
    }
    for (const one of pair) await one.end();
    const [mine, theirs] = seconds;
    const perSecond = (all) => batch / median(all);
    networks[name][title] = {
      images: { requant: perSecond(mine), torch: perSecond(theirs) },
      ratio: ratios(theirs, mine),
    };
  }
  quantized.dispose();
  model.dispose();
}
rmSync(folder, { recursive: true });
if (json) {
  console.log(JSON.stringify({ batch, rounds, threads, networks }, null, 2));
} else {
  console.log('| network | | images a second | PyTorch | times as fast |');
  console.log('| --- | --- | ---: | ---: | ---: |');
  for (const [name, of] of Object.entries(networks)) {
    for (const [title, { images, ratio }] of Object.entries(of)) {
      const cells = [images.requant.toFixed(0), images.torch.toFixed(0), formatRatio(ratio)];
      console.log(`| ${[name, title, ...cells].join(' | ')} |`);
    }
  }
}
process.exit();

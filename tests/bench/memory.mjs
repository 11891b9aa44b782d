// Resident memory of a Node process that runs one 8-bit network: the memory that an engine and its model add
// to a bare Node.
//
//   node tests/bench/memory.mjs [NETWORK ...] [--repeats N] [--simd auto|relaxed|simd128] [--json]
//
// Default: mobilenet_v2 resnet50. Every figure comes from a new process, which runs the same QDQ file (read
// from disk by the engine itself) 20 times, collects garbage and reads /proc/self/status. `peak` is the
// largest resident size at any time (VmHWM), `steady` the size at the end (VmRSS). Linux only.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chosenNetworks, readArguments } from './arguments.mjs';
import { NETWORKS, fileOf, inputOf, makeNetworks, median, spread } from './networks.mjs';

const RUNS = 20;
const self = fileURLToPath(import.meta.url);

// The programs of the measured processes.
const CHILDREN = {
  async bare() {},
  async ours(name, simd) {
    const { InferenceSession, Tensor, env } = await import('requant');
    env.wasm.simd = simd;
    const session = await InferenceSession.create(fileOf(name, 'qdq'));
    const { data, dims } = inputOf(name);
    const feeds = { input: new Tensor('float32', data, dims) };
    for (let run = 0; run < RUNS; run++) await session.run(feeds);
    return session;
  },
  async ort(name) {
    const ort = await import('onnxruntime-web');
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = 'error';
    const session = await ort.InferenceSession.create(fileOf(name, 'qdq'));
    const { data, dims } = inputOf(name);
    const feeds = { input: new ort.Tensor('float32', data, dims) };
    for (let run = 0; run < RUNS; run++) await session.run(feeds);
    return session;
  },
};

async function child(kind, name, simd) {
  const kept = await CHILDREN[kind](name, simd);
  // Wait for V8's background compilation and its late deallocations.
  for (let at = 0; at < 4; at++) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  const status = readFileSync('/proc/self/status', 'utf8');
  const mebibytes = (key) => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)[1]) / 1024;
  console.log(JSON.stringify({ steady: mebibytes('VmRSS'), peak: mebibytes('VmHWM') }));
  process.exit(kept === null ? 1 : 0);
}

function inProcess(...args) {
  const flags = process.execArgv.filter((flag) => flag !== '--expose-gc');
  const output = execFileSync(
    process.execPath,
    [...flags, '--expose-gc', self, '--child', ...args],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  return JSON.parse(output);
}

async function main() {
  const standards = { repeats: 5, simd: 'auto', json: false };
  const { repeats, simd, json, names } = readArguments(standards, (values) => ({
    ...values,
    names: values.words.length > 0 ? chosenNetworks(values.words) : ['mobilenet_v2', 'resnet50'],
  }));
  await makeNetworks(names);
  const { table } = await import('requant/report');
  const bare = [];
  const samples = Object.fromEntries(names.map((name) => [name, { ours: [], ort: [] }]));
  for (let repeat = 0; repeat < repeats; repeat++) {
    bare.push(inProcess('bare', names[0], simd));
    for (const name of names) {
      for (const kind of ['ours', 'ort']) {
        samples[name][kind].push(inProcess(kind, name, simd));
      }
    }
  }
  const results = names.flatMap((network) =>
    ['steady', 'peak'].map((what) => {
      const base = median(bare.map((one) => one[what]));
      const [ours, ort] = ['ours', 'ort'].map((kind) =>
        spread(samples[network][kind].map((one) => one[what] - base)),
      );
      return { network, what, base, ours, ort, ratio: ours.median / ort.median };
    }),
  );
  if (json) {
    console.log(JSON.stringify({ node: process.versions.node, repeats, results }, null, 2));
    return;
  }
  console.log(`MiB over a bare Node ${process.versions.node}; median of ${repeats} processes\n`);
  const cells = results.map(({ network, what, base, ours, ort, ratio }) => [
    NETWORKS[network].title,
    what,
    base.toFixed(1),
    ...[ours, ort].map(
      (of) => `${of.median.toFixed(1)} [${of.min.toFixed(1)}-${of.max.toFixed(1)}]`,
    ),
    `${(100 * ratio).toFixed(0)} %`,
  ]);
  console.log(table(['', '', 'bare', 'ours', 'onnxruntime-web', 'ours : theirs'], cells));
}

if (process.argv[2] === '--child') {
  await child(...process.argv.slice(3));
} else {
  await main().catch((error) => {
    console.error(`memory: ${error.message}`);
    process.exitCode = 2;
  });
}

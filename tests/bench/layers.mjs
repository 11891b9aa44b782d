// How much of what the instructions allow the convolutions reach: the best register tile of every
// arithmetic (tiles.cpp) is the ceiling, the profile of whole networks gives the layers.
//
//   node tests/bench/layers.mjs [NETWORK ...] [--rounds N] [--all] [--json]
//
// GOPS = 2 x multiply-accumulates / s. --all prints every layer of every form, not only the slowest of two. Tiles and
// networks take turns, and the median over the rounds counts. Needs clang++-19 and wasm-ld-19.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import {
  FOLDER,
  LOW_BITS,
  NETWORKS,
  ROOT,
  bytesOf,
  chosenNetworks,
  count,
  ensureNode,
  inputOf,
  makeNetworks,
  median,
} from './networks.mjs';

const DEPTH = 512; // of the tiles: both operands fit the first cache
const TILE_CALLS = 3000;
const RUNS = { resnet18: 4, resnet50: 2, mobilenet_v2: 12, resnet20: 80 };

// The ceiling that a kernel is held against, by the beginning of its name; longest first.
const ARITHMETIC = [
  ['conv_q8_dot8', 'dot8'],
  ['conv_q8_dot7', 'dot7'],
  ['conv_q8_narrow', 'narrow'],
  ['conv_q8', 'i16'],
  ['conv_f32', 'f32'],
];
const FIXED = { requantize: 'fixed' };
const FORMS = {
  float: { file: 'float' },
  int8: { file: 'qoperator', options: FIXED },
  'int8 by i16 products': {
    file: 'qoperator',
    options: { ...FIXED, kernels: { conv_q8: 'conv_q8_vector' } },
  },
  '7-bit weights by relaxed dots': {
    file: 'qoperator7',
    options: { ...FIXED, kernels: { conv_q8: 'conv_q8_dot7' } },
  },
};

for (const form of ['w4a4', 'w4a8', 'w8a4']) {
  FORMS[form] = {
    file: form,
    options: { ...FIXED, kernels: { conv_q8: `conv_q8_narrow_${form === 'w4a8' ? 'w' : 'x'}` } },
  };
}

ensureNode();
let values;
let names;
let rounds;
try {
  const parsed = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '9' },
      all: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  values = parsed.values;
  names = chosenNetworks(parsed.positionals);
  rounds = count(values, 'rounds');
} catch (error) {
  console.error(`layers: ${error.message}`);
  process.exit(2);
}
const { InferenceSession, Tensor } = await import('requant');
const { table } = await import('requant/report');

function run(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command}: ${error?.message ?? `exit status ${status}`}`);
}

/** Functions (a, b, depth, out) by name, from tiles.cpp. */
async function buildTiles() {
  mkdirSync(FOLDER, { recursive: true });
  const object = path.join(FOLDER, 'tiles.o');
  const module = path.join(FOLDER, 'tiles.wasm');
  run('clang++-19', [
    ...['--target=wasm32', '-std=c++20', '-O3', '-ffreestanding', '-nostdlib', '-nostdinc++'],
    ...['-msimd128', '-mrelaxed-simd', '-DREQUANT_RELAXED=1', '-DREQUANT_KERNEL_MODULE=1'],
    ...[`-I${path.join(ROOT, 'src')}`, '-c', path.join(ROOT, 'tests/bench/tiles.cpp')],
    ...['-o', object],
  ]);
  run('wasm-ld-19', ['--no-entry', '--import-memory', object, '-o', module]);
  const memory = new WebAssembly.Memory({ initial: 64 });
  const { instance } = await WebAssembly.instantiate(readFileSync(module), { env: { memory } });
  return { memory, tiles: instance.exports };
}

const A = 1 << 20;
const B = 2 << 20;
const OUT = 3 << 20;

function timeTile({ memory, tiles }, name) {
  // Ordinary numbers: denormal floats would cost tens of cycles each.
  if (name.startsWith('f32')) new Float32Array(memory.buffer, A, 1 << 19).fill(0.75);
  else new Uint8Array(memory.buffer, A, 2 << 20).fill(21);
  const [rows, vectors] = name
    .match(/(\d)x(\d)$/)
    .slice(1)
    .map(Number);
  const start = performance.now();
  for (let call = 0; call < TILE_CALLS; call++) tiles[name](A, B, DEPTH, OUT);
  const operations = 2 * rows * vectors * 4 * DEPTH * TILE_CALLS;
  return operations / (performance.now() - start) / 1e6;
}

async function openForm(name, { file, options }) {
  const session = await InferenceSession.create(bytesOf(name, file), { ...options, profile: true });
  const { data, dims } = inputOf(name);
  const feeds = { input: new Tensor('float32', data, dims) };
  await session.run(feeds);
  return { session, feeds, layers: session.profile().map(() => []) };
}

/** Appends the milliseconds of one run of every step. */
async function profileRound(form, runs) {
  const before = form.session.profile();
  for (let at = 0; at < runs; at++) await form.session.run(form.feeds);
  form.session.profile().forEach((step, index) => {
    form.layers[index].push((step.milliseconds - before[index].milliseconds) / runs);
  });
}

function summarize(form, ceilings) {
  const steps = form.session.profile();
  const plan = form.session.plan().steps;
  const rows = steps.map(({ name, op, kernel, macs }, index) => {
    const dims = plan[index].output?.dims ?? [];
    const depth = macs / dims.reduce((a, b) => a * b, 1);
    const milliseconds = median(form.layers[index]);
    const arithmetic = ARITHMETIC.find(([prefix]) => kernel.startsWith(prefix))?.[1];
    const gops = macs > 0 ? (2 * macs) / milliseconds / 1e6 : 0;
    const ceiling = arithmetic && ceilings[arithmetic];
    return { name, op, kernel, macs, depth, dims, milliseconds, gops, share: gops / ceiling };
  });
  // 1x1 and 3x3 with at least 64 channels on both sides; 147 = 7 x 7 x 3 is a first layer.
  const wide = rows.filter(
    ({ depth, dims, share }) => share > 0 && depth >= 64 && depth !== 147 && dims[1] >= 64,
  );
  const total = (list, key) => list.reduce((sum, row) => sum + row[key], 0);
  const rate = (list) => (2 * total(list, 'macs')) / total(list, 'milliseconds') / 1e6;
  // Layers that keep eight bits have another ceiling: the one of the layers that take longest counts.
  const main = [...wide].sort((a, b) => b.milliseconds - a.milliseconds)[0];
  const ceiling = main ? main.gops / main.share : NaN;
  return {
    rows,
    milliseconds: total(rows, 'milliseconds'),
    network: rate(rows),
    wide: wide.length > 0 ? rate(wide) : NaN,
    least: Math.min(...wide.map(({ share }) => share)),
    ceiling,
  };
}

try {
  await makeNetworks(
    names,
    Object.keys(LOW_BITS).filter((form) => form in FORMS),
  );
  const built = await buildTiles();
  const tileNames = Object.keys(built.tiles).filter((name) => /_\dx\d$/.test(name));
  const tileRates = Object.fromEntries(tileNames.map((name) => [name, []]));
  for (const name of tileNames) timeTile(built, name); // V8 compiles
  const results = {};
  for (const name of names) {
    const forms = {};
    for (const [label, form] of Object.entries(FORMS)) forms[label] = await openForm(name, form);
    for (let round = 0; round <= rounds; round++) {
      for (const tile of tileNames) tileRates[tile].push(timeTile(built, tile));
      for (const form of Object.values(forms)) {
        await profileRound(form, RUNS[name]);
        if (round === 0) for (const layer of form.layers) layer.length = 0; // V8 compiles
      }
    }
    results[name] = forms;
  }
  const ceilings = {};
  for (const tile of tileNames) {
    const arithmetic = tile.split('_')[0];
    ceilings[arithmetic] = Math.max(ceilings[arithmetic] ?? 0, median(tileRates[tile]));
  }
  const summaries = {};
  for (const name of names) {
    summaries[name] = Object.fromEntries(
      Object.entries(results[name]).map(([label, form]) => [label, summarize(form, ceilings)]),
    );
  }
  if (values.json) {
    console.log(JSON.stringify({ ceilings, networks: summaries }, null, 2));
    process.exit(0);
  }
  console.log('Ceilings, GOPS: the best register tile of each arithmetic');
  for (const [arithmetic, gops] of Object.entries(ceilings)) {
    console.log(`  ${arithmetic.padEnd(5)} ${gops.toFixed(0)}`);
  }
  const percent = (value) => (Number.isFinite(value) ? `${(100 * value).toFixed(0)} %` : '');
  for (const name of names) {
    console.log(`\n${NETWORKS[name].title}`);
    console.log(
      table(
        ['', 'ms', 'GOPS', 'of ceiling', '>= 64 channels, GOPS', 'of ceiling', 'least layer'],
        Object.entries(summaries[name]).map(([label, s]) => [
          label,
          s.milliseconds.toFixed(2),
          s.network.toFixed(0),
          percent(s.network / s.ceiling),
          s.wide.toFixed(0),
          percent(s.wide / s.ceiling),
          percent(s.least),
        ]),
      ),
    );
    for (const [form, { rows }] of Object.entries(summaries[name])) {
      if (!values.all && form !== 'int8' && form !== 'w4a4') continue;
      const slowest = [...rows].sort((a, b) => b.milliseconds - a.milliseconds);
      console.log(
        table(
          [`${form} layer`, 'kernel', 'output', 'depth', 'ms', 'GOPS', 'of ceiling'],
          slowest
            .slice(0, values.all ? undefined : 12)
            .map((row) => [
              `${row.op} ${row.name}`,
              row.kernel,
              row.dims.join(' x '),
              row.macs > 0 ? row.depth.toFixed(0) : '',
              row.milliseconds.toFixed(3),
              row.gops > 0 ? row.gops.toFixed(0) : '',
              percent(row.share),
            ]),
        ),
      );
    }
  }
} catch (error) {
  console.error(`layers: ${error.message}`);
  process.exit(1);
}

// How much of what the instructions allow the convolutions reach: the best register tile of every
// arithmetic (tiles.cpp, bit_tiles.cpp) is the ceiling, the profile of whole networks gives the layers.
//
//   node tests/bench/layers.mjs [NETWORK ...] [--rounds N] [--all] [--apart] [--chromium] [--json]
//
// --apart: additions are steps of their own, so that convolutions alone are held against the ceiling.
// GOPS = 2 x multiply-accumulates / s. --all prints every layer of every form, not only the slowest of two. Tiles and
// networks take turns, and the median over the rounds counts. Needs clang++-19 and wasm-ld-19.

import path from 'node:path';
import { chosenNetworks, readArguments } from './arguments.mjs';
import { LOW_BITS, NETWORKS, fileOf, makeNetworks, median } from './networks.mjs';
import { openPlace } from './place.mjs';
import { buildTiles } from './tiles.mjs';

const DEPTH = 512; // of the tiles: both operands fit the first cache
const BIT_DEPTH = 1024; // of those of bits
const TILE_CALLS = 3000;
const RUNS = { resnet18: 4, resnet50: 2, mobilenet_v2: 12, resnet20: 80 };

// The ceiling that a kernel is held against, by the beginning of its name; longest first.
const ARITHMETIC = [
  ['conv_q8_dot8', 'dot8'],
  ['conv_q8_dot7', 'dot7'],
  ['conv_q8_narrow_w', 'widened'],
  ['conv_q8_narrow', 'narrow'],
  ['conv_q8', 'i16'],
  ['conv_f32', 'f32'],
];
/** The loop behind a layer: of lookups, the one of weights of one bit by as many codes of the input. */
function arithmeticOf({ kernel, tuning }) {
  if (kernel === 'conv_q8_lookup') {
    const [, lowest, highest] = /codes (\S+) to (\S+),/.exec(tuning);
    const range = Number(highest) - Number(lowest);
    return range === 1 ? 'lookup' : range < 4 ? 'lookup_a2' : 'lookup_a4';
  }
  return ARITHMETIC.find(([prefix]) => kernel.startsWith(prefix))?.[1];
}
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

FORMS.w1a1 = { file: 'w1a1', options: FIXED };

const standards = { rounds: 9, all: false, apart: false, chromium: false, json: false };
const { rounds, all, apart, chromium, json, names } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
}));
const { table } = await import('requant/report');
const { loadModel } = await import('requant');

/** The integers that sums read: taps of a session, behind which no layer adds. */
async function addends(file) {
  const model = await loadModel(file);
  const { nodes } = model.info;
  model.dispose();
  const pairs = nodes.filter(({ op }) => op === 'DequantizeLinear');
  const integers = new Map(pairs.map(({ inputs, outputs }) => [outputs[0], inputs[0]]));
  const sums = nodes.filter(({ op }) => op === 'Add' || op === 'QLinearAdd');
  return [
    ...new Set(
      sums.flatMap(({ op, inputs }) =>
        [inputs[0], inputs[op === 'Add' ? 1 : 3]].map((name) => integers.get(name) ?? name),
      ),
    ),
  ];
}

/** A form's session in the place, and room for the milliseconds of its steps. */
async function openForm(place, name, label, { file, options }) {
  const key = `${name} ${label}`;
  const spec = { file: path.basename(fileOf(name, file)), numbers: 'normals' };
  const taps = apart ? await addends(fileOf(name, file)) : [];
  await place.call('open', key, { ...spec, options: { ...options, taps, profile: true } });
  const steps = await place.call('steps', key);
  return { key, steps, layers: steps.map(() => []) };
}

function summarize(form, ceilings) {
  const rows = form.steps.map((step, index) => {
    const { name, op, kernel, macs, dims } = step;
    const depth = macs / dims.reduce((a, b) => a * b, 1);
    const milliseconds = median(form.layers[index]);
    const arithmetic = arithmeticOf(step);
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
  const place = await openPlace({ chromium });
  const bits = new Set();
  const timeTile = (name) =>
    place.call('timeTile', name, bits.has(name) ? BIT_DEPTH : DEPTH, TILE_CALLS);
  const tileRates = {};
  for (const name of await place.call('loadTiles', [
    buildTiles('bit_tiles', ['-fno-unroll-loops']),
  ])) {
    bits.add(name);
  }
  for (const name of await place.call('loadTiles', [buildTiles('tiles')])) {
    tileRates[name] = [];
    await timeTile(name); // V8 compiles
  }
  const results = {};
  for (const name of names) {
    const forms = {};
    for (const [label, form] of Object.entries(FORMS)) {
      forms[label] = await openForm(place, name, label, form);
    }
    for (let round = 0; round <= rounds; round++) {
      for (const tile of Object.keys(tileRates)) tileRates[tile].push(await timeTile(tile));
      for (const { key, layers } of Object.values(forms)) {
        const milliseconds = await place.call('profile', key, RUNS[name]);
        if (round === 0) continue; // V8 compiles
        milliseconds.forEach((time, step) => layers[step].push(time));
      }
    }
    for (const { key } of Object.values(forms)) await place.call('close', key);
    results[name] = forms;
  }
  await place.close();
  const ceilings = {};
  for (const tile of Object.keys(tileRates)) {
    const arithmetic = tile.replace(/_[\dx]+$/, '');
    ceilings[arithmetic] = Math.max(ceilings[arithmetic] ?? 0, median(tileRates[tile]));
  }
  const summaries = {};
  for (const name of names) {
    summaries[name] = Object.fromEntries(
      Object.entries(results[name]).map(([label, form]) => [label, summarize(form, ceilings)]),
    );
  }
  if (json) {
    console.log(JSON.stringify({ place: place.name, ceilings, networks: summaries }, null, 2));
    process.exit(0);
  }
  console.log(`${place.name}, ${rounds} rounds\n`);
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
      if (!all && form !== 'int8' && form !== 'w4a4') continue;
      const slowest = [...rows].sort((a, b) => b.milliseconds - a.milliseconds);
      console.log(
        table(
          [`${form} layer`, 'kernel', 'output', 'depth', 'ms', 'GOPS', 'of ceiling'],
          slowest
            .slice(0, all ? undefined : 12)
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

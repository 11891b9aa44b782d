// The performance of convolutions relative to what the instructions allow: the best register tile of every
// arithmetic (tiles.cpp, bit_tiles.cpp) is the ceiling, and profiles of whole networks give the layers.
//
//   node tests/bench/layers.mjs [NETWORK ...] [--rounds N] [--all] [--apart] [--chromium] [--json]
//
// --apart makes additions steps of their own, so that convolutions alone are compared with the ceiling. GOPS
// = 2 x multiply-accumulates / s of the definition; the share of a ceiling counts the products of the kernel.
// --all prints every layer of every form, not only the slowest of two. A round times the tiles of a form
// directly before and after its network, so that a change of the clock affects both; the results are medians
// over the rounds. Needs clang++-19 and wasm-ld-19.

import path from 'node:path';
import { chosenNetworks, readArguments } from './arguments.mjs';
import { LOW_BITS, NETWORKS, fileOf, makeNetworks, median } from './networks.mjs';
import { openPlace } from './place.mjs';
import { buildTiles, productsOf } from './tiles.mjs';

const DEPTH = 512; // depth of the tiles: both operands fit the first-level cache
const BIT_DEPTH = 1024; // depth of the tiles of bits
const TILE_CALLS = 3000;
const TILE_ROUNDS = 5; // number of rounds after which the best tile of every arithmetic is known
const RUNS = { resnet18: 4, resnet50: 2, mobilenet_v2: 12, resnet20: 80 };

// The ceiling of a kernel, by the beginning of its name; longest first.
const ARITHMETIC = [
  ['conv_q8_winograd_dot8', 'dot8'],
  ['conv_q8_winograd_4x3_dot8', 'dot8'],
  ['conv_q8_winograd_pairs', 'i16'],
  ['conv_q8_winograd_4x4_pairs', 'i16'],
  ['conv_q8_winograd_strided_narrow', 'narrow'],
  ['conv_q8_winograd_strided_dot8', 'dot8'],
  ['conv_q8_winograd_strided_pairs', 'i16'],
  ['conv_q8_winograd_narrow', 'narrow'],
  ['conv_q8_dot8', 'dot8'],
  ['conv_q8_dot7', 'dot7'],
  ['conv_q8_narrow_w', 'widened'],
  ['conv_q8_narrow', 'narrow'],
  ['conv_q8', 'i16'],
  ['conv_f32', 'f32'],
];
/** The inner loop of a layer; for lookups, the loop of one-bit weights by as many codes of the input. */
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

FORMS['w4a4, as chosen'] = { file: 'w4a4', options: FIXED };
FORMS.w1a1 = { file: 'w1a1', options: FIXED };

const standards = { rounds: 9, all: false, apart: false, chromium: false, json: false };
const { rounds, all, apart, chromium, json, names } = readArguments(standards, (values) => ({
  ...values,
  names: chosenNetworks(values.words),
}));
const { table } = await import('requant/report');
const { loadModel } = await import('requant');

/** The integers that sums read, for sessions in which no layer adds. */
async function addends(file) {
  const model = await loadModel(file);
  const { nodes } = model.info;
  model.dispose();
  const pairs = nodes.filter(({ op }) => op === 'DequantizeLinear');
  // A Clip becomes part of its producer.
  const clips = nodes.filter(({ op }) => op === 'Clip');
  const clipped = new Map(clips.map(({ inputs, outputs }) => [outputs[0], inputs[0]]));
  const integers = new Map(
    pairs.map(({ inputs, outputs }) => [outputs[0], clipped.get(inputs[0]) ?? inputs[0]]),
  );
  const sums = nodes.filter(({ op }) => op === 'Add' || op === 'QLinearAdd');
  return [
    ...new Set(
      sums.flatMap(({ op, inputs }) =>
        [inputs[0], inputs[op === 'Add' ? 1 : 3]].map((name) => integers.get(name) ?? name),
      ),
    ),
  ];
}

/** Opens a form's session where it is measured, with arrays for the milliseconds of its steps. */
async function openForm(place, name, label, { file, options }) {
  const key = `${name} ${label}`;
  const spec = { file: path.basename(fileOf(name, file)), numbers: 'normals' };
  const taps = apart ? await addends(fileOf(name, file)) : [];
  await place.call('open', key, { ...spec, options: { ...options, taps, profile: true } });
  const steps = await place.call('steps', key);
  const arithmetics = [...new Set(steps.map(arithmeticOf).filter(Boolean))];
  return { key, steps, arithmetics, layers: steps.map(() => []), shares: steps.map(() => []) };
}

/**
 * Adds a round of a form: the milliseconds of its steps and, with `rates` of the tiles, their shares of
 * these.
 */
function addRound({ steps, layers, shares }, milliseconds, rates) {
  milliseconds.forEach((time, index) => {
    layers[index].push(time);
    const step = steps[index];
    const rate = rates[arithmeticOf(step)];
    const products = step.macs * productsOf(step);
    if (products > 0 && rate) shares[index].push((2 * products) / time / 1e6 / rate);
  });
}

function summarize(form) {
  const rows = form.steps.map((step, index) => {
    const { name, op, kernel, macs, dims } = step;
    const depth = macs / dims.reduce((a, b) => a * b, 1);
    const milliseconds = median(form.layers[index]);
    const gops = macs > 0 ? (2 * macs) / milliseconds / 1e6 : 0;
    const share = form.shares[index].length > 0 ? median(form.shares[index]) : NaN;
    return { name, op, kernel, macs, depth, dims, milliseconds, gops, share };
  });
  // 1x1 and 3x3 layers with at least 64 channels on both sides; 147 = 7 x 7 x 3 is a first layer, and memory
  // limits a matrix product of one row.
  const wide = rows.filter(
    ({ depth, dims, share }) =>
      share > 0 && depth >= 64 && depth !== 147 && dims.length === 4 && dims[1] >= 64,
  );
  const total = (list, key) => list.reduce((sum, row) => sum + row[key], 0);
  const rate = (list) => (2 * total(list, 'macs')) / total(list, 'milliseconds') / 1e6;
  // Layers have ceilings of their own; this is the share of the time that they would take there.
  const wideShare =
    wide.reduce((sum, { share, milliseconds }) => sum + share * milliseconds, 0) /
    total(wide, 'milliseconds');
  return {
    rows,
    milliseconds: total(rows, 'milliseconds'),
    network: rate(rows),
    wide: wide.length > 0 ? rate(wide) : NaN,
    wideShare,
    least: Math.min(...wide.map(({ share }) => share)),
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
  for (const name of await place.call('loadTiles', [
    buildTiles('bit_tiles', ['-fno-unroll-loops']),
  ])) {
    bits.add(name);
  }
  const tileRates = {};
  for (const name of await place.call('loadTiles', [buildTiles('tiles')])) {
    tileRates[name] = [];
    await timeTile(name); // V8 compiles in this call
  }
  for (let round = 0; round < TILE_ROUNDS; round++) {
    for (const tile of Object.keys(tileRates)) tileRates[tile].push(await timeTile(tile));
  }
  const best = {};
  for (const tile of Object.keys(tileRates)) {
    const arithmetic = tile.replace(/_[\dx]+$/, '');
    const other = best[arithmetic];
    if (!other || median(tileRates[tile]) > median(tileRates[other])) best[arithmetic] = tile;
  }
  const ceilings = Object.fromEntries(Object.keys(best).map((arithmetic) => [arithmetic, []]));
  /** Measures the best tiles of a form now. */
  const timeBest = async ({ arithmetics }) => {
    const rates = {};
    for (const arithmetic of arithmetics) {
      rates[arithmetic] = await timeTile(best[arithmetic]);
      ceilings[arithmetic].push(rates[arithmetic]);
    }
    return rates;
  };
  const results = {};
  for (const name of names) {
    const forms = {};
    for (const [label, form] of Object.entries(FORMS)) {
      forms[label] = await openForm(place, name, label, form);
    }
    for (let round = 0; round <= rounds; round++) {
      for (const form of Object.values(forms)) {
        const before = await timeBest(form);
        const milliseconds = await place.call('profile', form.key, RUNS[name]);
        const behind = await timeBest(form);
        if (round === 0) continue; // V8 compiles in the first round
        const rates = Object.entries(before).map(([of, rate]) => [of, (rate + behind[of]) / 2]);
        addRound(form, milliseconds, Object.fromEntries(rates));
      }
    }
    for (const { key } of Object.values(forms)) await place.call('close', key);
    results[name] = forms;
  }
  await place.close();
  const summaries = {};
  for (const name of names) {
    summaries[name] = Object.fromEntries(
      Object.entries(results[name]).map(([label, form]) => [label, summarize(form)]),
    );
  }
  const tiles = Object.fromEntries(
    Object.entries(best).map(([arithmetic, tile]) => [
      arithmetic,
      median([...tileRates[tile], ...ceilings[arithmetic]]),
    ]),
  );
  if (json) {
    console.log(
      JSON.stringify({ place: place.name, ceilings: tiles, networks: summaries }, null, 2),
    );
    process.exit(0);
  }
  console.log(`${place.name}, ${rounds} rounds\n`);
  console.log('Ceilings, GOPS: the best register tile of each arithmetic');
  for (const [arithmetic, gops] of Object.entries(tiles)) {
    console.log(`  ${arithmetic.padEnd(5)} ${gops.toFixed(0)}`);
  }
  const percent = (value) => (Number.isFinite(value) ? `${(100 * value).toFixed(0)} %` : '');
  for (const name of names) {
    console.log(`\n${NETWORKS[name].title}`);
    console.log(
      table(
        ['', 'ms', 'GOPS', '>= 64 channels, GOPS', 'of ceiling', 'least layer'],
        Object.entries(summaries[name]).map(([label, s]) => [
          label,
          s.milliseconds.toFixed(2),
          s.network.toFixed(0),
          s.wide.toFixed(0),
          percent(s.wideShare),
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

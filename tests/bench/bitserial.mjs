// Convolutions of few bits compared with those of 8 bits, of 16 bits and of floats: ResNet-18's 3x3 layers
// and MobileNetV2's 1x1 and depthwise layers (make_layers.py), layer by layer; and the inner loops of
// bit-serial products alone (bit_tiles.cpp) and of all others (tiles.cpp), the best of which is the ceiling.
//
//   node tests/bench/bitserial.mjs [--rounds N] [--chromium] [--json]
//
// All forms take turns in one process, or on one page. GOPS = 2 x multiply-accumulates / s; medians over the
// rounds, and ratios within one round. Needs clang++-19, wasm-ld-19, and python3-onnx.

import { existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { readArguments } from './arguments.mjs';
import { FOLDER, ROOT, formatRatio, median, ratios } from './networks.mjs';
import { openPlace } from './place.mjs';
import { buildTiles, productsOf, run } from './tiles.mjs';

const DEPTH = 1024; // number of products that a tile adds up
const TILE_CALLS = 4000;
const RUNS = 3;
const FIXED = { requantize: 'fixed' };
const POPCOUNT = { conv_q8: 'conv_q8_popcount' };
const LOOKUP = { conv_q8: 'conv_q8_lookup' };
const CARRY_SAVE = { conv_q8: 'conv_q8_carry_save' };
// `planes`: number of lookups, or of pairs of planes, for each product. W8A8 occurs twice: with the best row
// here, and with 16-bit products.
const FORMS = {
  A1W1: { file: 'a1w1', planes: 1, tile: 'lookup' },
  A2W1: { file: 'a2w1', planes: 1, tile: 'lookup_a2' },
  A2W2: { file: 'a2w2', planes: 2, tile: 'lookup_joined' },
  A4W2: { file: 'a4w2', planes: 2, tile: 'lookup_a4_joined' },
  'A1W1 popcount': { file: 'a1w1', planes: 1, tile: 'and_popcnt', kernels: POPCOUNT },
  'A1W1 carry-save': { file: 'a1w1', planes: 1, tile: 'carry_save', kernels: CARRY_SAVE },
  'A2W1 popcount': { file: 'a2w1', planes: 2, tile: 'and_popcnt', kernels: POPCOUNT },
  'A2W2 popcount': { file: 'a2w2', planes: 4, tile: 'and_popcnt', kernels: POPCOUNT },
  'A2W2 lookup': { file: 'a2w2', planes: 2, tile: 'lookup_joined', kernels: LOOKUP },
  'A2W2 narrow': { file: 'a2w2', kernels: { conv_q8: 'conv_q8_narrow_x' } },
  'A4W2 narrow': { file: 'a4w2', kernels: { conv_q8: 'conv_q8_narrow_x' } },
  W4A4: { file: 'a4w4' },
  W4A8: { file: 'a8w4' },
  W8A8: { file: 'a8w8' },
  i16: { file: 'a8w8', kernels: { conv_q8: 'conv_q8_vector' } },
  f32: { file: 'f32', tile: 'f32' },
};
// The loop that is the ceiling of a row, unless the form names one.
const TILE_OF = {
  conv_q8_narrow_x: 'narrow',
  conv_q8_narrow_w: 'widened',
  conv_q8_vector: 'i16',
  conv_q8_dot7: 'dot7',
  conv_q8_dot8: 'dot8',
  conv_q8_lines: 'i16',
  conv_q8_dot7_lines: 'dot7',
  conv_q8_dot8_lines: 'dot8',
  conv_q8_winograd_narrow: 'narrow',
  conv_q8_winograd_dot8: 'dot8',
  conv_q8_winograd_4x3_dot8: 'dot8',
  conv_q8_winograd_pairs: 'i16',
  conv_q8_winograd_4x4_pairs: 'i16',
  conv_q8_winograd_strided_narrow: 'narrow',
  conv_q8_winograd_strided_dot8: 'dot8',
  conv_q8_winograd_strided_pairs: 'i16',
};

const { rounds, chromium, json } = readArguments({ rounds: 11, chromium: false, json: false });
const { table } = await import('requant/report');

mkdirSync(FOLDER, { recursive: true });
const script = path.join(ROOT, 'tests/bench/make_layers.py');
const files = Object.values(FORMS).map(({ file }) => path.join(FOLDER, `layers.${file}.onnx`));
const isFresh = (file) => existsSync(file) && statSync(file).mtimeMs > statSync(script).mtimeMs;
if (!files.every(isFresh)) {
  run(process.env.REQUANT_PYTHON ?? '/usr/bin/python3', [script, FOLDER]);
}
const place = await openPlace({ chromium });
const modules = ['bit_tiles', 'tiles'].map((name) => buildTiles(name, ['-fno-unroll-loops']));
const timeTile = (name) => place.call('timeTile', name, DEPTH, TILE_CALLS);
const tileRates = {};
for (const name of await place.call('loadTiles', modules)) {
  tileRates[name] = [];
  await timeTile(name); // V8 compiles in this call
}
/** For every form and layer: its step, and the milliseconds of one run by round. */
const steps = {};
const times = {};
const places = {}; // indices of the layers among the steps
for (const [name, { file, kernels }] of Object.entries(FORMS)) {
  const options = { ...FIXED, kernels, profile: true };
  await place.call('open', name, { file: `layers.${file}.onnx`, options, numbers: 'codes' });
  const all = await place.call('steps', name);
  places[name] = all.flatMap(({ macs }, index) => (macs > 0 ? [index] : []));
  steps[name] = places[name].map((step) => all[step]);
  times[name] = steps[name].map(() => []);
}
for (let round = 0; round <= rounds; round++) {
  for (const name of Object.keys(tileRates)) tileRates[name].push(await timeTile(name));
  for (const name of Object.keys(FORMS)) {
    const milliseconds = await place.call('profile', name, RUNS);
    if (round === 0) continue; // V8 compiles in the first round
    places[name].forEach((step, layer) => times[name][layer].push(milliseconds[step]));
  }
}
await place.close();

const ceilings = {};
for (const [name, rates] of Object.entries(tileRates)) {
  const loop = name.replace(/_[\dx]+$/, '');
  ceilings[loop] = Math.max(ceilings[loop] ?? 0, median(rates));
}
/**
 * The products of the definition per second that the loop of a layer's kernel allows; undefined for depthwise
 * layers, which products do not limit.
 */
function ceilingOf(form, layer) {
  const step = steps[form][layer];
  if (step.kernel.startsWith('dwconv')) return undefined;
  const tile = TILE_OF[step.kernel];
  return tile
    ? ceilings[tile] / productsOf(step)
    : ceilings[FORMS[form].tile] / (FORMS[form].planes ?? 1);
}
const gops = (name, layer) => (2 * steps[name][layer].macs) / median(times[name][layer]) / 1e6;
// The layers of one network together.
const layersOf = (pattern) =>
  steps.W8A8.flatMap(({ name }, layer) => (pattern.test(name) ? [layer] : []));
const summary = {};
for (const [network, pattern] of Object.entries({
  'ResNet-18, 3 x 3': / 3 x 3 /,
  'MobileNetV2, 1 x 1': / 1 x 1 /,
  'MobileNetV2, depthwise': / depthwise /,
})) {
  const layers = layersOf(pattern);
  const kernelsOf = (name) => [...new Set(layers.map((layer) => steps[name][layer].kernel))];
  const total = (name) =>
    times[name][0].map((_, round) =>
      layers.reduce((sum, layer) => sum + times[name][layer][round], 0),
    );
  summary[network] = Object.fromEntries(
    Object.keys(FORMS).map((name) => {
      const macs = layers.reduce((sum, layer) => sum + steps[name][layer].macs, 0);
      const rate = (2 * macs) / median(total(name)) / 1e6;
      // The share of the total time that the layers would take at their ceilings.
      const ideal = layers.reduce(
        (sum, layer) => sum + (2 * steps[name][layer].macs) / ceilingOf(name, layer) / 1e6,
        0,
      );
      return [
        name,
        {
          kernels: kernelsOf(name).join(', '),
          gops: rate,
          ofCeiling: ideal / median(total(name)) || undefined,
          againstW8A8: ratios(total('W8A8'), total(name)),
          againstI16: ratios(total('i16'), total(name)),
          againstF32: ratios(total('f32'), total(name)),
        },
      ];
    }),
  );
}
if (json) {
  console.log(JSON.stringify({ place: place.name, ceilings, summary }, null, 2));
  process.exit(0);
}
console.log(`${place.name}, ${rounds} rounds\n`);
console.log(
  'Inner loops alone, GOPS; those on bits of one bit by one bit (lookup: inputs of 1, 2 and 4 bits)',
);
for (const [loop, rate] of Object.entries(ceilings)) {
  console.log(`  ${loop.padEnd(12)} ${rate.toFixed(0)}`);
}
console.log();
console.log(
  table(
    ['layer, GOPS (of ceiling)', ...Object.keys(FORMS)],
    steps.W8A8.map(({ name }, layer) => [
      name,
      ...Object.keys(FORMS).map((form) => {
        const ceiling = ceilingOf(form, layer);
        const rate = gops(form, layer);
        const share = ceiling ? ` (${((100 * rate) / ceiling).toFixed(0)} %)` : '';
        return `${rate.toFixed(0)}${share}`;
      }),
    ]),
  ),
);
for (const [network, rows] of Object.entries(summary)) {
  console.log(`\n${network}`);
  console.log(
    table(
      ['', 'kernel', 'GOPS', 'of ceiling', 'against W8A8', 'against i16', 'against f32'],
      Object.entries(rows).map(([name, row]) => [
        name,
        row.kernels,
        row.gops.toFixed(0),
        row.ofCeiling ? `${(100 * row.ofCeiling).toFixed(0)} %` : '',
        formatRatio(row.againstW8A8),
        formatRatio(row.againstI16),
        formatRatio(row.againstF32),
      ]),
    ),
  );
}

// The parts of `npm run bench`: the benchmark that each runs, its arguments, and its requirements.

import { existsSync } from 'node:fs';
import { haveShared } from '../node/shared_models.mjs';
import {
  FORMS,
  blockTables,
  bytesTables,
  coldTables,
  foreignTables,
  graphTables,
  latencyTables,
  memoryTables,
  operatorTables,
  shareTables,
  subnetworkTables,
  threadTables,
  trainingTables,
  transformerTables,
} from './result_tables.mjs';

const noShared = () => (haveShared ? undefined : 'the networks beside the project are not there');
const noChromium = () => {
  const file = process.env.REQUANT_CHROMIUM ?? '/usr/bin/chromium';
  return existsSync(file) ? undefined : 'there is no Chromium';
};
const noTiles = () =>
  ['clang++-19', 'wasm-ld-19'].every((name) => existsSync(`/usr/bin/${name}`))
    ? undefined
    : 'clang++-19 and wasm-ld-19 are not there';
const noTorch = () =>
  existsSync('/usr/lib/python3/dist-packages/torch') ? noShared() : 'PyTorch is not there';
const noVnni = ({ wholeBytes }) =>
  wholeBytes
    ? undefined
    : 'this processor has no AVX-VNNI, so that it is what the first table says';
const isLinux = () => (process.platform === 'linux' ? undefined : 'only Linux says it');

/** The two most different networks, if these include them; otherwise these. */
function unlike(names) {
  const two = names.filter((name) => ['mobilenet_v2', 'resnet50'].includes(name));
  return two.length > 0 ? two : names;
}

/** The results of layers.mjs for whole networks, without those for every layer of every form. */
function withoutLayers({ ceilings, networks }) {
  const forms = (of) =>
    Object.fromEntries(
      Object.entries(of).map(([form, { wideShare, least }]) => [form, { wideShare, least }]),
    );
  const kept = Object.entries(networks).map(([name, of]) => [name, forms(of)]);
  return { ceilings, networks: Object.fromEntries(kept) };
}

/**
 * The parts in the order of measuring. `script` is a file of this folder and `args` its arguments; `node`
 * holds flags of the engine; `missing(machine)` gives the reason if it cannot be measured; `tables(result)`
 * makes tables for the page from the result, or from what `keep(result)`, if given, leaves of it. A part with
 * `ownFiles` runs none of the networks of networks.mjs.
 */
export const PARTS = [
  {
    name: 'latency',
    title: 'Latency in Node',
    script: 'latency.mjs',
    args: ({ names, rounds }) => [...names, '--rounds', rounds, '--low', FORMS.join(',')],
    tables: latencyTables,
  },
  {
    name: 'latency-without-vnni',
    title: 'Latency in Node without AVX-VNNI',
    script: 'latency.mjs',
    node: ['--no-enable-avx-vnni'],
    args: ({ names, rounds }) => [...names, '--rounds', rounds, '--low', FORMS[0]],
    missing: noVnni,
    tables: latencyTables,
  },
  {
    name: 'chromium',
    title: 'Latency and cold start in Chromium',
    script: 'browser.mjs',
    args: ({ names, rounds, repeats }) => [...names, '--rounds', rounds, '--cold', repeats],
    missing: noChromium,
    tables: (result) => [...latencyTables(result), ...coldTables(result)],
  },
  {
    name: 'threads',
    title: 'Two threads',
    script: 'threads.mjs',
    args: ({ names, rounds }) => [...names, '--rounds', rounds, '--threads', 2],
    missing: ({ cores }) => (cores > 1 ? undefined : 'there is one processor'),
    tables: threadTables,
  },
  {
    name: 'memory',
    title: 'Resident memory',
    script: 'memory.mjs',
    args: ({ names, repeats }) => [...unlike(names), '--repeats', repeats],
    missing: isLinux,
    tables: memoryTables,
  },
  {
    name: 'bytes',
    title: 'Bytes of few bits',
    script: 'sizes.mjs',
    args: ({ names }) => [...names, '--forms', FORMS.join(',')],
    tables: bytesTables,
  },
  {
    name: 'blocks',
    title: '4-bit weights in blocks',
    script: 'nbits.mjs',
    ownFiles: true,
    args: ({ rounds }) => ['--rounds', rounds, '--size', 2048],
    tables: blockTables,
  },
  {
    name: 'shares',
    title: 'Shares of the inner loops',
    script: 'layers.mjs',
    args: ({ names, repeats }) => [...unlike(names), '--rounds', repeats],
    missing: noTiles,
    keep: withoutLayers,
    tables: shareTables,
  },
  {
    name: 'graphs',
    title: 'What the optimizer brings',
    script: 'optimizer.mjs',
    args: ({ repeats }) => ['--rounds', repeats],
    tables: graphTables,
  },
  {
    name: 'transformers',
    title: 'Parts of transformers and recurrent networks',
    script: 'transformer.mjs',
    ownFiles: true,
    args: ({ rounds }) => ['--rounds', rounds],
    tables: transformerTables,
  },
  {
    name: 'subnetworks',
    title: 'Parts of networks',
    script: 'subnetworks.mjs',
    args: ({ rounds }) => ['--rounds', rounds],
    ownFiles: true,
    tables: subnetworkTables,
  },
  {
    name: 'operators',
    title: 'Single operators',
    script: 'operators.mjs',
    args: ({ rounds }) => ['--rounds', rounds],
    ownFiles: true,
    tables: operatorTables,
  },
  {
    name: 'training',
    title: 'Training',
    script: 'training_speed.mjs',
    ownFiles: true,
    args: ({ rounds }) => ['--rounds', rounds],
    missing: noTorch,
    tables: trainingTables,
  },
  {
    name: 'foreign',
    title: 'Models made elsewhere',
    script: 'foreign.mjs',
    ownFiles: true,
    args: ({ repeats }) => ['--rounds', repeats],
    missing: noShared,
    tables: foreignTables,
  },
];

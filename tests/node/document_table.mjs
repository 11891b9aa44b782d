// The list of all documents, and where their code blocks run.

import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Every document, and the places where its blocks run: a folder where the `package` is installed, or a built
 * `clone`. `files` are those that the document expects in the folder.
 */
export const documents = {
  'CHANGELOG.md': { places: ['clone'] },
  'CONTRIBUTING.md': { places: ['clone'] },
  'README.md': { places: ['clone', 'package'] },
  'docs/api.md': {
    places: ['package'],
    files: { 'model.onnx': 'demos/models/fashion_mnist.onnx', data: 'demos/data' },
  },
  'docs/architecture.md': { places: ['clone'] },
  'docs/benchmarks.md': { places: ['clone'] },
  'docs/browsers.md': { places: ['clone'] },
  'docs/bundlers.md': { places: ['package'] },
  'docs/cli.md': { places: ['clone'] },
  'docs/conformance.md': { places: ['clone'] },
  ...Object.fromEntries(
    [
      'accuracy',
      'audio',
      'cdn',
      'cold_start',
      'detection',
      'determinism',
      'memory',
      'microcontrollers',
      'samples',
      'start',
      'threads',
      'training',
      'transformers',
      'which_bits',
      'workers',
    ].map((name) => [
      `docs/guides/${name}.md`,
      {
        places: ['package'],
        files: { 'model.onnx': 'demos/models/fashion_mnist.onnx', data: 'demos/data' },
      },
    ]),
  ),
  ...Object.fromEntries(
    [
      'bit_serial',
      'calibration',
      'convolution',
      'lookups',
      'quantization',
      'recovery',
      'requantization',
      'training',
      'winograd',
    ].map((name) => [`docs/how/${name}.md`, { places: ['package'] }]),
  ),
  'docs/demos.md': { places: ['clone'] },
  'docs/lexicon.md': { places: ['clone'] },
  'docs/migrating.md': {
    places: ['package'],
    files: { 'model.onnx': 'demos/models/fashion_mnist.onnx' },
  },
  'docs/security.md': {
    places: ['package'],
    files: { 'model.onnx': 'demos/models/fashion_mnist.onnx' },
  },
  'docs/studio.md': { places: ['clone'] },
  'docs/systems.md': { places: ['clone'] },
  'docs/optimizer.md': { places: ['package'] },
  'docs/quantization.md': { places: ['clone'] },
  'docs/tflite.md': { places: ['package'] },
  'docs/versions.md': { places: ['package'] },
};

/** Reasons for not running a block. */
export const needs = {
  page: 'it needs a page: it is type-checked against the DOM here, tests/browser opens the whole pages',
  bundler: 'it needs a bundler: tests/browser/bundlers runs the same lines',
  hub: 'it needs @huggingface/transformers and a model of its hub: tests/node/transformers has local ones',
  server: 'it needs a server of its own: tests/browser/worker_paths imports from another origin',
  networks: 'it needs networks and data that are no part of a clone',
  time: 'it measures for minutes, and builds or fetches what it measures',
  install: 'it gets the project and installs it, as this test did by itself',
  project: 'it builds or tests the project, this test perhaps included',
  compiler: 'it needs a C compiler',
};

const markdownIn = (folder) =>
  readdirSync(path.join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => path.join(folder, name));

/** All documents. */
export const documentFiles = () =>
  ['.', 'docs', 'docs/guides', 'docs/how'].flatMap((folder) => markdownIn(folder));

/** Documents for developers and dated notes: only their links are checked. */
export const otherFiles = () => [
  ...['src', 'bindings', 'web', 'tests'].map((folder) => `${folder}/README.md`),
  ...markdownIn('docs/notes'),
];

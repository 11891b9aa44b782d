// Divides a module by a manifest (manifest.mjs) into the three modules that are loaded after one another.

import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { manifestText } from './manifest.mjs';

const FEATURES = [
  'simd',
  'bulk-memory',
  'sign-ext',
  'mutable-globals',
  'nontrapping-float-to-int',
  'multivalue',
  'reference-types',
  'exception-handling',
].map((name) => `--enable-${name}`);

/**
 * Moves `functions` of the module `whole` to a second one. The first exports what the second needs with names
 * that begin with %, and its table holds imports from "absent" in place of the second's functions.
 */
function splitInTwo(wasmSplit, whole, functions, namespace, first, second) {
  const list = `${second}.txt`;
  writeFileSync(list, functions.join('\n'));
  execFileSync(wasmSplit, [
    ...FEATURES,
    '--quiet',
    '-g', // names, for the next division
    whole,
    `--split-funcs=@${list}`,
    '--export-prefix=%',
    `--import-namespace=${namespace}`,
    '--placeholder-namespace=absent',
    '-o1',
    first,
    '-o2',
    second,
  ]);
  rmSync(list);
}

/**
 * Divides the file `whole` into `files` { main, operators, tools }. The operators import from "core", the
 * tools from "operators" what they need of both.
 *
 * The wasm-split of Binaryen 108 (Debian 12) makes two of one module, so that it runs twice. Later ones make
 * all three at once (--multi-split) of the file that this writes for readers beside the main module:
 * `--manifest main.manifest.txt`.
 */
export function splitByManifest(wasmSplit, whole, manifest, files) {
  writeFileSync(`${files.main.replace(/\.wasm$/, '')}.manifest.txt`, manifestText(manifest));
  const both = `${files.tools}.both`;
  const late = [...manifest.operators, ...manifest.tools];
  splitInTwo(wasmSplit, whole, late, 'core', files.main, both);
  splitInTwo(wasmSplit, both, manifest.tools, 'operators', files.operators, files.tools);
  rmSync(both);
}

// Writes web/fingerprint/known.ts: the fingerprint of this version, as this machine computes it.
//
//   node web/scripts/fingerprint.mjs
//
// A hash of kernels never changes: another one is a fault of the kernel or of its build. Hashes of the quantizer change
// with its methods; the commit says which. Build the JavaScript again afterwards.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from './run.mjs';

const { fingerprint } = await import(path.join(ROOT, 'dist/fingerprint/index.js'));
const FILE = path.join(ROOT, 'web/fingerprint/known.ts');
const text = readFileSync(FILE, 'utf8');
const { cases } = await fingerprint();
for (const { name, kind, hash, known } of cases.filter(({ same }) => !same)) {
  console.log(`${kind}: ${name} was ${known || 'unknown'}, is ${hash}`);
}
const rows = cases.map(({ name, hash }) => `  '${name}': '${hash}',\n`);
writeFileSync(
  FILE,
  text.replace(/= \{[^]*\};/, () => `= {\n${rows.join('')}};`),
);

// Gives a wasm module its build id (src/plan/saved/build_id.h): a hash of the module itself and of what it
// is used with.
//
//   node web/scripts/stamp.mjs MODULE [OTHER...]

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const PLACE = 'requant-build-id-not-stamped-yet';

const [file, ...others] = process.argv.slice(2);
const bytes = readFileSync(file);
const at = bytes.indexOf(PLACE);
if (at < 0 || bytes.indexOf(PLACE, at + 1) >= 0) {
  console.error(`stamp: ${file} has not exactly one place for a build id`);
  process.exit(1);
}
const hash = createHash('sha256').update(bytes);
for (const other of others) hash.update(readFileSync(other));
const id = hash.digest('hex').slice(0, PLACE.length);
bytes.write(id, at, 'latin1');
writeFileSync(file, bytes);

// Gives a wasm module its build id (src/plan/saved/build_id.h): a hash of the module itself and of what it
// is used with.
//
//   node web/scripts/modules/stamp.mjs MODULE [OTHER...]

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

/** The text that the module has in this place. */
export const PLACE = 'requant-build-id-not-stamped-yet';

/** The module with a hash of itself and of the bytes of `others` in its one place for a build id. */
export function stamp(bytes, others) {
  const at = bytes.indexOf(PLACE);
  if (at < 0 || bytes.indexOf(PLACE, at + 1) >= 0) {
    throw new Error('it has not exactly one place for a build id');
  }
  const hash = createHash('sha256').update(bytes);
  for (const other of others) hash.update(other);
  const stamped = Buffer.from(bytes);
  stamped.write(hash.digest('hex').slice(0, PLACE.length), at, 'latin1');
  return stamped;
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const [file, ...others] = process.argv.slice(2);
  try {
    const read = others.map((other) => readFileSync(other));
    writeFileSync(file, stamp(readFileSync(file), read));
  } catch (error) {
    console.error(`stamp: ${file}: ${error.message}`);
    process.exit(1);
  }
}

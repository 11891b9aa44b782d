// The command `fingerprint`: hashes of integer results.

import { fingerprint } from '../fingerprint/index.js';
import {
  CheckFailed,
  type CommandSpec,
  type Values,
  commonOptions,
  threadsOption,
} from './args.js';
import type { Streams } from './output.js';

export const fingerprintSpec: CommandSpec = {
  name: 'fingerprint',
  summary: 'Hash integer results that are the same on every machine.',
  positionals: [],
  options: { ...threadsOption, ...commonOptions },
  notes: `Computes fixed pseudo-random networks: integer kernels, and what quantize() and train() make of a float
network. Exits with 1 if a hash is not that of this version.`,
};

export async function runFingerprint(
  values: Values,
  _positionals: string[],
  streams: Streams,
): Promise<void> {
  const result = await fingerprint();
  if (values['json']) {
    streams.out(`${JSON.stringify(result, null, 2)}\n`);
  } else {
    const width = Math.max(...result.cases.map(({ name }) => name.length));
    for (const { name, hash, known, same } of result.cases) {
      streams.out(`${name.padEnd(width)}  ${hash}  ${same ? 'same' : `differs from ${known}`}\n`);
    }
    const { version, variant, threads } = result;
    streams.out(
      `version ${version}, ${variant}, ${threads === 1 ? 'one thread' : `${threads} threads`}\n`,
    );
  }
  const other = result.cases.filter(({ same }) => !same);
  if (other.length > 0) {
    throw new CheckFailed(`${other.length} of ${result.cases.length} results are other bits`);
  }
}

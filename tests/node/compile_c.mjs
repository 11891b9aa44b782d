// Compiles the files of generateC() and runs them.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

function found(command) {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Why a test that needs a C compiler is skipped; never in CI, where a compiler must exist. */
export const skipC = !process.env.CI && !found('cc') && 'needs a C compiler (cc)';

const TYPES = {
  float32: Float32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  int32: Int32Array,
  int64: BigInt64Array,
};

// A program that reads the inputs of samples from standard input and writes the outputs of each.
const program = (name, inputs, outputs) => `#include <stdio.h>
#include <stdlib.h>
#include "${name}.h"
${[...inputs, ...outputs].map((bytes, i) => `static _Alignas(16) unsigned char v${i}[${bytes || 1}];`).join('\n')}
static _Alignas(16) unsigned char workspace[${name.toUpperCase()}_WORKSPACE_BYTES + 1];
int main(void) {
  while (fread(v0, 1, ${inputs[0]}, stdin) == ${inputs[0]}) {
${inputs
  .slice(1)
  .map((bytes, i) => `    if (fread(v${i + 1}, 1, ${bytes}, stdin) != ${bytes}) return 1;`)
  .join('\n')}
    ${name}_run(${[...inputs, ...outputs].map((_, i) => `(void *)v${i}`).join(', ')}, workspace);
${outputs.map((bytes, i) => `    fwrite(v${inputs.length + i}, 1, ${bytes}, stdout);`).join('\n')}
  }
  return 0;
}
`;

/**
 * The outputs of the compiled files for each of `samples` (feeds): arrays in the order of `outputs`, which
 * are { type, dims } each. Warnings are errors.
 */
export function runC({ source, header }, name, samples, outputs, options = ['-O2']) {
  const folder = mkdtempSync(path.join(tmpdir(), 'requant-'));
  try {
    const feeds = samples.map((sample) => Object.values(sample));
    const sizes = outputs.map(
      ({ type, dims }) => dims.reduce((a, b) => a * b, 1) * TYPES[type].BYTES_PER_ELEMENT,
    );
    const inputs = feeds[0].map(({ data }) => data.byteLength);
    writeFileSync(path.join(folder, `${name}.c`), source);
    writeFileSync(path.join(folder, `${name}.h`), header);
    writeFileSync(path.join(folder, 'main.c'), program(name, inputs, sizes));
    const warnings = ['-Wall', '-Wextra', '-pedantic', '-Werror'];
    const compile = (...args) => execFileSync('cc', args, { cwd: folder, encoding: 'utf8' });
    compile('-std=c99', ...warnings, ...options, '-c', `${name}.c`);
    compile('-std=c11', ...options, 'main.c', `${name}.o`, '-lm', '-o', 'main');
    const input = Buffer.concat(
      feeds.flat().map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
    );
    const bytes = execFileSync(path.join(folder, 'main'), { input, maxBuffer: 2 ** 30 });
    let at = 0;
    return samples.map(() =>
      outputs.map(({ type }, i) => {
        const own = new Uint8Array(bytes.subarray(at, (at += sizes[i])));
        return new TYPES[type](own.buffer);
      }),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

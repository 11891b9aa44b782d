// The fingerprint has its known values: for both variants of the engine, with threads, and on the command line.

import assert from 'node:assert/strict';
import test from 'node:test';
import { RequantError, env } from 'requant';
import { fingerprint } from 'requant/fingerprint';
import { runCli } from '../../dist/cli/run.js';

const differing = ({ cases }) =>
  cases
    .filter(({ same }) => !same)
    .map(({ name, hash, known }) => `${name}: ${hash}, not ${known}`);

for (const [simd, numThreads] of [
  ['auto', 1],
  ['simd128', 1],
  ['auto', 2],
]) {
  test(`${simd}, ${numThreads} threads`, async () => {
    env.wasm.simd = simd;
    env.wasm.numThreads = numThreads;
    const seen = [];
    const result = await fingerprint({ onProgress: ({ latest }) => seen.push(latest.name) });
    assert.deepEqual(differing(result), []);
    assert.ok(result.same && result.cases.length >= 15);
    assert.deepEqual(
      seen,
      result.cases.map(({ name }) => name),
    );
    assert.equal(new Set(result.cases.map(({ hash }) => hash)).size, result.cases.length);
    assert.equal(result.threads, numThreads);
  });
}

test('on the command line', async () => {
  let out = '';
  const streams = {
    out: (text) => (out += text),
    err: (text) => assert.fail(text),
    interactive: false,
  };
  assert.equal(await runCli(['fingerprint', '--threads', '1'], streams), 0);
  assert.match(out, /^convolution, 3x3 +[0-9a-f]{16} {2}same$/m);
});

test('a signal and a wrong option', async () => {
  await assert.rejects(
    fingerprint({ signal: AbortSignal.abort() }),
    ({ code }) => code === 'ABORTED',
  );
  await assert.rejects(fingerprint({ onprogress: () => {} }), RequantError);
});

// Node for 64-bit ARM processors, in an emulator (qemu-user), gives the bits of this machine's Node, with the
// signed form of the dot product. `node web/scripts/test.mjs arm` fetches what the test needs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { ROOT } from '../browser/browser.mjs';
import { inNode, present } from '../browser/everywhere.mjs';

const NODE = process.env.REQUANT_ARM_NODE;
const EMULATOR = ['qemu-aarch64-static', '-L', '/usr/aarch64-linux-gnu'];

// Jobs that an emulator completes in a minute or two.
const SHORT = /^(image|sequence) network, (minmax|recovery)|W1A1|ResNet-8|DS-CNN|TFC/;

test('the bits of this machine', { timeout: 1_800_000 }, async (t) => {
  assert.ok(NODE, 'REQUANT_ARM_NODE names no Node for ARM');
  const chosen = present.filter(({ title }) => SHORT.test(title));
  const [program, ...options] = EMULATOR;
  const script = path.join(ROOT, 'tests/arm/run.mjs');
  const titles = chosen.map(({ title }) => title);
  const { error, status, stdout, stderr } = spawnSync(
    program,
    [...options, NODE, script, ...titles],
    { encoding: 'utf8' },
  );
  if (error) throw error;
  assert.equal(status, 0, stderr);
  const found = JSON.parse(stdout.trim().split('\n').at(-1));
  assert.equal(found.arch, 'arm64');
  assert.equal(found.variant, 'relaxed');
  // Signed by signed: four products of 1 by -128, of -127 by -128, of 127 by -1.
  assert.deepEqual(found.products, [-512, 65024, -508]);
  assert.deepEqual(found.missing, []);
  const judge = await inNode(chosen);
  assert.deepEqual(Object.keys(found.hashes), titles);
  for (const [job, ways] of Object.entries(found.hashes)) {
    assert.deepEqual(ways, judge.hashes[job], job);
  }
  t.diagnostic(`${titles.length} jobs`);
});

// Profiles as Chrome traces: the rules of the format, and sums compared with the profile.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { InferenceSession, loadModel, quantize, toChromeTrace } from 'requant';
import { runCli } from '../../dist/cli/run.js';
import { MODEL, calibration, isError, testImages } from './support.mjs';

const complete = ({ traceEvents }, tid) =>
  traceEvents.filter((event) => event.ph === 'X' && (tid === undefined || event.tid === tid));

test('hand-made profile: mean time of a run, end to end, in microseconds', () => {
  const step = { op: 'Conv', kernel: 'k', macs: 0 };
  const trace = toChromeTrace([
    { ...step, name: 'a', milliseconds: 6, runs: 3, macs: 4_000_000 },
    { ...step, name: '', op: 'Relu', milliseconds: 1.5, runs: 3 },
    { ...step, name: 'never', milliseconds: 0, runs: 0 },
  ]);
  const times = complete(trace).map(({ name, cat, ts, dur }) => [name, cat, ts, dur]);
  assert.deepEqual(times, [
    ['a', 'Conv', 0, 2000],
    ['Relu', 'Relu', 2000, 500],
    ['never', 'Conv', 2500, 0],
  ]);
  // 2 x 4 million operations in 2 ms.
  assert.deepEqual(complete(trace)[0].args, {
    op: 'Conv',
    kernel: 'k',
    runs: 3,
    macs: 4_000_000,
    gops: 4,
  });
  assert.deepEqual(
    toChromeTrace([]).traceEvents.map(({ ph }) => ph),
    ['M', 'M', 'M'],
  );
  assert.throws(() => toChromeTrace(null), isError('INVALID_ARGUMENT', { value: 'profile' }));
  assert.throws(() => toChromeTrace({ a: 1 }), isError('INVALID_ARGUMENT', { message: /"a"/ }));
});

test('the demo network: one event for every step of the plan, sums are those of the profile', async (t) => {
  const model = await loadModel(MODEL);
  const quantized = await quantize(model, { calibration: calibration(8) });
  const float = await InferenceSession.create(model, { profile: true });
  const int8 = await InferenceSession.create(quantized, { profile: true });
  t.after(() => [float, int8, quantized, model].forEach((one) => one.dispose()));
  for (const feeds of testImages(4)) {
    await float.run(feeds);
    await int8.run(feeds);
  }
  const profiles = { float: float.profile(), int8: int8.profile() };
  const trace = JSON.parse(JSON.stringify(toChromeTrace(profiles)));
  const rows = trace.traceEvents.filter(({ name }) => name === 'thread_name');
  assert.deepEqual(
    rows.map(({ tid, args }) => [tid, args.name]),
    [
      [1, 'float'],
      [2, 'int8'],
    ],
  );
  for (const [session, tid, profile] of [
    [float, 1, profiles.float],
    [int8, 2, profiles.int8],
  ]) {
    const events = complete(trace, tid);
    assert.deepEqual(
      events.map(({ args }) => args.kernel),
      session.plan().steps.map(({ kernel }) => kernel),
    );
    const last = events.at(-1);
    const sum = profile.reduce((total, { milliseconds, runs }) => total + milliseconds / runs, 0);
    assert.ok(Math.abs(last.ts + last.dur - sum * 1000) < 1e-6 * sum * 1000 + 1e-9);
    events.slice(1).forEach(({ ts }, at) => assert.equal(ts, events[at].ts + events[at].dur));
  }
});

test('requant bench --trace writes both sessions', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-trace-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'trace.json');
  const streams = { out: () => {}, err: () => {}, tty: false };
  const args = ['bench', MODEL, '--runs', '2', '--max-samples', '4', '--trace', file];
  assert.equal(await runCli(args, streams), 0);
  const trace = JSON.parse(readFileSync(file, 'utf8'));
  for (const tid of [1, 2]) {
    const events = complete(trace, tid);
    assert.ok(events.some(({ cat }) => /Conv/.test(cat)));
    assert.ok(events.every(({ ts, dur, args: { runs } }) => ts >= 0 && dur >= 0 && runs === 5));
  }
});

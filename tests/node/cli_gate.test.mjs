// The gate on the command line: `quantize --floor`, and `--metric` of other commands.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { parseFloor } from '../../dist/cli/gating.js';
import { parseMetric } from '../../dist/cli/data.js';
import { runCli } from '../../dist/cli/run.js';
import { MODEL, ROOT } from './support.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-gate-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const file = (name) => path.join(folder, name);
const data = (name) => path.join(ROOT, 'demos/data', name);

async function run(...args) {
  let [out, err] = ['', ''];
  const streams = { out: (text) => (out += text), err: (text) => (err += text), tty: false };
  const code = await runCli(args, streams);
  return { code, out, err };
}

const quantize = [
  ...['quantize', MODEL, '--data', data('calibration-images-idx3-ubyte'), '--max-samples', '16'],
  ...['--recoveries', 'default', '-o', file('good.onnx')],
];
const labelled = [
  ...['--validation', data('test-images-idx3-ubyte')],
  ...['--validation-labels', data('test-labels-idx1-ubyte')],
];

describe('requant quantize --floor', () => {
  test('writes what is good enough, and what it tried', async () => {
    const html = file('search.html');
    const state = file('search.state');
    const args = [...quantize, ...labelled, '--floor', 'top1:2', '--formats', 'W8A8,W4A8'];
    const { code, out, err } = await run(...args, '--int4', '--html', html, '--state', state);
    assert.equal(code, 0, err);
    assert.equal(err, '');
    assert.match(
      out,
      /^top1 on 1000 samples: float 94\.50 % with 331\.6 kB in .*, floor 92\.50 %$/m,
    );
    assert.match(out, /^W8A8, default .* good enough$/m);
    assert.match(out, /^chosen: W4A8/m);
    const page = readFileSync(html, 'utf8');
    assert.match(page, /<h2>Size against top1<\/h2>/);
    assert.match(page, /aria-label="Size against top1, 2 attempts; best: 76\.\d kB at 9\d\.\d+ %/);
    assert.match(page, /<h2>Attempts<\/h2>/);
    assert.ok(existsSync(file('good.onnx')));
    // With the state of the search nothing is tried again.
    const again = await run(...args, '--state', state, '--json');
    assert.equal(again.code, 0, again.err);
    const { search } = JSON.parse(again.out);
    assert.equal(search.attempts.length, 2);
    assert.equal(search.best, 1);
    assert.equal(search.met, true);
    assert.match(
      again.err,
      /warning: the file has 115\.\d kB, and 76\.\d kB with packed bits: --int4/,
    );
    rmSync(file('good.onnx'));
  });

  test('fails, with all attempts, where nothing is', async () => {
    const args = [...quantize, '--floor', 'snr>=90', '--formats', 'W8A8', '--no-float'];
    const { code, out, err } = await run(...args, '--html', file('none.html'));
    assert.equal(code, 1);
    assert.match(err, /warning: the calibration samples measure as well/);
    assert.match(err, /none of 1 configuration is good enough: snr of the float model is Infinity/);
    assert.match(out, /^W8A8, default .* below the floor$/m);
    assert.match(out, /none is good enough; best: W8A8, default/);
    assert.match(readFileSync(file('none.html'), 'utf8'), /below the floor/);
    assert.ok(!existsSync(file('good.onnx')));
    const json = await run(...args, '--json');
    assert.equal(JSON.parse(json.out).search.met, false);
  });

  test('takes budgets with a metric', async () => {
    const args = [...quantize, ...labelled, '--metric', 'top1', '--formats', 'W8A8,W4A8'];
    const { code, out, err } = await run(
      ...args,
      '--no-float',
      '--budget',
      '80000',
      '--max-ms',
      '500',
    );
    assert.equal(code, 0, err);
    assert.match(out, /at most 80\.0 kB, at most 500\.0 ms/);
    assert.match(out, /^chosen: W4A8/m);
  });

  test('refuses options that do not go together', async () => {
    const refused = async (message, ...args) => {
      const { code, err } = await run(
        ...quantize.filter((word) => !/recoveries|default/.test(word)),
        ...args,
      );
      assert.equal(code, 2, err);
      assert.match(err, message);
    };
    await refused(/--formats needs --floor or --metric/, '--formats', 'W8A8');
    await refused(/--html needs --floor/, '--html', file('x.html'));
    await refused(/--metric needs --floor, --budget or --max-ms/, '--metric', 'top1');
    await refused(/must be such as top1:0\.5/, '--floor', 'top1');
    await refused(/names no metric/, '--floor', ':1');
    await refused(/in --floor or --metric/, '--floor', 'top1:1', '--metric', 'top1');
    await refused(/is of --validation/, '--floor', 'snr>=9', '--validation-labels', 'x');
    const wrong = await run(...quantize, '--floor', 'top1:1', '--formats', 'W9A8');
    assert.equal(wrong.code, 1);
    assert.match(wrong.err, /1 to 8 bits of weights/);
  });
});

test('floors and metrics are parsed', () => {
  assert.deepEqual(parseFloor('top1:0.5'), { metric: 'top1', drop: 0.5 });
  assert.deepEqual(parseFloor('top3 >= 0.7'), { metric: { name: 'topk', k: 3 }, atLeast: 0.7 });
  assert.deepEqual(parseFloor('mse<=1e-3'), { metric: 'mse', atMost: 0.001 });
  assert.deepEqual(parseFloor('>=0.9', 'auc'), { metric: 'auc', atLeast: 0.9 });
  assert.deepEqual(parseMetric('recall@5', 'metric'), { name: 'recall', k: 5 });
  assert.deepEqual(parseMetric('{"name":"miou","axis":3}', 'metric'), { name: 'miou', axis: 3 });
  assert.throws(() => parseMetric('{', 'metric'), /is no JSON/);
});

describe('--metric', () => {
  const shared = ['--data', data('test-images-idx3-ubyte'), '--max-samples', '40'];
  const labels = ['--labels', data('test-labels-idx1-ubyte')];

  test('of compare and analyze', async () => {
    const compared = await run(
      'compare',
      MODEL,
      MODEL,
      ...shared,
      ...labels,
      '--metric',
      'top3',
      '--layers',
      '0',
    );
    assert.equal(compared.code, 0, compared.err);
    assert.match(compared.out, /^top3 +\d+\.\d\d % +\d+\.\d\d % +\+0\.00 points$/m);
    const analyzed = await run(
      'analyze',
      MODEL,
      ...shared,
      ...labels,
      '--metric',
      'top1',
      '--layers',
      '3',
    );
    assert.equal(analyzed.code, 0, analyzed.err);
    assert.match(analyzed.out, /^top1 on 40 samples: float 95\.00 %, quantized \d\d\.\d\d %$/m);
    const stray = await run('analyze', MODEL, ...shared, '--validation', 'x');
    assert.equal(stray.code, 2);
    assert.match(stray.err, /--validation needs --metric/);
  });

  test('reads targets', async () => {
    const targets = file('targets.json');
    const write = (value) => writeFileSync(targets, JSON.stringify(value));
    const args = ['compare', MODEL, MODEL, ...shared.slice(0, 2), '--layers', '0'];
    const metric = ['--metric', '{"name":"mse","against":"target"}', '--targets', targets];
    write(Array.from({ length: 1000 }, () => Array(10).fill(0)));
    const { code, out, err } = await run(...args, ...metric);
    assert.equal(code, 0, err);
    assert.match(out, /^mse +\d+\.\d+ +\d+\.\d+/m);
    write([1, 2]);
    const few = await run(...args, ...metric);
    assert.equal(few.code, 1);
    assert.match(few.err, /there are 2 targets for 1000 samples/);
    write({});
    assert.match((await run(...args, ...metric)).err, /is no array/);
  });
});

// The commands `partition` and `extract` as users run them.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import {
  InferenceSession,
  extract,
  loadModel,
  loadPartition,
  parseModel,
  partition,
} from '../../dist/index.js';
import { MODEL, ROOT, testImages } from './support.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-parts-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name) => path.join(folder, name);

function requant(...args) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const main = path.join(ROOT, 'dist/cli/main.js');
  const result = spawnSync(process.execPath, [...flags, main, ...args], { encoding: 'utf8' });
  return { code: result.status, out: result.stdout, err: result.stderr };
}

function succeed(...args) {
  const { code, out, err } = requant(...args);
  assert.equal(code, 0, `requant ${args.join(' ')}: ${err}`);
  return out;
}

async function logitsOf(session, feeds) {
  const { logits } = await session.run(feeds);
  session.release();
  return [...logits.data];
}

test('partition: a table, one file, and the models of the parts', async () => {
  const backend = 'npu=Conv+BatchNormalization?+Relu|Clip?,Gemm';
  const args = ['partition', MODEL, '--backend', backend];
  const table = succeed(...args);
  assert.match(table, /^part +engine +patterns +operators +MMACs$/m);
  assert.match(table, /part0 +npu +\d+ Conv\+BatchNormalization\?\+Relu\|Clip\?/);
  const files = ['-o', at('net.parts'), '--models', at('models')];
  const { parts, bytes } = JSON.parse(succeed(...args, ...files, '--json'));
  assert.equal(readFileSync(at('net.parts')).length, bytes);
  assert.deepEqual(
    readdirSync(at('models')).sort(),
    parts.map(({ file }) => path.basename(file)).sort(),
  );
  const [first] = parts;
  assert.equal(first.backend, 'npu');
  assert.ok(first.macs > 0 && first.composites[0].nodes.length >= 2);
  const [image] = testImages(1);
  const runner = async (part) => {
    const session = await InferenceSession.create(part.model);
    return (feeds) => session.run(feeds);
  };
  const loaded = await loadPartition(readFileSync(at('net.parts')), {
    backends: [{ name: 'npu', compile: runner }],
  });
  const got = await logitsOf(await loaded.createSession(), image);
  loaded.dispose();
  const expected = await logitsOf(await InferenceSession.create(MODEL), image);
  for (const [i, value] of expected.entries()) {
    assert.ok(Math.abs(got[i] - value) < 1e-4 * Math.max(1, Math.abs(value)));
  }
});

test('partition: sizes of parts, and C', () => {
  const json = (...args) => JSON.parse(succeed('partition', MODEL, ...args, '--json')).parts;
  const joined = json('-b', 'a=Conv,Relu');
  const separate = json('-b', 'a=Conv,Relu', '--separate');
  const small = json('-b', 'a=Conv,Relu', '--max-operators', '1');
  const mine = (parts) => parts.filter(({ backend }) => backend === 'a');
  assert.ok(mine(joined).length < mine(separate).length);
  assert.ok(mine(separate).every(({ operators }) => operators === 1));
  assert.deepEqual(mine(small).length, mine(separate).length);
  assert.deepEqual(
    json('-b', 'a=Conv', '--min-macs', '1000000000000').map(({ backend }) => backend),
    [null],
  );
  assert.ok(json('-b', 'mcu=c', '--dim', 'N=1').some(({ backend }) => backend === 'mcu'));
});

test('extract: the same numbers as in the whole network', async (t) => {
  const model = await loadModel(MODEL);
  t.after(() => model.dispose());
  const { nodes } = model.info;
  const convs = nodes.filter(({ op }) => op === 'Conv');
  const from = convs[1].inputs[0];
  const file = at('block.onnx');
  const text = succeed('extract', MODEL, '--from', from, '--to', 'logits', '-o', file);
  assert.match(text, /^graph ".*"/);
  const start = at('start.onnx');
  const json = JSON.parse(succeed('extract', MODEL, '--to', from, '-o', start, '--json'));
  assert.deepEqual(
    json.outputs.map(({ name }) => name),
    [from],
  );
  const fixed = JSON.parse(
    succeed('extract', MODEL, '--to', from, '-o', at('fixed.onnx'), '--dim', 'N=2', '--json'),
  );
  assert.deepEqual(fixed.inputs[0].dims, [2, 1, 28, 28]);
  const [image] = testImages(1);
  const begin = await InferenceSession.create(start);
  const inner = await begin.run(image);
  begin.release();
  assert.deepEqual(
    await logitsOf(await InferenceSession.create(file), inner),
    await logitsOf(await InferenceSession.create(MODEL), image),
  );
  // By the names of operators.
  const named = await extract(model, { from: [convs[1].name], to: [nodes.at(-1).name] });
  assert.deepEqual(named.info.inputs, (await loadModel(file)).info.inputs);
  named.dispose();
});

test('constants and shapes that Constant nodes hold', async (t) => {
  const model = await parseModel(`graph "g" opset 13
input %x: float32[N, 2, 3]
%shape = Constant() {value_ints = [0, -1]} "held"
%scale = Constant() {value_float = 2.0}
%flat = Reshape(%x, %shape) "flatten"
%twice = Mul(%flat, %scale) "double"
%y = Relu(%twice)
output %y`);
  t.after(() => model.dispose());
  const part = await extract(model, { from: ['flat'], to: ['twice'], shapes: { x: [5, 2, 3] } });
  t.after(() => part.dispose());
  assert.deepEqual(
    [...part.info.inputs, ...part.info.outputs].map(({ name, dims }) => [name, dims]),
    [
      ['flat', [5, 6]],
      ['twice', [5, 6]],
    ],
  );
  const by = { op: 'Mul', if: ({ inputValues }) => inputValues[1].constant };
  const parts = await partition(model, { backends: [{ name: 'b', patterns: [[by, 'Relu']] }] });
  t.after(() => parts.dispose());
  assert.deepEqual(
    parts.parts.map(({ backend }) => backend),
    [null, 'b'],
  );
});

test('what extract and partition refuse', async (t) => {
  const cases = [
    [['partition', MODEL], 2, /--backend is missing/],
    [['partition', MODEL, '--backend', 'npu'], 2, /no NAME=A,B\+C/],
    [['partition', MODEL, '--backend', 'npu=Conv,,Relu'], 2, /no NAME=A,B\+C/],
    [['partition', MODEL, '--backend', 'npu=Conv?'], 1, /no operator that must be there/],
    [['partition', MODEL, '--backend', 'npu=Conv++Relu'], 1, /\.op is/],
    [['partition', MODEL, '-b', 'a=Conv', '-b', 'a=Relu'], 1, /two backends/],
    [['partition', MODEL, '-b', 'a=Conv', '--max-operators', '0'], 2, /at least 1/],
    [['extract', MODEL, '-o', at('x')], 2, /--to is missing/],
    [['extract', MODEL, '--to', 'logits'], 2, /--output is missing/],
    [['extract', MODEL, '--to', 'nothing', '-o', at('x')], 1, /no value and no operator "nothing"/],
    [['extract', MODEL, '--to', 'image', '--from', 'logits', '-o', at('x')], 1, /needs? .*"image"/],
  ];
  for (const [args, expected, pattern] of cases) {
    const { code, out, err } = requant(...args);
    assert.equal(code, expected, `${args.join(' ')}: ${err}`);
    assert.match(err, pattern);
    assert.equal(out, '');
  }
  const split = await parseModel(
    'graph "g" opset 13\ninput %x: float32[2]\n%a = Relu(%x)\n%b = Add(%a, %x)\noutput %b',
  );
  t.after(() => split.dispose());
  await assert.rejects(extract(split, { from: ['a'], to: ['b'] }), {
    code: 'INVALID_ARGUMENT',
    value: 'x',
  });
  await assert.rejects(extract(split, { to: [] }), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(extract(split, { to: 'b' }), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(extract({}, { to: ['b'] }), { code: 'INVALID_ARGUMENT' });
});

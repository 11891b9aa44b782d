// The command line: quantized models in plain integer operators, passes and operators of plugins.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, test } from 'node:test';
import { Tensor, loadModel, parseModel } from 'requant';
import { parseNpy, writeNpy } from 'requant/dataset';
import { ROOT } from './support.mjs';

const owned = [];
/** Disposes of a model behind the test. */
function own(model) {
  owned.push(model);
  return model;
}
const parse = async (text) => own(await parseModel(text));
const load = async (file) => own(await loadModel(file));
afterEach(() => owned.splice(0).forEach((model) => model.dispose()));

const MAIN = path.join(ROOT, 'dist/cli/main.js');
const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-passes-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name) => path.join(folder, name);

function requant(...args) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const result = spawnSync(process.execPath, [...flags, MAIN, ...args], { encoding: 'utf8' });
  return { code: result.status, out: result.stdout, err: result.stderr };
}

function json(...args) {
  const { code, out, err } = requant(...args, '--json');
  assert.equal(code, 0, `requant ${args.join(' ')}: ${err}`);
  return JSON.parse(out);
}

async function write(name, text) {
  const model = await parse(text);
  writeFileSync(at(name), model.toOnnx());
}

test('optimize --legalize writes plain integer operators', async () => {
  await write(
    'layer.onnx',
    `graph "layer" opset 13, com.microsoft 1
    input %x: uint8[1, 1, 2, 2]
    const %s: float32[] = {0.5}
    const %z: uint8[] = {3}
    const %w: uint8[1, 1, 1, 1] = {7}
    %a: uint8[1, 1, 2, 2] = QLinearConv(%x, %s, %z, %w, %s, %z, %s, %z) "layer"
    %y: uint8[1, 1, 2, 2] = com.microsoft::QLinearSigmoid(%a, %s, %z, %s, %z) "gate"
    output %y`,
  );
  const args = ['optimize', at('layer.onnx'), '-o', at('plain.onnx'), '--legalize'];
  const report = json(...args, 'four_terms');
  assert.deepEqual(report.legalized, [{ name: 'layer', type: 'QLinearConv' }]);
  assert.equal(report.left[0].name, 'gate');
  const plain = await load(at('plain.onnx'));
  assert.ok(plain.info.nodes.some(({ op }) => op === 'FixedPointMultiply'));
  assert.match(requant(...args, 'subtract_first').out, /QLinearConv +1[\s\S]*gate +QLinearSigmoid/);
  assert.equal(requant(...args, 'three').code, 2);
  assert.equal(requant(...args, 'four_terms', '--passes', 'FuseOps').code, 2);
});

test('--plugin adds passes and operators', async () => {
  writeFileSync(
    at('plugin.mjs'),
    `export default async function ({ registerPass, registerOperator, Tensor }) {
      await registerOperator({
        name: 'Square', domain: 'my.domain',
        run: ([x]) => new Tensor('float32', x.data.map((v) => v * v), x.dims),
      });
      await registerPass({
        name: 'MulToSquare',
        pattern: { op: 'Mul', inputs: [{ value: 'x' }, { value: 'x' }] },
        rewrite: ({ values }, builder) => builder.add('Square', [values.x], { domain: 'my.domain' }),
      });
    }`,
  );
  await write(
    'square.onnx',
    `graph "m" opset 13
    input %x: float32[4]
    %y = Mul(%x, %x)
    output %y`,
  );
  const plugin = ['--plugin', at('plugin.mjs')];
  assert.ok(json('optimize', '--list', ...plugin).some(({ name }) => name === 'MulToSquare'));
  json('optimize', at('square.onnx'), '-o', at('own.onnx'), '--passes', 'MulToSquare', ...plugin);
  writeFileSync(at('x.npy'), writeNpy(new Tensor('float32', [1, -2, 3, 0.5], [4])));
  const run = ['run', at('own.onnx'), '--input', `x=${at('x.npy')}`, '--output', at('results')];
  const { code, err } = requant(...run);
  assert.equal(code, 1);
  assert.match(err, /Square/);
  json(...run, ...plugin);
  const y = parseNpy(readFileSync(at('results/y.npy')));
  assert.deepEqual([...y.data], [1, 4, 9, 0.25]);
  writeFileSync(at('bad.mjs'), 'export default 3;');
  assert.equal(requant('optimize', '--list', '--plugin', at('bad.mjs')).code, 2);
  const missing = requant('optimize', '--list', '--plugin', at('none.mjs'));
  assert.equal(missing.code, 1);
  assert.match(missing.err, /plugin .*none\.mjs cannot be loaded/);
});

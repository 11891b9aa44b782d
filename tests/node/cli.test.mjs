// The command line as users run it: `dist/cli/main.js` in a process of its own.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Tensor, loadModel, parseModel } from 'requant';
import { parseNpy, writeNpy } from 'requant/dataset';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const MAIN = path.join(ROOT, 'dist/cli/main.js');
const MODEL = path.join(ROOT, 'demos/models/fashion_mnist.onnx');
const DATA = path.join(ROOT, 'demos/data');
const CALIBRATION = path.join(DATA, 'calibration-images-idx3-ubyte');
const IMAGES = path.join(DATA, 'test-images-idx3-ubyte');
const LABELS = path.join(DATA, 'test-labels-idx1-ubyte');

const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-cli-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name) => path.join(folder, name);

function requant(...args) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const result = spawnSync(process.execPath, [...flags, MAIN, ...args], { encoding: 'utf8' });
  return { code: result.status, out: result.stdout, err: result.stderr };
}

function succeed(...args) {
  const { code, out, err } = requant(...args);
  assert.equal(code, 0, `requant ${args.join(' ')}: ${err}`);
  const rest = err.replace(/^made the folder .*\n/gm, '');
  assert.equal(rest, '', 'no progress on what is no terminal');
  return out;
}

const json = (...args) => JSON.parse(succeed(...args, '--json'));

test('help of every command; version', () => {
  const help = succeed('--help');
  for (const name of [
    'inspect',
    'optimize',
    'quantize',
    'pack',
    'run',
    'compare',
    'tune',
    'bench',
  ]) {
    assert.match(help, new RegExp(`^  ${name} `, 'm'));
    const own = succeed(name, '--help');
    assert.match(own, new RegExp(`^Usage: requant ${name} `));
    assert.match(own, /--json/);
  }
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  assert.equal(succeed('--version').trim(), version);
});

test('command lines that make no sense: exit code 2 and what to do', () => {
  const cases = [
    [[], /a command is missing/],
    [['quantise'], /Did you mean "quantize"/],
    [['inspect'], /MODEL is missing/],
    [['inspect', MODEL, 'more'], /unexpected argument "more"/],
    [['inspect', MODEL, '--jsn'], /Did you mean "--json"/],
    [['quantize', MODEL, '--data', CALIBRATION], /--output is missing/],
    [['quantize', MODEL, '-o', at('x')], /--data is missing/],
    [['quantize', MODEL, '-o', at('x'), '-d', 'y', '--bits', '33'], /1 to 32/],
    [['quantize', MODEL, '-o', at('x'), '-d', 'y', '--format', 'qd'], /"qdq"/],
    [['quantize', MODEL, '-o', at('x'), '-d', IMAGES, '--scale', 'a'], /--scale: "a" is no number/],
    [['run', MODEL], /no --input for image/],
    [['bench', MODEL, '--runs', '0'], /at least 1/],
    [['bench', MODEL, '--dim', 'N'], /NAME=N/],
  ];
  for (const [args, expected] of cases) {
    const { code, out, err } = requant(...args);
    assert.equal(code, 2, `${args.join(' ')}: ${err}`);
    assert.match(err, expected);
    assert.match(err, /Try: requant/);
    assert.equal(out, '');
  }
});

test('failures: exit code 1, one message, no stack', () => {
  writeFileSync(at('garbage.onnx'), 'this is no model');
  writeFileSync(at('bad.json'), '{"weights": {"bitz": 4}}');
  writeFileSync(at('cut.json'), '{"weights": ');
  writeFileSync(at('record.json'), '{"operators": [{"name": "conv", "quantized": true}]}');
  const configured = (name) => [
    'quantize',
    MODEL,
    '-d',
    CALIBRATION,
    '-o',
    at('x'),
    '-c',
    at(name),
  ];
  const cases = [
    [['inspect', at('none.onnx')], /none\.onnx/],
    [['inspect', at('garbage.onnx')], /requant: /],
    [['quantize', MODEL, '-d', at('none'), '-o', at('x')], /no such file or folder/],
    [configured('bad.json'), /hint: .*"bits"/],
    [configured('cut.json'), /cut\.json is no JSON/],
    [configured('record.json'), /record\.json is no record/],
    [['compare', MODEL, MODEL, '-d', IMAGES, '--labels', CALIBRATION], /labels for 1000 samples/],
    [['optimize', MODEL, '-o', at('x'), '--passes', 'none-such'], /none-such/],
  ];
  for (const [args, expected] of cases) {
    const { code, err } = requant(...args);
    assert.equal(code, 1, `${args.join(' ')}: ${err}`);
    assert.match(err, expected);
    assert.ok(!/\n {4}at /.test(err), err);
  }
});

test('inspect and optimize', async () => {
  assert.match(succeed('inspect', MODEL), /11 BatchNormalization, 11 Conv/);
  const info = json('inspect', MODEL);
  assert.deepEqual(
    info.inputs.map(({ name, dims }) => [name, dims]),
    [['image', ['N', 1, 28, 28]]],
  );
  assert.equal(info.nodes.length, 38);
  assert.match(succeed('inspect', MODEL, '--dot'), /^digraph/);
  const report = json('optimize', MODEL, '-o', at('optimized.onnx'));
  assert.equal(report.nodesBefore, 38);
  assert.ok(report.nodesAfter <= 27, `${report.nodesAfter}`);
  const optimized = await loadModel(at('optimized.onnx'));
  assert.ok(!optimized.info.nodes.some(({ op }) => op === 'BatchNormalization'));
  const dumps = ['--dump', at('dumps'), '--disable', report.passes[0].name];
  json('optimize', MODEL, '-o', at('kept.onnx'), ...dumps);
  assert.ok(readdirSync(at('dumps')).some((name) => name.endsWith('.dot')));
});

test('substitutions: what they cost and bring; the model stays', async () => {
  // Gates as in a decomposed SiLU, and a dense layer.
  const model = await parseModel(`graph "gates" opset 14
    input %x: float32[4, 8]
    const %w: float32[8, 8] = {${Array.from({ length: 64 }, (_, i) => `${((i * 7) % 13) / 13 - 0.45}`).join(', ')}}
    %h = MatMul(%x, %w) "dense"
    %s = Sigmoid(%h) "gate"
    %y = Mul(%h, %s) "silu"
    %z = Sigmoid(%y) "out"
    output %z`);
  writeFileSync(at('gates.onnx'), model.toOnnx());
  const rows = Array.from({ length: 3 }, (_, s) =>
    Float32Array.from({ length: 32 }, (_, i) => Math.sin(i * (s + 1)) * 3),
  );
  const bytes = Buffer.concat(rows.map((row) => Buffer.from(row.buffer)));
  writeFileSync(at('gates.bin'), bytes);
  const data = ['--data', at('gates.bin'), '--data-format', 'raw', '--shape', '4,8'];
  const args = ['optimize', at('gates.onnx'), '-o', at('hard.onnx'), ...data];
  const report = json(...args, '--substitute', 'SubstituteSigmoid');
  assert.deepEqual(
    report.operators.map(({ name, before, after }) => [name, before, after]),
    [
      ['silu', 'QuickGelu', 'HardSwish'],
      ['out', 'Sigmoid', 'HardSigmoid'],
    ],
  );
  assert.equal(report.samples, 3);
  for (const operator of report.operators) {
    assert.ok(operator.aloneMaxAbs > 0.01 && operator.aloneMaxAbs < 0.15, operator.name);
    assert.ok(operator.snr > 5 && operator.beforeMs >= 0 && operator.afterMs >= 0);
  }
  // The last operator inherits the error of the first one's input.
  assert.ok(report.outputs[0].maxAbs > 0.01 && report.outputs[0].maxAbs < 0.2);
  assert.ok(report.latency.ratio > 0 && report.top1.agreement >= 0);
  assert.match(
    succeed(...args, '--substitute', 'FastMath'),
    /Sigmoid +FastSigmoid[\s\S]*stays what it is/,
  );
  const none = json(...args, '--substitute', 'SubstituteGelu');
  assert.deepEqual([none.operators, none.outputs[0].snr], [[], null]);
  assert.deepEqual(readFileSync(at('gates.onnx')), Buffer.from(model.toOnnx()));
  for (const [wrong, message] of [
    [['--substitute', 'Everything'], /Everything/],
    [['--substitute', ''], /--substitute takes/],
  ]) {
    const { code, err } = requant(...args, ...wrong);
    assert.equal(code, 2, err);
    assert.match(err, message);
  }
  model.dispose();
});

test('passes: listed, run alone, dumped', () => {
  const passes = json('optimize', '--list');
  const names = passes.map(({ name }) => name);
  for (const name of ['DynamicToStatic', 'ConvertLayout', 'CombineParallelConv2D', 'FuseOps']) {
    assert.ok(names.includes(name), name);
  }
  assert.match(succeed('optimize', '--list'), /FoldConstant +default +exact/);
  for (const { name, optional, bound } of passes) {
    const folder = at(`only_${name}`);
    const out = at(`${name}.onnx`);
    const report = json('optimize', MODEL, '-o', out, '--passes', name, '--dump-passes', folder);
    assert.deepEqual(new Set(report.passes.map((pass) => pass.name)), new Set([name]));
    assert.ok(readdirSync(folder).includes('00_.txt'));
    assert.equal(typeof optional, 'boolean');
    assert.ok(bound >= 0 && bound <= 1);
  }
});

test('quantize, run, compare', () => {
  const int8 = at('int8.onnx');
  const args = ['--max-samples', '64', '-o', int8, '--record', at('record.json')];
  const made = json('quantize', MODEL, '-d', CALIBRATION, ...args);
  assert.equal(made.samples, 64);
  assert.ok(made.bytes < made.floatBytes / 2.5);
  assert.ok(made.quantizedOperators > 20);
  assert.ok(JSON.parse(readFileSync(at('record.json'), 'utf8')).operators.length > 20);

  const data = ['-d', IMAGES, '--labels', LABELS, '--max-samples', '200'];
  const page = at('report.html');
  const report = json('compare', MODEL, int8, ...data, '--html', page);
  assert.equal(report.samples, 200);
  assert.ok(report.top1.float > 0.9);
  assert.ok(report.top1.agreement > 0.97);
  assert.ok(report.layers.length > 10);
  assert.match(readFileSync(page, 'utf8'), /int8\.onnx against fashion_mnist\.onnx/);
  assert.match(succeed('compare', MODEL, int8, ...data), /same top-1 +\d/);

  const idx = readFileSync(IMAGES);
  const pixels = Float32Array.from(idx.subarray(16, 16 + 784), (pixel) => pixel / 255);
  writeFileSync(at('image.npy'), writeNpy(new Tensor('float32', pixels, [1, 1, 28, 28])));
  const label = readFileSync(LABELS)[8];
  for (const [model, more] of [
    [MODEL, []],
    [int8, ['--requantize', 'fixed']],
  ]) {
    const ran = json('run', model, '-i', `image=${at('image.npy')}`, '-o', at('outputs'), ...more);
    assert.equal(ran.outputs.logits.top[0].index, label);
    const logits = parseNpy(new Uint8Array(readFileSync(at('outputs/logits.npy'))));
    assert.deepEqual(logits.dims, [1, 10]);
    assert.equal(logits.data[label], ran.outputs.logits.max);
  }
  assert.match(succeed('run', MODEL, '-i', at('image.npy'), '--profile'), /GMAC\/s/);
});

test('what is not good enough: exit code 1 behind the whole result', async () => {
  const other = at('other.onnx');
  // A model of equal shapes with other weights.
  const model = await parseModel(`graph "other" opset 13
input %image: float32[1, 1, 28, 28]
const %shape: int64[2] = {1, 784}
const %w: float32[784, 10] = {${Array.from({ length: 7840 }, (_, i) => Math.sin(i * i).toFixed(3)).join(', ')}}
%flat = Reshape(%image, %shape)
%logits = MatMul(%flat, %w)
output %logits
`);
  writeFileSync(other, model.toOnnx());
  model.dispose();
  const data = ['-d', IMAGES, '--max-samples', '50', '--layers', '0'];
  const unlike = requant('compare', MODEL, other, ...data);
  assert.equal(unlike.code, 1);
  assert.match(unlike.err, /only \d.* of the answers are the same.*are these the same network/);
  assert.match(unlike.out, /same top-1/);
  // A bound given by the caller.
  const same = ['compare', MODEL, MODEL, ...data];
  assert.equal(requant(...same, '--min-agreement', '1').code, 0);
  assert.equal(requant(...same, '--min-agreement', '2').code, 2);
  const asked = requant('compare', MODEL, other, ...data, '--min-agreement', '0.9');
  assert.match(asked.err, /--min-agreement asks for 90/);
  assert.equal(requant('compare', MODEL, other, ...data, '--min-agreement', '0').code, 0);
});

test('names out of files move no cursor, and tables fit', async () => {
  const name = `${'n'.repeat(120)}\x1b[2J`;
  const model = await parseModel(`graph "odd" opset 13
input %x: float32[1, 4]
%${'long'.repeat(40)} = Relu(%x) "node"
%y = Neg(%${'long'.repeat(40)}) "last"
output %y
`);
  writeFileSync(at('odd.onnx'), model.toOnnx());
  model.dispose();
  const listed = succeed('inspect', at('odd.onnx'), '--nodes');
  for (const line of listed.split('\n')) assert.ok(line.length <= 140, `${line.length}: ${line}`);
  const { err } = requant('inspect', at(name));
  assert.ok(!err.includes('\x1b'), 'escape sequences are shown, not obeyed');
  assert.match(err, /\\x1b\[2J/);
  assert.match(
    requant('optimize', MODEL, '-o', at('new/folder/x.onnx')).err,
    /made the folder .*new/,
  );
  const nothing = requant('pack', MODEL, '-o', at('same.onnx'));
  assert.match(nothing.err, /nothing was packed/);
  assert.equal(nothing.code, 0);
});

test('quantize: config file, bits, QOperator, check on the calibration samples', async () => {
  writeFileSync(at('config.json'), JSON.stringify({ operatorTypes: { Gemm: null }, recover: [] }));
  const small = ['-d', IMAGES, '--labels', LABELS, '--max-samples', '16'];
  const out = ['-o', at('qop.onnx'), '--format', 'qoperator', '-c', at('config.json')];
  const made = json('quantize', MODEL, ...small, ...out, '--bits', '6', '--record', at('r.json'));
  assert.ok(made.calibrationTop1.agreement > 0.8);
  const record = JSON.parse(readFileSync(at('r.json'), 'utf8'));
  const gemm = record.operators.find(({ type }) => type === 'Gemm');
  assert.equal(gemm.quantized, false);
  const conv = record.operators.find(({ type }) => type === 'Conv');
  assert.equal(conv.inputs[1].bits, 6);
  const model = await loadModel(at('qop.onnx'));
  assert.ok(model.info.nodes.some(({ op }) => op === 'QLinearConv'));
  assert.ok(model.info.nodes.some(({ op }) => op === 'Gemm'));
});

test('bench: both sessions, memory against its lower bound', () => {
  const bench = json('bench', MODEL, '--runs', '5');
  assert.deepEqual(
    bench.results.map(({ name }) => name),
    ['float', 'int8'],
  );
  for (const { median, min, max, memory } of bench.results) {
    assert.ok(min > 0 && min <= median && median <= max);
    assert.ok(memory.arena >= memory.lowerBound && memory.lowerBound > 0);
  }
  assert.ok(bench.ratio > 0);
  const text = succeed('bench', MODEL, '--runs', '3', '-d', CALIBRATION, '--simd', 'simd128');
  assert.match(text, /engine simd128/);
  assert.match(text, /int8 : float = /);
});

test('bench --compact: values of few bits take less memory', () => {
  const few = { weights: { bits: 4 }, activations: { bits: 4 }, floatOutputs: false };
  writeFileSync(at('few.json'), JSON.stringify(few));
  const small = ['-d', CALIBRATION, '--max-samples', '4', '--config', at('few.json')];
  succeed('quantize', MODEL, ...small, '-o', at('few.onnx'));
  const arena = (...more) => {
    const { results } = json('bench', at('few.onnx'), '--runs', '1', ...more);
    return results[0].memory.arena;
  };
  assert.ok(arena('--compact') < arena());
});

test('pack: a bit for each weight of two values', async () => {
  const weights = Array.from({ length: 64 * 512 }, (_, i) => ((i * 7919) % 13 < 6 ? 1 : -1));
  const model = await parseModel(`graph "binary" opset 13
input %x: float32[1, 64]
const %w: float32[64, 512] = {${weights.join(', ')}}
%y = MatMul(%x, %w)
output %y
`);
  writeFileSync(at('binary.onnx'), model.toOnnx());
  const { output, before, bytes } = json('pack', at('binary.onnx'), '-o', at('packed.onnx'));
  assert.equal(output, at('packed.onnx'));
  assert.equal(bytes, readFileSync(output).length);
  assert.ok(before > 64 * 512 * 4 && bytes < (64 * 512) / 8 + 2000, `${before} to ${bytes}`);
  assert.match(succeed('pack', at('binary.onnx'), '-o', at('again.onnx')), /^wrote .*again\.onnx/);
  assert.deepEqual(readFileSync(at('again.onnx')), readFileSync(output));
  const values = Float32Array.from({ length: 64 }, (_, i) => i / 8 - 3);
  const x = writeNpy(new Tensor('float32', values, [1, 64]));
  writeFileSync(at('x64.npy'), x);
  const results = ['binary.onnx', 'packed.onnx'].map((file) => {
    succeed('run', at(file), '--input', `x=${at('x64.npy')}`, '--output', at(`out-${file}`));
    return readFileSync(path.join(at(`out-${file}`), 'y.npy'));
  });
  assert.deepEqual(results[1], results[0]);
  assert.equal(requant('pack', at('binary.onnx')).code, 2);
  model.dispose();
});

test('bits below eight are packed on demand', () => {
  const make = (name, ...more) =>
    json('quantize', MODEL, '-d', CALIBRATION, '--max-samples', '4', '-o', at(name), ...more);
  const bytes = make('four.onnx', '--bits', '4').bytes;
  const packed = make('int4.onnx', '--bits', '4', '--int4').bytes;
  assert.ok(packed < bytes - 30_000, `${packed} of ${bytes}`);
  const budget = 30_000;
  const least = make('int2.onnx', '--budget', String(budget), '--int2').bytes;
  assert.ok(least < packed && least > budget, `${least} of ${packed}`);
  const { code, err } = requant(
    ...['quantize', MODEL, '-d', CALIBRATION, '-o', at('no.onnx')],
    ...['--format', 'qoperator', '--int4'],
  );
  assert.equal(code, 2);
  assert.match(err, /--int4 goes with --format qdq only/);
});

test('what would be ignored is refused', () => {
  const config = at('ignored.json');
  for (const [content, message] of [
    ['null', /no config.*null/],
    ['[]', /no config.*array/],
    ['5', /no config.*5/],
  ]) {
    writeFileSync(config, content);
    const args = ['quantize', MODEL, '-d', CALIBRATION, '-o', at('no.onnx'), '-c', config];
    const { code, err } = requant(...args);
    assert.equal(code, 1, err);
    assert.match(err, message);
  }
  for (const [args, message] of [
    [['bench', MODEL, '--dim', 'foo=2'], /--dim foo=2 is no open dimension.*Known are: N/],
    [['tune', MODEL, '-o', at('no.json'), '--dim', 'foo=2'], /--dim foo=2/],
    [['optimize', MODEL, '-o', at('no.onnx'), '--data', IMAGES], /--data is for --substitute/],
  ]) {
    const { code, err } = requant(...args);
    assert.equal(code, 2, err);
    assert.match(err, message);
  }
});

test('inspect writes JSON of the other forms, too', async () => {
  const model = await loadModel(MODEL);
  assert.deepEqual(json('inspect', MODEL, '--text'), { text: model.toText() });
  const both = { text: model.toText(), dot: model.toDot() };
  assert.deepEqual(json('inspect', MODEL, '--dot', '--text'), both);
  assert.equal(succeed('inspect', MODEL, '--text'), `${model.toText()}\n`);
  model.dispose();
});

// The output of every command with every option, for files and arguments with unusual names and for several
// output paths.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseModel } from 'requant';
import { runCli } from '../../dist/cli/run.js';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-text-'));
after(() => rmSync(folder, { recursive: true }));
const at = (name) => path.join(folder, name);

/** Clears the screen; ends a line; U+009B means ESC [ to eight-bit terminals. */
const NASTY = '\x1b[2J\n\u009b';
const PLACEHOLDER = 'QNASTYQ';
const AFTER_LINE_FEED = 'long_name_of_a_value_';
const MODEL = at('nasty.onnx');
const QUANTIZED = at('nasty.int8.onnx');
const SAMPLES = ['-d', at('samples.bin'), '--data-format', 'raw', '--shape', '1,16'];

/** A model with long names that contain {@link NASTY}, which the text form of graphs cannot express. */
before(async () => {
  assert.equal(Buffer.byteLength(NASTY), PLACEHOLDER.length);
  const name = (of) => `${of}${PLACEHOLDER}${AFTER_LINE_FEED.repeat(7)}${of}`;
  const weights = Array.from({ length: 256 }, (_, i) => Math.sin(i * i).toFixed(3)).join(', ');
  const model = await parseModel(`graph "nasty" opset 13
input %${name('x')}: float32[N, 16]
const %${name('w')}: float32[16, 16] = {${weights}}
%${name('a')} = MatMul(%${name('x')}, %${name('w')}) "${name('dense')}"
%${name('s')} = Sigmoid(%${name('a')}) "${name('gate')}"
%${name('b')} = Mul(%${name('a')}, %${name('s')}) "${name('silu')}"
%${name('c')} = MatMul(%${name('b')}, %${name('w')}) "${name('head')}"
%${name('y')} = Softmax(%${name('c')}) "${name('soft')}"
output %${name('y')}
`);
  const bytes = Buffer.from(model.toOnnx());
  model.dispose();
  const nasty = Buffer.from(NASTY);
  for (let place; (place = bytes.indexOf(PLACEHOLDER)) >= 0;) nasty.copy(bytes, place);
  writeFileSync(MODEL, bytes);
  const numbers = Float32Array.from({ length: 16 * 12 }, (_, i) => Math.cos(i));
  writeFileSync(at('samples.bin'), Buffer.from(numbers.buffer));
  writeFileSync(at('x.bin'), Buffer.from(numbers.buffer, 0, 64));
  writeFileSync(at('labels.txt'), `1\n${NASTY}\n`);
  assert.equal((await requant('quantize', MODEL, ...SAMPLES, '-o', QUANTIZED)).code, 0);
});

async function requant(...args) {
  let [out, err] = ['', ''];
  const streams = { out: (text) => (out += text), err: (text) => (err += text), tty: false };
  const code = await runCli(args, streams);
  return { code, out, err };
}

/** The arguments with which each command can be called, except for its output path. */
const CALLS = {
  inspect: [MODEL, '--nodes'],
  optimize: [MODEL, '-o', at('o.onnx')],
  quantize: [MODEL, ...SAMPLES, '-o', at('q.onnx'), '--budget', '200'],
  train: [MODEL, ...SAMPLES, '-o', at('t.onnx'), '--epochs', '1'],
  pack: [MODEL, '-o', at('p.onnx')],
  weights: [MODEL, '-o', at('w.onnx')],
  generate: [MODEL, '-o', at('g.json')],
  partition: [MODEL, '--backend', 'npu=MatMul', '-o', at('m.parts')],
  extract: [MODEL, '--to', 'head', '-o', at('e.onnx')],
  analyze: [MODEL, ...SAMPLES, '--budget', '200'],
  run: [MODEL, '-i', at('x.bin'), '--profile'],
  compare: [MODEL, QUANTIZED, ...SAMPLES],
  verify: [MODEL, QUANTIZED, ...SAMPLES],
  tune: [MODEL, '-o', at('tuned.json'), '--budget', '50'],
  bench: [MODEL, '--runs', '2'],
  fingerprint: [],
  init: ['node', '-o', at('project')],
};
const MORE_CALLS = [
  ['optimize', MODEL, '-o', at('s.onnx'), '--substitute', 'SubstituteSigmoid', ...SAMPLES],
  ['inspect', MODEL, '--text'],
  ['inspect', MODEL, '--dot'],
  ['optimize', '--list'],
  ['generate', MODEL, '-o', at('g.c')],
  ['quantize', MODEL, ...SAMPLES, '-o', at('q.onnx'), '--labels', at('labels.txt')],
];

const harmless = (text, what) =>
  assert.doesNotMatch(text, /(?![\n\t])\p{Cc}/u, `control characters: ${what}`);

/** The lines of tables: those above and below lines of dashes, up to an empty line. */
function tableLines(text) {
  const lines = text.split('\n');
  return lines.filter((_, index) => {
    let first = index;
    while (first > 0 && lines[first - 1] !== '') first--;
    return lines[index] !== '' && /^-+( {2}-+)+$/.test(lines[first + 1] ?? '');
  });
}

test('the calls below are those of all commands', async () => {
  const { out } = await requant('--help');
  const names = [...out.matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name);
  assert.deepEqual(names.sort(), Object.keys(CALLS).sort());
});

test('names of files move no cursor, begin no lines, and fit into tables', async (t) => {
  for (const args of [...Object.entries(CALLS).map((call) => call.flat()), ...MORE_CALLS]) {
    await t.test(
      args
        .slice(0, 1)
        .concat(args.filter((arg) => /^--/.test(arg)))
        .join(' '),
      async () => {
        const { out, err } = await requant(...args);
        harmless(out + err, args[0]);
        const tables = tableLines(out);
        for (const line of tables) assert.ok(line.length <= 140, `${line.length}: ${line}`);
        // The core writes the graph's text and its summary.
        const own = args[0] === 'inspect' ? tables.join('\n') : out + err;
        assert.ok(!own.split('\n').some((line) => line.startsWith(AFTER_LINE_FEED)), own);
        if (args.includes('--list') || args.includes('--dot')) return;
        const json = await requant(...args, '--json');
        harmless(json.out + json.err, `${args[0]} --json`);
        if (json.code === 0) assert.equal(typeof JSON.parse(json.out), 'object');
      },
    );
  }
});

test('no option echoes control characters', async () => {
  let tried = 0;
  for (const [name, call] of Object.entries(CALLS)) {
    const { out: help } = await requant(name, '--help');
    for (const [, option] of help.matchAll(/ --([\w-]+) [A-Z]/g)) {
      const { out, err } = await requant(name, ...call, `--${option}=${at(NASTY)}`);
      harmless(out + err, `${name} --${option}`);
      tried++;
    }
    const { out, err } = await requant(name, ...call, at(NASTY));
    harmless(out + err, name);
  }
  assert.ok(tried > 100, `${tried}`);
  for (const args of [[NASTY], ['inspect', `--${NASTY}`], ['inspect', at(NASTY)]]) {
    const { code, err } = await requant(...args);
    assert.notEqual(code, 0);
    harmless(err, args.join(' '));
    assert.match(err, /x1b\[2J/);
  }
});

test('every folder that a command makes is said, wherever it writes', async () => {
  const writes = [
    ['optimize', '-o', 'x.onnx'],
    ['optimize', '--dump-passes', ''],
    ['quantize', '-o', 'x.onnx'],
    ['quantize', '--record', 'x.json'],
    ['train', '-o', 'x.onnx'],
    ['pack', '-o', 'x.onnx'],
    ['generate', '-o', 'x.json'],
    ['generate', '-o', 'x.plan'],
    ['analyze', '--html', 'x.html'],
    ['run', '-o', ''],
    ['compare', '--html', 'x.html'],
    ['tune', '-o', 'x.json'],
    ['bench', '--trace', 'x.json'],
  ];
  for (const [index, [name, option, file]] of writes.entries()) {
    const made = at(`new${index}`);
    // The last of two values of an option counts.
    const { code, err } = await requant(name, ...CALLS[name], option, path.join(made, file));
    assert.equal(code, 0, `${name}: ${err}`);
    assert.ok(existsSync(path.join(made, file)), `${name} ${option}`);
    assert.equal(err.match(/^made the folder (.*)$/gm)?.length, 1, `${name} ${option}: ${err}`);
    assert.ok(err.includes(`made the folder ${made}`));
    const again = await requant(name, ...CALLS[name], option, path.join(made, file));
    assert.doesNotMatch(again.err, /made the folder/);
  }
});

test('a reader that goes away, such as head, ends nothing', () => {
  const main = path.join(ROOT, 'dist/cli/main.js');
  const html = at('piped.html');
  const script = `${process.execPath} ${main} analyze ${MODEL} ${SAMPLES.join(' ')} --html ${html} | true`;
  const { status, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', script], {
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  assert.equal(status, 0);
  assert.ok(existsSync(html));
});

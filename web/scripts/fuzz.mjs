// Runs tests/fuzz for some time, all programs at once, under the sanitizers.
//
//   node web/scripts/fuzz.mjs [--seconds N] [model] [quantize] [session] [text]
//
// Models start from those of ONNX's conformance data (Debian's libonnx-testdata). Inputs that reach new code
// are kept in build/fuzz/corpus; an input that breaks a program stays in build/fuzz, and its name is printed.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT, filesBelow, run } from './run.mjs';

const BUILD = path.join(ROOT, 'build/fuzz');
const SEEDS = path.join(BUILD, 'seeds');
const MODELS = '/usr/share/libonnx-testdata/data';
const LARGEST_SEED = 8192;

/** A clang++ with libFuzzer, which is a package of its own. */
function fuzzingCompiler() {
  const program = path.join(tmpdir(), `requant-fuzz-${process.pid}`);
  const source = 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }';
  const flags = ['-fsanitize=fuzzer,address,undefined', '-x', 'c++', '-', '-o', program];
  try {
    return ['clang++', 'clang++-19'].find(
      (name) => spawnSync(name, flags, { input: source }).status === 0,
    );
  } finally {
    rmSync(program, { force: true });
  }
}

function build() {
  const found = fuzzingCompiler();
  run('bash', ['web/scripts/setup.sh', 'fuzz', ...(found ? [] : ['clang'])]);
  const compiler = found ?? fuzzingCompiler();
  if (!compiler)
    throw new Error('no clang++ with libFuzzer (Debian: clang-19, libclang-rt-19-dev)');
  run('cmake', ['--preset', 'fuzz', `-DCMAKE_CXX_COMPILER=${compiler}`]);
  run('cmake', ['--build', '--preset', 'fuzz', '-j2']);
}

/** Collects small models in one folder, named by their content. */
function gatherSeeds() {
  mkdirSync(SEEDS, { recursive: true });
  for (const name of readdirSync(MODELS, { recursive: true })) {
    const file = path.join(MODELS, name);
    if (!name.endsWith('.onnx') || statSync(file).size > LARGEST_SEED) continue;
    const digest = createHash('sha256').update(readFileSync(file)).digest('hex');
    copyFileSync(file, path.join(SEEDS, digest.slice(0, 16)));
  }
}

/** Resolves to '' or to a description of the failure. */
function fuzz(target, seconds) {
  const corpus = path.join(BUILD, 'corpus', target);
  mkdirSync(corpus, { recursive: true });
  const args = [
    `-max_total_time=${seconds}`,
    `-max_len=${LARGEST_SEED}`,
    '-timeout=20',
    '-rss_limit_mb=3000',
    `-artifact_prefix=${BUILD}/${target}-`,
    corpus,
    ...(target === 'text' ? [] : [SEEDS]),
  ];
  return new Promise((resolve) => {
    const child = spawn(path.join(BUILD, `fuzz_${target}`), args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, UBSAN_OPTIONS: 'print_stacktrace=1' },
    });
    let output = '';
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('error', (error) => resolve(error.message));
    child.on('close', (status) => {
      const log = path.join(BUILD, `${target}.log`);
      writeFileSync(log, output);
      const runs = /^Done (\d+) runs/m.exec(output)?.[1];
      console.log(
        `fuzz_${target}: ${runs ?? 'no'} runs, ${status === 0 ? 'ok' : `FAILED, see ${log}`}`,
      );
      resolve(status === 0 ? '' : output.slice(-6000));
    });
  });
}

const { values, positionals } = parseArgs({
  options: { seconds: { type: 'string', default: '60' } },
  allowPositionals: true,
});
const all = filesBelow('tests/fuzz', (name) => name.endsWith('.cpp')).map((file) =>
  path.basename(file, '.cpp'),
);
const unknown = positionals.find((name) => !all.includes(name));
if (unknown !== undefined) throw new Error(`no tests/fuzz/${unknown}.cpp (${all.join(', ')})`);
const seconds = Number(values.seconds);
if (!Number.isInteger(seconds) || seconds < 1) throw new Error(`--seconds ${values.seconds}`);

build();
gatherSeeds();
const wanted = positionals.length > 0 ? positionals : all;
const failures = (await Promise.all(wanted.map((name) => fuzz(name, seconds)))).filter(Boolean);
for (const output of failures) console.error(output);
process.exitCode = failures.length > 0 ? 1 : 0;

// The benchmarks of tests/bench, as far as that can be told without running them for minutes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { PARTS } from '../bench/result_parts.mjs';
import { ROOT } from './support.mjs';

const folder = path.join(ROOT, 'tests/bench');
const dist = path.join(ROOT, 'dist');
const scripts = readdirSync(folder).filter((name) => /\.m?js$/.test(name));

test('every file that a benchmark imports is there', () => {
  const missing = scripts.flatMap((name) => {
    const text = readFileSync(path.join(folder, name), 'utf8');
    return (
      [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)]
        // Scripts of pages lie in dist.
        .filter(([, file]) => ![folder, dist].some((place) => existsSync(path.join(place, file))))
        .map(([, file]) => `${name}: ${file}`)
    );
  });
  assert.deepEqual(missing, []);
});

test('every part of npm run bench is a benchmark that prints JSON', () => {
  for (const { name, script } of PARTS) {
    const text = readFileSync(path.join(folder, script), 'utf8');
    assert.match(text, /json: false/, name);
  }
});

const compiler = '/usr/bin/clang++-19';
const skip = !existsSync(compiler) && 'needs clang++-19';
for (const name of ['tiles.cpp', 'bit_tiles.cpp']) {
  test(`${name} compiles with the kernels' headers`, { skip }, () => {
    const flags = [
      ...['--target=wasm32', '-std=c++20', '-ffreestanding', '-nostdinc++', '-fsyntax-only'],
      ...['-msimd128', '-mrelaxed-simd', '-DREQUANT_RELAXED=1', '-DREQUANT_KERNEL_MODULE=1'],
    ];
    execFileSync(compiler, [...flags, `-I${path.join(ROOT, 'src')}`, path.join(folder, name)]);
  });
}

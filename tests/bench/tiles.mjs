// Register tiles alone (tiles.cpp, bit_tiles.cpp): the ceilings with which layers are compared.

import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { FOLDER, ROOT } from './networks.mjs';

export function run(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command}: ${error?.message ?? `exit status ${status}`}`);
}

/**
 * Compiles tests/bench/NAME.cpp to a module in build/bench; gives its name. Needs clang++-19 and wasm-ld-19.
 */
export function buildTiles(name, flags = []) {
  mkdirSync(FOLDER, { recursive: true });
  const object = path.join(FOLDER, `${name}.o`);
  run('clang++-19', [
    ...['--target=wasm32', '-std=c++20', '-O3', '-ffreestanding', '-nostdlib', '-nostdinc++'],
    ...['-msimd128', '-mrelaxed-simd', '-DREQUANT_RELAXED=1', '-DREQUANT_KERNEL_MODULE=1'],
    ...[...flags, `-I${path.join(ROOT, 'src')}`],
    ...['-c', path.join(ROOT, `tests/bench/${name}.cpp`), '-o', object],
  ]);
  const module = path.join(FOLDER, `${name}.wasm`);
  run('wasm-ld-19', ['--no-entry', '--import-memory', object, '-o', module]);
  return path.basename(module);
}

/**
 * The ratio of a kernel's products to those of the definition. Winograd's tiles of 2 x 2 outputs take 16
 * instead of 36 (25 with a stride of 2), those of 4 x 3 take 30 instead of 108, and those of 4 x 4 36 instead
 * of 144; tiles that reach beyond the edge count, too.
 */
export function productsOf({ kernel, dims }) {
  if (!kernel.includes('winograd')) return 1;
  const [high, wide] = (/(\d)x(\d)/.exec(kernel)?.slice(1) ?? [2, 2]).map(Number);
  const [height, width] = dims.slice(-2);
  const tiles = Math.ceil(height / high) * Math.ceil(width / wide);
  const points = kernel.includes('strided') ? 25 : (high + 2) * (wide + 2);
  return (tiles * points) / (height * width * 9);
}

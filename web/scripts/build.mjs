// Builds the package into dist: the wasm modules (CMake) and the TypeScript.
//
//   node web/scripts/build.mjs [wasm] [web] [--threads]
//
// Without a part's name both are built. --threads adds the threaded variants of the modules.

import { chmodSync, copyFileSync, existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { ROOT, filesBelow, run } from './run.mjs';

/** dist/core*.js and dist/requant-*.wasm. */
export function buildWasm({ threads = false } = {}) {
  for (const preset of threads ? ['wasm', 'wasm-threads'] : ['wasm']) {
    if (!existsSync(path.join(ROOT, 'build', preset, 'build.ninja'))) {
      run('cmake', ['--preset', preset]);
    }
    run('cmake', ['--build', '--preset', preset]);
  }
}

/** dist/**.js and .d.ts from web/**.ts. */
export function buildWeb() {
  run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']);
  // Declarations written by hand (of the Emscripten glue) are inputs to tsc, so it does not emit them.
  for (const file of filesBelow('web', (name) => name.endsWith('.d.ts'))) {
    const target = path.join(ROOT, 'dist', path.relative('web', file));
    mkdirSync(path.dirname(target), { recursive: true });
    copyFileSync(path.join(ROOT, file), target);
  }
  const cli = path.join(ROOT, 'dist/cli/main.js');
  if (existsSync(cli)) chmodSync(cli, 0o755);
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const args = process.argv.slice(2);
  const unknown = args.filter((arg) => !['wasm', 'web', '--threads'].includes(arg));
  if (unknown.length > 0) {
    console.error(`build: unknown argument ${unknown[0]} (wasm, web, --threads)`);
    process.exit(2);
  }
  const both = !args.includes('wasm') && !args.includes('web');
  try {
    if (both || args.includes('wasm')) buildWasm({ threads: args.includes('--threads') });
    if (both || args.includes('web')) buildWeb();
  } catch (error) {
    console.error(`build: ${error.message}`);
    process.exit(1);
  }
}

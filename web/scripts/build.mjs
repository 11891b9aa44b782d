// Builds the package into dist: the wasm modules (CMake) and the TypeScript.
//
//   node web/scripts/build.mjs [wasm] [web] [demo]
//
// Without an argument it builds wasm and web. `demo` builds web and the modules that this Node loads to
// quantize, run and compare on one thread: less than half of all.

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { ROOT, filesBelow, run } from './run.mjs';

/** The em++ on the PATH. */
function emscripten() {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    const file = path.join(folder, 'em++');
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat?.isFile()) return `${realpathSync(file)} ${Math.trunc(stat.mtimeMs)}\n`;
  }
  return 'none\n';
}

/** Builds dist/core.js and dist/*.wasm, or a target of bindings/cmake/wasm.cmake. */
export function buildWasm(target = 'modules') {
  const compiler = emscripten();
  const folder = path.join(ROOT, 'build/wasm');
  const stamp = path.join(folder, 'compiler.txt');
  // A build folder belongs to one Emscripten; a change of Emscripten makes its content useless.
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') !== compiler) {
    console.log('build: another em++ than last time, starting anew');
    rmSync(folder, { recursive: true });
  }
  if (!existsSync(path.join(folder, 'build.ninja'))) {
    // Another compiler may know warnings that ours does not, which must not fail a plain build.
    run('cmake', ['--preset', 'wasm', `-DREQUANT_WERROR=${process.env.CI ? 'ON' : 'OFF'}`]);
  }
  writeFileSync(stamp, compiler);
  run('cmake', ['--build', '--preset', 'wasm', '--target', target]);
}

/** Builds what the demo needs, of the variant that the package chooses in this Node. */
async function buildDemo() {
  buildWeb();
  const { hasRelaxedSimd } = await import(path.join(ROOT, 'dist/engine/relaxed_simd.js'));
  buildWasm(hasRelaxedSimd() ? 'demo-relaxed' : 'demo-simd128');
}

const modified = (file) =>
  statSync(path.join(ROOT, file), { throwIfNoEntry: false })?.mtimeMs ?? -Infinity;

const webSources = () => filesBelow('web', (name) => name.endsWith('.ts'));

/** The files in dist that are made from these sources. */
const outputsOf = (sources) =>
  sources
    .map((file) => path.join('dist', path.relative('web', file)))
    .flatMap((file) =>
      file.endsWith('.d.ts')
        ? [file]
        : ['js', 'js.map', 'd.ts'].map((ending) => file.replace(/ts$/, ending)),
    );

/** Whether everything that tsc would write exists and is newer than all that it reads. */
function webIsBuilt() {
  const sources = webSources();
  const inputs = [...sources, 'tsconfig.json', 'node_modules/.package-lock.json'];
  return Math.min(...outputsOf(sources).map(modified)) > Math.max(...inputs.map(modified));
}

/** Removes outputs of sources that no longer exist, which a package would include. */
function removeFormer() {
  const made = new Set([...outputsOf(webSources()), path.join('dist', 'core.js')]);
  for (const file of filesBelow('dist', (name) => /\.(js|js\.map|d\.ts)$/.test(name))) {
    if (!made.has(file)) rmSync(path.join(ROOT, file));
  }
}

/**
 * Writes dist/c_kernels.txt, JSON: the C that generateC() copies. Pages that only run models do not load it.
 */
function writeKernels() {
  const files = filesBelow('src/codegen/c', (name) => name.endsWith('.c'));
  const texts = files.map((file) => [
    path.basename(file, '.c'),
    readFileSync(path.join(ROOT, file), 'utf8'),
  ]);
  const text = `${JSON.stringify(Object.fromEntries(texts), null, 1)}\n`;
  const target = path.join(ROOT, 'dist/c_kernels.txt');
  if (existsSync(target) && readFileSync(target, 'utf8') === text) return;
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, text);
}

/** Makes dist/**.js with source maps, and .d.ts, from web/**.ts. */
export function buildWeb() {
  writeKernels();
  removeFormer();
  if (webIsBuilt()) return;
  run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']);
  // Declarations written by hand (of the Emscripten glue) are inputs to tsc, which does not emit them.
  for (const file of filesBelow('web', (name) => name.endsWith('.d.ts'))) {
    const target = path.join(ROOT, 'dist', path.relative('web', file));
    mkdirSync(path.dirname(target), { recursive: true });
    copyFileSync(path.join(ROOT, file), target);
  }
  const cli = path.join(ROOT, 'dist/cli/main.js');
  if (existsSync(cli)) chmodSync(cli, 0o755);
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const parts = { wasm: () => buildWasm(), web: buildWeb, demo: buildDemo };
  const args = process.argv.slice(2);
  const unknown = args.find((arg) => !Object.hasOwn(parts, arg));
  if (unknown !== undefined) {
    console.error(`build: unknown argument ${unknown} (${Object.keys(parts).join(', ')})`);
    process.exit(2);
  }
  try {
    for (const part of args.length > 0 ? args : ['wasm', 'web']) await parts[part]();
  } catch (error) {
    console.error(`build: ${error.message}`);
    process.exit(1);
  }
}

// Runs clang-tidy over the C++ sources of src, as many files at a time as there are cores.
//
//   node web/scripts/lint_cpp.mjs [--all] [file or folder...]
//
// It skips a file that was clean while the file, our headers that it includes, its command line, .clang-tidy
// and clang-tidy itself have not changed (build/lint.json remembers); --all checks every file. With CI in the
// environment it checks a sixth of all files every day, another one each, and always those that the last
// commits changed.

import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { ROOT } from './run.mjs';

const BUILD = path.join(ROOT, 'build/native-release');
const SOURCES = path.join(ROOT, 'src');
const MEMORY = path.join(ROOT, 'build/lint.json');

const digest = (text) => createHash('sha256').update(text).digest('hex');

const seen = new Map();

/** The digest of a header or source, and the files of ours that it includes. */
function look(file) {
  if (!seen.has(file)) {
    const text = readFileSync(file, 'utf8');
    const includes = [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)]
      .map(([, name]) =>
        [path.join(SOURCES, name), path.join(path.dirname(file), name)].find(existsSync),
      )
      .filter(Boolean);
    seen.set(file, { own: digest(text), includes });
  }
  return seen.get(file);
}

/** A digest of a source and of all our files that it includes, directly or indirectly. */
function contents(source) {
  const reached = new Set([source]);
  for (const file of reached) for (const header of look(file).includes) reached.add(header);
  return digest(
    [...reached]
      .sort()
      .map((file) => `${file} ${look(file).own}`)
      .join('\n'),
  );
}

function tidy(file) {
  return new Promise((resolve) => {
    let output = '';
    let errors = '';
    const child = spawn('clang-tidy', ['--quiet', '--warnings-as-errors=*', '-p', BUILD, file], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (errors += chunk));
    child.on('error', (error) => resolve(error.message));
    child.on('close', (status) => resolve(status === 0 ? '' : output || errors));
  });
}

const RECENT_COMMITS = 20;
const MS_PER_DAY = 86_400_000;

let recent;

/** Whether CI checks the file on this day. */
function isDue(file) {
  if (!recent) {
    const log = ['log', `-${RECENT_COMMITS}`, '--name-only', '--format='];
    const names = execFileSync('git', log, { cwd: ROOT, encoding: 'utf8' }).split('\n');
    recent = new Set(names.filter(Boolean).map((name) => path.join(ROOT, name)));
  }
  const sixth = Number.parseInt(digest(path.relative(ROOT, file)).slice(0, 8), 16) % 6;
  return recent.has(file) || sixth === Math.floor(Date.now() / MS_PER_DAY) % 6;
}

const args = process.argv.slice(2);
const everything = args.includes('--all');
const wanted = args.filter((arg) => arg !== '--all').map((name) => path.resolve(name));

// CMake runs every time, since the compile commands would lack a source that was added meanwhile.
execFileSync('cmake', ['--preset', 'native-release'], {
  cwd: ROOT,
  stdio: ['ignore', 'ignore', 'inherit'],
});
const commands = JSON.parse(readFileSync(path.join(BUILD, 'compile_commands.json'), 'utf8'))
  .filter(({ file }) => file.startsWith(SOURCES + path.sep))
  .filter(
    ({ file }) =>
      wanted.length === 0 ||
      wanted.some((prefix) => file === prefix || file.startsWith(prefix + path.sep)),
  );
if (commands.length === 0) {
  console.error(`lint: no source of src below ${wanted.join(', ')}`);
  process.exit(2);
}

const rules = digest(
  execFileSync('clang-tidy', ['--version'], { encoding: 'utf8' }) +
    readFileSync(path.join(ROOT, '.clang-tidy'), 'utf8'),
);
const memory = existsSync(MEMORY) && !everything ? JSON.parse(readFileSync(MEMORY, 'utf8')) : {};
const queue = commands
  .filter(({ file }) => everything || !process.env.CI || isDue(file))
  .map(({ file, command }) => ({ file, key: digest(rules + command + contents(file)) }))
  .filter(({ file, key }) => memory[path.relative(ROOT, file)] !== key);

const start = performance.now();
const timed = [];
let bad = 0;
async function worker() {
  for (let next = queue.shift(); next; next = queue.shift()) {
    const began = performance.now();
    const output = await tidy(next.file);
    const name = path.relative(ROOT, next.file);
    timed.push({ name, seconds: (performance.now() - began) / 1000 });
    if (output) {
      bad += 1;
      delete memory[name];
      console.log(output);
    } else {
      memory[name] = next.key;
    }
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, worker));

mkdirSync(path.dirname(MEMORY), { recursive: true });
writeFileSync(MEMORY, JSON.stringify(memory, null, 1));
timed.sort((a, b) => b.seconds - a.seconds);
const slowest = timed.slice(0, 3).map(({ name, seconds }) => `${name} ${seconds.toFixed(0)} s`);
console.log(
  `lint: ${commands.length} files, ${timed.length} read in ` +
    `${((performance.now() - start) / 1000).toFixed(0)} s, ${bad} with findings` +
    (slowest.length > 0 ? ` (slowest: ${slowest.join(', ')})` : ''),
);
process.exitCode = bad > 0 ? 1 : 0;

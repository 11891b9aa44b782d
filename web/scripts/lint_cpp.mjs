// clang-tidy over the C++ sources, two files at a time.
//
//   node web/scripts/lint_cpp.mjs [file or folder...]

import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT, run } from './run.mjs';

const build = path.join(ROOT, 'build/native-release');
if (!existsSync(path.join(build, 'compile_commands.json'))) {
  run('cmake', ['--preset', 'native-release']);
}
const wanted = process.argv.slice(2).map((name) => path.resolve(name));
const files = JSON.parse(readFileSync(path.join(build, 'compile_commands.json'), 'utf8'))
  .map((entry) => entry.file)
  .filter((file) => file.startsWith(path.join(ROOT, 'src') + path.sep))
  .filter((file) => wanted.length === 0 || wanted.some((prefix) => file.startsWith(prefix)));

function tidy(file) {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn('clang-tidy', ['--quiet', '--warnings-as-errors=*', '-p', build, file], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    child.stdout.on('data', (chunk) => (output += chunk));
    child.on('error', (error) => resolve(error.message));
    child.on('close', (status) => resolve(status === 0 ? '' : output));
  });
}

let bad = 0;
const queue = [...files];
async function worker() {
  for (let file = queue.shift(); file; file = queue.shift()) {
    const output = await tidy(file);
    if (output) {
      bad += 1;
      console.log(output);
    }
  }
}
await Promise.all([worker(), worker()]);
console.log(`${files.length} files, ${bad} with findings`);
process.exitCode = bad > 0 ? 1 : 0;

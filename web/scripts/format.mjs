// Formats the sources, or with --check lists those that are not formatted: clang-format for C++ and C,
// prettier for TypeScript and JavaScript.

import { ROOT, filesBelow, run } from './run.mjs';
import { existsSync } from 'node:fs';
import path from 'node:path';

const check = process.argv.includes('--check');
const problems = [];

function attempt(command, args) {
  try {
    run(command, args);
  } catch (error) {
    problems.push(error.message);
  }
}

const cpp = ['src', 'bindings', 'tests'].flatMap((folder) =>
  filesBelow(folder, (name) => /\.(h|c|cpp)$/.test(name)),
);
if (cpp.length > 0) {
  attempt('clang-format', [...(check ? ['--dry-run', '-Werror'] : ['-i']), ...cpp]);
}

const folders = ['web', 'tests', 'demos'].filter((folder) => existsSync(path.join(ROOT, folder)));
attempt(process.execPath, [
  'node_modules/prettier/bin/prettier.cjs',
  ...(check ? ['--check'] : ['--write', '--log-level=warn']),
  '--no-error-on-unmatched-pattern',
  ...folders.map((folder) => `${folder}/**/*.{ts,tsx,mjs,js,html,css}`),
  '*.{js,json}',
]);

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exitCode = 1;
}

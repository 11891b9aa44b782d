// Checks the shell commands of documents without running them: programs, scripts, options and targets are there.

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readArgs } from '../../dist/cli/args.js';
import { commands } from '../../dist/cli/run.js';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The words of a shell line, without quotes; supports what the documents use. */
function words(line) {
  return [...line.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) =>
    word.replace(/'([^']*)'|"([^"]*)"/g, (_all, single, double) => single ?? double),
  );
}

/** The commands of a block, without comments and without brackets around optional parts. */
export function commandsOf(code) {
  return code
    .replace(/\\\n\s*/g, ' ')
    .replace(/(^|\s)#.*$/gm, '')
    .split(/\n|&&|;/)
    .map((line) => words(line.replace(/\[(--[^\]]*)\]/g, '$1')))
    .filter((command) => command.length > 0);
}

const manifest = () => JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));

function requantProblem(args) {
  const [name, ...rest] = args;
  if (['--help', '--version'].includes(name)) return undefined;
  const command = commands.find(({ spec }) => spec.name === name);
  if (!command) return `there is no command ${name}`;
  try {
    readArgs(command.spec, rest);
    return undefined;
  } catch (error) {
    return `requant ${name}: ${error.message}`;
  }
}

/** Whether a script, or a file of ours that it imports, has an option: as a word or as the key of a table. */
function knows(file, option, seen = new Set()) {
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  const name = option.replace(/^--/, '');
  if (new RegExp(`--${name}(?![\\w-])|(?<![\\w-])['"]?${name}['"]?: `).test(text)) return true;
  return [...text.matchAll(/from '(\.[^']+)'/g)].some(([, from]) =>
    knows(path.resolve(path.dirname(file), from), option, seen),
  );
}

function scriptProblem([script, ...args]) {
  const file = path.join(ROOT, script);
  if (!existsSync(file)) return `there is no ${script}`;
  for (const [option] of args.filter((arg) => arg.startsWith('--')).map((arg) => arg.split('='))) {
    if (!knows(file, option)) return `${script} has no option ${option}`;
  }
  return undefined;
}

/** The problem of an npm command, by its first word; a script's own arguments follow "--". */
function npmProblem(all) {
  const args = all.filter((word) => word !== '--silent');
  const name = args[0] === 'run' ? args[1] : args[0];
  if (['install', 'pack'].includes(args[0])) return undefined;
  const script = manifest().scripts[name];
  if (script === undefined) return `package.json has no script ${name}`;
  const own = /node (\S+\.mjs)/.exec(script);
  const rest = args.slice(args.indexOf('--') + 1);
  return own && args.includes('--') ? scriptProblem([own[1], ...rest]) : undefined;
}

/** The problem of a cmake command: an unknown preset or target. */
function cmakeProblem(args) {
  const preset = args[args.indexOf('--preset') + 1];
  const presets = JSON.parse(readFileSync(path.join(ROOT, 'CMakePresets.json'), 'utf8'));
  if (!presets.configurePresets.some(({ name }) => name === preset)) return `no preset ${preset}`;
  const target = args.includes('--target') && args[args.indexOf('--target') + 1];
  return target ? testProgramProblem(target) : undefined;
}

/** The problem of a command that runs a C++ test program, by its name. */
function testProgramProblem(name) {
  const folder = `tests/cpp/${path.basename(name).replace(/^test_/, '')}`;
  return existsSync(path.join(ROOT, folder)) ? undefined : `there is no ${folder}`;
}

/** The programs that blocks may call, and the checks of their arguments. */
const programs = {
  requant: requantProblem,
  npx: ([name, ...rest]) =>
    name === 'requant' ? requantProblem(rest) : `npx ${name} is not of this package`,
  node: (args) => {
    const rest = args.slice(args.findIndex((arg) => !arg.startsWith('-')));
    if (rest[0] === 'dist/cli/main.js') return requantProblem(rest.slice(1));
    return scriptProblem(rest);
  },
  npm: npmProblem,
  bash: ([script]) => scriptProblem([script]),
  cc: () => undefined,
  cmake: cmakeProblem,
  cd: () => undefined,
  cp: () => undefined,
  esbuild: () => undefined,
  git: () => undefined,
  python3: () => undefined,
  rollup: () => undefined,
};

/** The problem of one command, or undefined. */
export function commandProblem(command) {
  const rest = command.slice(command.findIndex((word) => !/^[A-Z_]+=/.test(word)));
  const [program, ...args] = rest;
  // A previous command has made the program.
  if (program.startsWith('./')) return undefined;
  if (program.startsWith('build/native/')) return testProgramProblem(program);
  return programs[program] ? programs[program](args) : `nobody knows the program ${program}`;
}

// Measures all numbers of docs/benchmarks.md in one run of one version.
//
//   npm run bench -- [PART ...] [--networks resnet50,...] [--rounds N] [--repeats N] [--write]
//   npm run bench -- --page
//
// PART: see result_parts.mjs; all by default, which takes some ten minutes on two processors once the
// networks are made. A part is a benchmark of this folder in a process of its own, whose contenders take
// turns; a part whose requirements are missing is reported and left out. All results go into
// build/bench/results.json; --write puts them into tests/bench/results.json as well, and their tables into
// docs/benchmarks.md. With some parts alone --write replaces only these, which say when and of which version
// they were measured. --page measures nothing and only writes the tables again. --rounds: for contenders that
// take turns (5); --repeats: for new browsers and processes, and for benchmarks with long rounds (3).

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chosenNetworks, readArguments } from './arguments.mjs';
import { FOLDER, ROOT, makeNetworks } from './networks.mjs';
import { PARTS } from './result_parts.mjs';
import { RESULTS, writePage } from './result_page.mjs';
import { FORMS } from './result_tables.mjs';
import { litertVersion } from './site.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));

function chosenParts(words) {
  const unknown = words.find((word) => !PARTS.some(({ name }) => name === word));
  if (unknown) {
    throw new Error(`no part ${unknown} (${PARTS.map(({ name }) => name).join(', ')})`);
  }
  return words.length > 0 ? PARTS.filter(({ name }) => words.includes(name)) : PARTS;
}

const standards = { networks: '', rounds: 5, repeats: 3, write: false, page: false };
const { networks, rounds, repeats, write, page, parts } = readArguments(standards, (values) => ({
  ...values,
  networks: chosenNetworks(values.networks.split(',').filter(Boolean)),
  parts: chosenParts(values.words),
}));

/** The output of git, or undefined outside of a clone. */
function git(...args) {
  try {
    const options = { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
    return execFileSync('git', args, options).trim();
  } catch {
    return undefined;
  }
}

/**
 * Vendor, family and model of the processor from /proc, if they are there: names of virtual processors say
 * little.
 */
function processorOf() {
  const name = os.cpus()[0].model.trim();
  try {
    const text = readFileSync('/proc/cpuinfo', 'utf8');
    const field = (key) => new RegExp(`^${key}\\s*: (.*)$`, 'm').exec(text)?.[1];
    return `${name}, family ${field('cpu family')}, model ${field('model')}`;
  } catch {
    return name;
  }
}

async function describeMachine() {
  const { engineInfo, version } = await import('requant');
  const { variant, kernels } = await engineInfo();
  const missing = kernels.find(({ name }) => name === 'conv_q8_dot8')?.missing;
  const { 'onnxruntime-web': ort } = JSON.parse(
    readFileSync(path.join(ROOT, 'package.json'), 'utf8'),
  ).devDependencies;
  return {
    version,
    commit: git('rev-parse', '--short=10', 'HEAD'),
    changed: git('status', '--porcelain', '--untracked-files=no') !== '',
    date: new Date().toISOString().slice(0, 10),
    processor: processorOf(),
    cores: os.availableParallelism(),
    load: os.loadavg()[0],
    node: process.versions.node,
    variant,
    wholeBytes: !missing,
    ort,
    litert: litertVersion(),
  };
}

/**
 * Runs a part; gives the JSON that its benchmark printed. The output goes into a file, since a process that
 * ends by exit() loses what it has not yet written into a pipe.
 */
function measure({ name, script, args, node = [] }) {
  const given = args({ names: networks, rounds, repeats }).map(String);
  const file = path.join(FOLDER, `${name}.json`);
  const output = openSync(file, 'w');
  try {
    const { status, error } = spawnSync(
      process.execPath,
      [...process.execArgv, ...node, path.join(HERE, script), ...given, '--json'],
      { stdio: ['ignore', output, 'inherit'] },
    );
    if (error) throw error;
    if (status !== 0) throw new Error(`${script} ${given.join(' ')} ended with ${status}`);
  } finally {
    closeSync(output);
  }
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** Rounds numbers to the digits that tables can show. */
const shorten = (_, value) =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value;

async function run() {
  mkdirSync(FOLDER, { recursive: true });
  if (!parts.every(({ ownFiles }) => ownFiles)) {
    await makeNetworks(networks, [...FORMS, 'w4a8', 'w8a4']);
  }
  const machine = await describeMachine();
  if (!machine.litert) console.error('LiteRT.js: left out, it is not in build/peers');
  const results = { machine, rounds, repeats, networks, parts: {} };
  for (const part of parts) {
    const missing = part.missing?.(machine);
    if (missing) {
      console.error(`${part.name}: left out, ${missing}`);
      results.parts[part.name] = { missing };
      continue;
    }
    const start = performance.now();
    const found = measure(part);
    const result = part.keep?.(found) ?? found;
    const seconds = Math.round((performance.now() - start) / 1000);
    console.error(`${part.name}: ${seconds} s`);
    results.parts[part.name] = { seconds, result };
  }
  machine.browser = results.parts.chromium?.result?.browser;
  return results;
}

/** The results of all parts at once, or those of a former run with some parts of this one. */
function merged(results, former) {
  if (parts.length === PARTS.length) return results;
  const { machine, rounds, repeats } = results;
  const own = Object.entries(results.parts)
    .filter(([, { result }]) => result)
    .map(([name, part]) => [name, { ...part, measured: { machine, rounds, repeats } }]);
  return { ...former, parts: { ...former.parts, ...Object.fromEntries(own) } };
}

if (page) {
  writePage(JSON.parse(readFileSync(RESULTS, 'utf8')));
} else {
  try {
    const results = await run();
    const text = `${JSON.stringify(results, shorten, 1)}\n`;
    writeFileSync(path.join(FOLDER, 'results.json'), text);
    if (write) {
      // with the digits that the file has
      const written = merged(JSON.parse(text), JSON.parse(readFileSync(RESULTS, 'utf8')));
      writeFileSync(RESULTS, `${JSON.stringify(written, shorten, 1)}\n`);
      writePage(written);
    } else {
      const { formatResults } = await import('./result_page.mjs');
      console.log(formatResults(results));
    }
  } catch (error) {
    console.error(`bench: ${error.message}`);
    process.exitCode = 1;
  }
}
process.exit();

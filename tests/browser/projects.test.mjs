// The minimal projects that `requant init` writes, with the packed package: installed, built, run, and opened in
// Chromium. REQUANT_LONG=1 runs them all, which installs several hundred megabytes of npm packages.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { _electron as electron } from 'playwright-core';
import { SCREENS, problemsOf } from './accessible.mjs';
import { BUILD, ROOT, launch, openPage } from './browser.mjs';
import { ISOLATION, nodeOf, pack, serve, shell, startServer } from './bundlers/project.mjs';

const FOLDER = path.join(BUILD, 'projects');
const PROJECTS = JSON.parse(readFileSync(path.join(ROOT, 'demos/projects/projects.json'), 'utf8'));
const CDN = 'https://cdn.jsdelivr.net/npm/';
const QUIET = '--no-audit --no-fund --no-package-lock --prefer-offline';
const RESULT = /Both say the same about 1[0-2] of 12 pictures/;

/**
 * Each row has the steps of a project's test beside `npm install`: `build`, `output` with the page that the build makes, `serve` for a server
 * of the project's own, `run` for a program or `script` for one of package.json, `more` packages, and whether every CI run has it.
 */
const ROWS = {
  vite: { build: 'npm run build', output: 'dist', always: true },
  next: { build: 'npm run build', serve: 'next start' },
  sveltekit: { build: 'npm run build', output: 'build', node: 22 },
  html: { output: '.', always: true },
  node: { run: 'npm start', always: true },
  // `deno task` would take the program of this package for one of Node.
  deno: { script: 'start', more: { deno: '2.9.6' } },
  bun: { run: 'bun start', more: { bun: '1.4.5' } },
  electron: { output: '.' },
};

let tarball;
let browser;
before(async () => {
  tarball = pack();
  const cli = path.join(FOLDER, 'cli');
  rmSync(cli, { recursive: true, force: true });
  mkdirSync(cli, { recursive: true });
  writeFileSync(path.join(cli, 'package.json'), '{ "private": true }');
  shell(cli, `npm install ${QUIET} ${tarball}`);
  browser = await launch();
});
after(() => browser?.close());

const manifestOf = (folder) => JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));

/** Writes the project with the packed package's own command, and installs its packages, with that one. */
function make(name, { more = {} }) {
  const folder = path.join(FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  shell(path.join(FOLDER, 'cli'), `requant init ${name} -o ${folder}`);
  const file = path.join(folder, 'package.json');
  if (!existsSync(file)) return folder;
  const manifest = manifestOf(folder);
  assert.match(manifest.dependencies.requant, /^\^\d/);
  manifest.dependencies.requant = `file:${tarball}`;
  manifest.devDependencies = { ...manifest.devDependencies, ...more };
  // Its install script fetches a program that no registry has.
  if (name === 'electron') delete manifest.devDependencies.electron;
  writeFileSync(file, JSON.stringify(manifest));
  shell(folder, `npm install ${QUIET}`);
  return folder;
}

/** Opens the page, waits for its result, and holds it to the rules of accessible pages. */
async function look(name, url) {
  const { page, problems } = await openPage(browser);
  // The CDN is the packed package.
  await page.route(`${CDN}requant@*/**`, (route) => {
    const file = route
      .request()
      .url()
      .slice(CDN.length)
      .replace(/^requant@[^/]*/, 'requant');
    return route.fulfill({
      path: path.join(FOLDER, 'cli/node_modules', file),
      headers: {
        'Access-Control-Allow-Origin': '*',
        'Cross-Origin-Resource-Policy': 'cross-origin',
      },
    });
  });
  await page.goto(url);
  await page.waitForFunction(() => !/^Loading/.test(document.querySelector('#status').textContent));
  assert.match(await page.textContent('#status'), RESULT, problems.join('\n'));
  assert.equal(await page.locator('#pictures canvas').count(), 12);
  for (const { name: screen, viewport, colorScheme } of SCREENS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await problemsOf(page), [], screen);
    const file = `project-${name}-${screen}.png`;
    await page.screenshot({ path: path.join(BUILD, file), fullPage: true });
  }
  assert.deepEqual(problems, []);
  await page.close();
}

test('every project has a test', () => assert.deepEqual(Object.keys(ROWS), Object.keys(PROJECTS)));

for (const [name, row] of Object.entries(ROWS)) {
  const skip = !row.always && process.env.REQUANT_LONG !== '1' && 'REQUANT_LONG=1 runs it';
  test(`requant init ${name}`, { skip, timeout: 600_000 }, async () => {
    const node = nodeOf(row);
    const folder = make(name, row);
    const run = row.run ?? (row.script && manifestOf(folder).scripts[row.script]);
    if (run) {
      assert.match(shell(folder, run, node), RESULT);
      return;
    }
    if (row.build) shell(folder, row.build, node);
    const server = row.serve && (await startServer(folder, row.serve, node));
    const from = server ? { port: server.port } : { folder: path.join(folder, row.output) };
    const served = await serve(from, ISOLATION);
    try {
      await look(name, served.url);
    } finally {
      await served.close();
      server?.close();
    }
  });
}

// No registry of packages has Electron's program: its own install script fetches it.
const ELECTRON = process.env.REQUANT_ELECTRON;
const withoutElectron = !ELECTRON && 'REQUANT_ELECTRON=/path/to/electron runs it';
test('the main process of requant init electron', { skip: withoutElectron }, async () => {
  const folder = make('electron', ROWS.electron);
  const program = await electron.launch({ executablePath: ELECTRON, args: [folder] });
  try {
    const page = await program.firstWindow();
    await page.waitForFunction(
      () => !/^Loading/.test(document.querySelector('#status').textContent),
    );
    assert.match(await page.textContent('#status'), RESULT);
  } finally {
    await program.close();
  }
});

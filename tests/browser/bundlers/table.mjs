// The table of bundlers and runtimes, one row each: the packages that users install, the files of the
// project, and the command that builds it.
//
//   name      as in docs/bundlers.md
//   packages  versions, pinned; the first is the one that the document names
//   version   for the document, if there are no packages
//   folder    of the project below build/bundlers, if rows share one
//   sources   the folder for the files of the checks; default: the project's root
//   files     of the project beside them
//   build     the command line; output: the folder with the page that it makes
//   serve     for rows with a server of their own: the command that starts it (PORT is set)
//   handler   the path of a route that answers with the results, if the server runs the checks
//   run       for rows without a page: a command that reads ASSETS and writes RESULT
//   always    whether a run without REQUANT_LONG has the row
//   node      the oldest major version of Node that its tools need, if that is not 20
//   cannot    checks that fail, and why, for the document
//   recipe    steps beside the ordinary ones, for the document

import { readFileSync } from 'node:fs';

/** A file of a minimal project that users start from. */
const minimal = (project, name) =>
  readFileSync(new URL(`../../../demos/projects/${project}/${name}`, import.meta.url), 'utf8');

/** The packages of a minimal project, without this one. */
function packagesOf(project) {
  const { dependencies, devDependencies } = JSON.parse(minimal(project, 'package.json'));
  const packages = { ...dependencies, ...devDependencies };
  delete packages.requant;
  return packages;
}

const html = (script) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    ${script}
  </head>
  <body></body>
</html>
`;
const moduleHtml = html('<script type="module" src="./page.js"></script>');
const classicHtml = html('<script defer src="./main.js"></script>');

/** The command line in the document, with the user's files instead of those of the checks. */
const sh = (command) =>
  `\`\`\`sh needs=bundler
${command
  .replaceAll('page.js', 'main.js')
  .replaceAll(' && ', '\n')
  .replaceAll(' own_worker.js', '')}
\`\`\``;

const vite = (version, more) => ({
  name: `Vite ${version.split('.')[0]}`,
  packages: { vite: version },
  files: { 'index.html': moduleHtml },
  build: 'vite build',
  output: 'dist',
  ...more,
});

const BESIDE = 'cp node_modules/requant/dist/*.wasm node_modules/requant/dist/c_kernels.txt out/';
const WORKERS =
  'node_modules/requant/dist/worker_main.js node_modules/requant/dist/kernel_worker.js';

const esbuild =
  `esbuild page.js own_worker.js ${WORKERS} --bundle --minify --format=esm ` +
  `--outdir=out --entry-names=[name] && ${BESIDE}`;
const rollup = `rollup page.js own_worker.js ${WORKERS} --plugin node-resolve --dir out && ${BESIDE}`;

const folderCopied =
  'esbuild page.js own_worker.js --bundle --minify --format=esm --outdir=out && ' +
  'cp -r node_modules/requant/dist out/requant';
const settings = `import { env } from 'requant';
env.wasm.wasmPaths = '/requant/';
env.wasm.workerPaths = '/requant/';
`;

const copied =
  'It leaves `new URL(..., import.meta.url)` as it is, so what stands there must lie beside what it makes: the ' +
  'scripts of the workers, which are entries of their own, the wasm files, and the C of `generateC()`. Leave out ' +
  'the files that the page does not need. The page loads the result with `<script type="module">`.';

const next = {
  packages: packagesOf('next'),
  folder: 'next',
  module: false,
  sources: 'checks',
  files: {
    'app/layout.js': `export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
`,
    'app/page.js': `'use client';
import { useEffect } from 'react';
export default function Page() {
  useEffect(() => void import('../checks/page.js'), []);
  return null;
}
`,
    'app/checks/route.js': `import { checkHere } from '../../checks/process.mjs';
export const dynamic = 'force-dynamic';
export const GET = async () => new Response(await checkHere(process.env.ASSETS));
`,
  },
  serve: 'next start',
};

const ICON = /.*<link rel="icon" href="data:," \/>\n/;

const svelteKit = {
  ...Object.fromEntries(
    ['vite.config.js', 'src/app.html', 'src/routes/+layout.js'].map((name) => [
      name,
      // The policy under which the rows run forbids the empty icon of the project's page.
      minimal('sveltekit', name).replace(ICON, ''),
    ]),
  ),
  'src/routes/+page.svelte': `<script>
  import { onMount } from 'svelte';
  onMount(() => void import('../checks/page.js'));
</script>
`,
};

const inTests = `import { checkHere } from './process.mjs';
test('checks', () => checkHere(process.env.ASSETS, process.env.RESULT), 400_000);
`;

/** The row with which the others are compared. */
export const NODE = {
  name: 'Node',
  version: '20',
  files: {},
  run: 'node main.mjs "$ASSETS" "$RESULT"',
  always: true,
};

export const ROWS = [
  vite('5.0.0', { always: true }),
  vite('6.4.6'),
  vite('7.3.8'),
  vite(packagesOf('vite').vite, { always: true }),
  {
    name: 'webpack',
    packages: { webpack: '5.113.0', 'webpack-cli': '6.0.1' },
    files: { 'dist/index.html': classicHtml },
    build: 'webpack ./page.js --mode production',
    output: 'dist',
    always: true,
  },
  {
    name: 'Rspack',
    packages: { '@rspack/core': '2.3.3', '@rspack/cli': '2.2.8' },
    files: { 'dist/index.html': classicHtml },
    build: 'rspack build --entry ./page.js --mode production',
    output: 'dist',
    node: 22,
  },
  {
    name: 'esbuild',
    packages: { esbuild: '0.28.2' },
    files: { 'out/index.html': moduleHtml },
    build: esbuild,
    output: 'out',
    always: true,
    recipe: `${copied}\n\n${sh(esbuild)}`,
  },
  {
    name: 'esbuild, folder copied',
    packages: { esbuild: '0.28.2' },
    files: { 'out/index.html': moduleHtml, 'settings.js': settings },
    build: folderCopied,
    output: 'out',
    recipe:
      'The simplest way, with any bundler: serve a copy of the folder `dist` of the package, and say where it is. ' +
      `The workers then load the package's own modules instead of a bundle.\n\n${sh(folderCopied)}\n\n` +
      `\`\`\`js\n${settings}\`\`\``,
  },
  {
    name: 'Rollup',
    packages: { rollup: '4.68.8', '@rollup/plugin-node-resolve': '16.0.3' },
    files: { 'out/index.html': moduleHtml },
    build: rollup,
    output: 'out',
    recipe: `As the first way with esbuild:\n\n${sh(rollup)}`,
  },
  {
    name: 'Parcel',
    packages: { parcel: '2.16.4' },
    files: {
      'index.html': moduleHtml,
      'own.js': "export const inOwnWorker = async () => ({ error: 'left out' });\n",
    },
    build: 'parcel build index.html --cache-dir .parcel-cache',
    output: 'dist',
    always: true,
    cannot: {
      ownWorker:
        'Parcel divides what two Workers share and loads that part too early. A Worker of your own ' +
        'works on pages that do not use `createWorker()`.',
    },
  },
  {
    name: 'Astro',
    packages: { astro: '7.3.5' },
    sources: 'src',
    files: {
      'src/pages/index.astro': html('').replace(
        '<body></body>',
        "<body><script>import '../page.js';</script></body>",
      ),
    },
    build: 'astro build',
    output: 'dist',
    node: 22,
  },
  {
    name: 'SvelteKit',
    packages: packagesOf('sveltekit'),
    sources: 'src/checks',
    files: svelteKit,
    build: 'vite build',
    output: 'build',
    node: 22,
  },
  { ...next, name: 'Next (Turbopack), page', build: 'next build' },
  { ...next, name: 'Next (Turbopack), route handler', build: 'next build', handler: 'checks' },
  { ...next, name: 'Next (webpack), page', build: 'next build --webpack' },
  {
    ...next,
    name: 'Next (webpack), route handler',
    build: 'next build --webpack',
    handler: 'checks',
  },
  NODE,
  {
    name: 'Vitest',
    packages: { vitest: '5.1.1', vite: '8.3.8' },
    files: { 'checks.test.js': `import { test } from 'vitest';\n${inTests}` },
    run: 'vitest run',
    node: 22,
  },
  {
    name: 'Jest',
    packages: { jest: '30.5.2' },
    files: { 'checks.test.js': inTests },
    run: 'NODE_OPTIONS=--experimental-vm-modules jest',
    recipe:
      'The package consists of ECMAScript modules, which Jest loads with ' +
      '`NODE_OPTIONS=--experimental-vm-modules jest`.',
  },
  {
    name: 'Deno',
    packages: { deno: '2.9.6' },
    files: {},
    run: 'deno run --allow-all main.mjs "$ASSETS" "$RESULT"',
  },
  {
    name: 'Bun',
    packages: { bun: '1.4.5' },
    files: {},
    run: 'bun main.mjs "$ASSETS" "$RESULT"',
  },
];

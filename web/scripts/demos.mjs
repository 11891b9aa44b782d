// Builds the demos that are pages into static files, and serves them; they import `requant` as an installed package
// would be.
//
//   node web/scripts/demos.mjs           builds, then serves with the headers of cross-origin isolation
//   node web/scripts/demos.mjs --build   static files in build/site/demos
//   node web/scripts/demos.mjs --dev     a development server
//
// Networks of other packages are installed first (demo_files.mjs); pages say so where one is missing.

import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { build, createServer, preview } from 'vite';
import { FILES, fetchDemoFiles } from './demo_files.mjs';
import { ROOT } from './run.mjs';

const DEMOS = path.join(ROOT, 'demos');

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Demos that are pages of the common build; the older demo and the studio have builds of their own. */
export const pages = readdirSync(DEMOS).filter(
  (name) => !['web', 'studio'].includes(name) && existsSync(path.join(DEMOS, name, 'index.html')),
);

/** Vite's configuration of the demos; `outDir` is where a build goes. */
export const demosConfig = (outDir = path.join(ROOT, 'build/site/demos')) => ({
  configFile: false,
  root: DEMOS,
  base: './',
  publicDir: FILES,
  resolve: {
    alias: [
      { find: /^requant$/, replacement: path.join(ROOT, 'dist/index.js') },
      { find: /^requant\/(\w+)$/, replacement: path.join(ROOT, 'dist/$1/index.js') },
    ],
  },
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: ['', ...pages].map((name) => path.join(DEMOS, name, 'index.html')),
      // The browser loads this one by its import map.
      external: ['@huggingface/transformers'],
    },
  },
  worker: { format: 'es' },
  server: { fs: { allow: [ROOT] }, headers: isolation },
  preview: { headers: isolation },
});

if (import.meta.url === `file://${process.argv[1]}`) {
  for (const line of fetchDemoFiles()) console.log(line);
  if (process.argv.includes('--dev')) {
    const server = await createServer(demosConfig());
    await server.listen();
    server.printUrls();
  } else {
    await build(demosConfig());
    if (!process.argv.includes('--build')) (await preview(demosConfig())).printUrls();
  }
}

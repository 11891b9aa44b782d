// Serves the web demo with Vite; the demo imports `requant` as an installed package would be.
//
//   node web/scripts/demo_web.mjs           a development server
//   node web/scripts/demo_web.mjs --build   static files in build/demo_web

import path from 'node:path';
import { build, createServer } from 'vite';
import { ROOT } from './run.mjs';

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Vite's configuration of the demo; `outDir` is where a build goes. */
export const demoConfig = (outDir = path.join(ROOT, 'build/demo_web')) => ({
  configFile: false,
  root: path.join(ROOT, 'demos/web'),
  base: './',
  resolve: {
    alias: [
      { find: /^requant$/, replacement: path.join(ROOT, 'dist/index.js') },
      { find: /^requant\/(\w+)$/, replacement: path.join(ROOT, 'dist/$1/index.js') },
    ],
  },
  build: { outDir, emptyOutDir: true, target: 'es2022' },
  worker: { format: 'es' },
  // These headers make the browser's clock precise enough to time one run.
  server: { fs: { allow: [ROOT] }, headers: isolation },
});

if (import.meta.url === `file://${process.argv[1]}`) {
  if (process.argv.includes('--build')) {
    await build(demoConfig());
  } else {
    const server = await createServer(demoConfig());
    await server.listen();
    server.printUrls();
  }
}

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

const config = {
  root: path.join(ROOT, 'demos/web'),
  base: './',
  resolve: {
    alias: [
      { find: /^requant$/, replacement: path.join(ROOT, 'dist/index.js') },
      { find: /^requant\/(\w+)$/, replacement: path.join(ROOT, 'dist/$1/index.js') },
    ],
  },
  build: { outDir: path.join(ROOT, 'build/demo_web'), emptyOutDir: true, target: 'es2022' },
  worker: { format: 'es' },
  // These headers make the browser's clock precise enough to time one run.
  server: { fs: { allow: [ROOT] }, headers: isolation },
};

if (process.argv.includes('--build')) {
  await build(config);
} else {
  const server = await createServer(config);
  await server.listen();
  server.printUrls();
}

// Builds the demo of a browser extension into build/extension.
//
//   node web/scripts/demo_extension.mjs

import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'vite';
import { demosConfig } from './demos.mjs';
import { ROOT } from './run.mjs';

export const EXTENSION = path.join(ROOT, 'build/extension');
const SOURCES = path.join(ROOT, 'demos/extension');

export async function buildExtension() {
  const config = demosConfig(EXTENSION);
  await build({
    ...config,
    logLevel: 'error',
    publicDir: false,
    build: {
      ...config.build,
      // The polyfill needs a document, which a service worker has not.
      modulePreload: false,
      rolldownOptions: {
        input: {
          background: path.join(SOURCES, 'background.ts'),
          popup: path.join(SOURCES, 'popup.html'),
        },
        output: {
          entryFileNames: ({ name }) =>
            name === 'background' ? 'background.js' : 'assets/[name]-[hash].js',
        },
      },
    },
  });
  copyFileSync(path.join(SOURCES, 'manifest.json'), path.join(EXTENSION, 'manifest.json'));
}

if (import.meta.url === `file://${process.argv[1]}`) await buildExtension();

// The pages of the benchmarks in a browser: bundled by Vite as in a web project, and served.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { FOLDER, ROOT } from './networks.mjs';

const PEERS = path.join(ROOT, 'build/peers/node_modules');
/** The folder of LiteRT.js, if it is installed. */
export const LITERT = path.join(PEERS, '@litertjs/core');

/** The version of LiteRT.js, if it is installed. */
export function litertVersion() {
  const file = path.join(LITERT, 'package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : undefined;
}

const SITE = path.join(FOLDER, 'site');
const PAGES = path.join(path.dirname(fileURLToPath(import.meta.url)), 'page');

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

/** Bundles page/NAME.js for every name, as site/NAME/. */
export async function buildSite(names) {
  for (const name of names) {
    const root = path.join(FOLDER, 'pages', name);
    mkdirSync(root, { recursive: true });
    const script = path.relative(root, path.join(PAGES, `${name}.js`)).replaceAll('\\', '/');
    writeFileSync(
      path.join(root, 'index.html'),
      '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">' +
        '<script type="module" src="./main.js"></script>',
    );
    writeFileSync(path.join(root, 'main.js'), `import ${JSON.stringify(script)};\n`);
    await build({
      root,
      base: './',
      configFile: false,
      logLevel: 'error',
      worker: { format: 'es' },
      resolve: {
        alias: {
          '@litertjs/core': path.join(LITERT, 'dist/index.js'),
          '@litertjs/wasm-utils': path.join(PEERS, '@litertjs/wasm-utils'),
        },
      },
      build: {
        outDir: path.join(SITE, name),
        emptyOutDir: true,
        target: 'es2022',
        assetsInlineLimit: 0,
      },
    });
  }
}

/** Serves the site, the models and LiteRT's modules; `fetched` collects files beside the models. */
export async function startServer() {
  const fetched = new Set();
  const roots = { models: FOLDER, litert: path.join(LITERT, 'wasm'), site: SITE };
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const [, root, ...rest] = pathname.split('/');
    let file = path.join(roots[root] ?? SITE, ...rest);
    if (pathname.endsWith('/')) file = path.join(file, 'index.html');
    if (!roots[root] || rest.includes('..') || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    if (root !== 'models') fetched.add(file);
    const bytes = readFileSync(file);
    response.writeHead(200, {
      'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream',
      'content-length': bytes.length,
      'cache-control': root === 'models' ? 'no-store' : 'max-age=3600',
      // Threads need shared memory, which needs an isolated page.
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    });
    response.end(bytes);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, fetched, url: `http://127.0.0.1:${server.address().port}` };
}

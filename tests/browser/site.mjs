// A server for test pages: it serves files of the project, cross-origin isolated, and accepts posted results.

import { createReadStream, statSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { ROOT } from './browser.mjs';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

const HEADERS = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cache-Control': 'no-store',
};

/** The file that the path of an address names, in the project or in ../shared. */
export function fileOf(name) {
  const shared = name.startsWith('shared/');
  const file = path.join(shared ? path.dirname(ROOT) : ROOT, name);
  const root = shared ? path.join(path.dirname(ROOT), 'shared') : ROOT;
  return file.startsWith(root + path.sep) ? file : undefined;
}

/**
 * Starts the server; `onPost(value)` gets the JSON that pages post. `studio` is the folder whose files have addresses
 * below /studio/.
 */
export async function serve(onPost, studio) {
  const served = (name) =>
    studio && name.startsWith('studio/')
      ? path.join(studio, path.join('/', name.slice('studio/'.length)))
      : fileOf(name);
  const server = http.createServer((request, response) => {
    if (request.method === 'POST') {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        response.writeHead(204, HEADERS).end();
        onPost(JSON.parse(Buffer.concat(chunks).toString()));
      });
      return;
    }
    const { pathname } = new URL(request.url, 'http://localhost');
    const file = served(decodeURIComponent(pathname.slice(1)));
    const size = file && statSync(file, { throwIfNoEntry: false });
    if (!size?.isFile()) return response.writeHead(404, HEADERS).end();
    const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { ...HEADERS, 'Content-Type': type, 'Content-Length': size.size });
    return createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

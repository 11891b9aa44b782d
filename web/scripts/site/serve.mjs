// A server of static files, for looking at the site and for its tests.

import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
};

/** The kinds of files that are compressed on their way, as hosts do. */
const COMPRESSED = /^text\/|json$|svg\+xml$|wasm$/;

/** The headers by which a browser isolates a page, so that it may have threads. */
export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** The page of a site that hosts show at unknown addresses. */
export const NOT_FOUND = '404.html';

/** The file that an address means, or undefined. */
function fileOf(folder, address, prefix) {
  const { pathname } = new URL(address, 'http://localhost');
  if (!pathname.startsWith(prefix)) return undefined;
  let file = path.join(folder, decodeURIComponent(pathname.slice(prefix.length)));
  if (file !== folder && !file.startsWith(folder + path.sep)) return undefined;
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory())
    file = path.join(file, 'index.html');
  return statSync(file, { throwIfNoEntry: false })?.isFile() ? file : undefined;
}

/**
 * Serves a folder under `prefix`, with `headers`; its 404.html, if it has one, at unknown addresses. `port` 0 takes a
 * free one. Gives the address and a function that ends the server.
 */
export async function serveFolder(folder, { port = 0, prefix = '/', headers = ISOLATION } = {}) {
  const root = path.resolve(folder);
  const server = createServer(({ url, headers: wanted }, response) => {
    const file = fileOf(root, url, prefix);
    const sent = file ?? fileOf(root, prefix + NOT_FOUND, prefix);
    if (!sent) {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('not found');
      return;
    }
    const type = TYPES[path.extname(sent)] ?? 'application/octet-stream';
    const zipped = COMPRESSED.test(type) && /\bgzip\b/.test(wanted['accept-encoding'] ?? '');
    const encoding = zipped ? { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' } : {};
    response.writeHead(file ? 200 : 404, { 'Content-Type': type, ...encoding, ...headers });
    // A reader who leaves before the end is no error of the server.
    const parts = [createReadStream(sent), ...(zipped ? [createGzip()] : []), response];
    pipeline(parts, () => {});
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://localhost:${server.address().port}${prefix}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

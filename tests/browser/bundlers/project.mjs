// Makes a user's project for a row of the table: installs the bundler and the packed package, builds and
// serves it.

import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  createReadStream,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUILD, ROOT } from '../browser.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const FOLDER = path.join(BUILD, 'bundlers');
const NEW_NODE = path.join(BUILD, 'node/node_modules/node/bin/node');
const SOURCES = [
  'checks.js',
  'generate.js',
  'main.mjs',
  'make_files.mjs',
  'own.js',
  'own_worker.js',
  'page.js',
  'process.mjs',
  'settings.js',
];
export const ASSETS = path.join(FOLDER, 'assets');

// Settings of the npm process that runs the tests must not leak in; certificates belong to the machine.
const clean = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^npm_|^NODE_(?!EXTRA_CA_CERTS)|^REQUANT/i.test(name),
  ),
);

/** The Node for a row: this one, or a newer one if its tools need that. */
export function nodeOf(row) {
  if (Number(process.versions.node.split('.')[0]) >= (row.node ?? 0)) return process.execPath;
  if (!existsSync(NEW_NODE)) {
    const prefix = path.join(BUILD, 'node');
    mkdirSync(prefix, { recursive: true });
    shell(prefix, 'npm install --no-save --no-audit --no-fund --prefix . node@26');
  }
  return NEW_NODE;
}

function environment(folder, node = process.execPath) {
  const bins = [path.join(folder, 'node_modules/.bin'), path.dirname(node)];
  return {
    ...clean,
    CI: '1',
    NO_COLOR: '1',
    NEXT_TELEMETRY_DISABLED: '1',
    ASTRO_TELEMETRY_DISABLED: '1',
    PATH: [...bins, clean.PATH].join(path.delimiter),
  };
}

/** Runs a command line in a project as users type it; throws with its output if it fails. */
export function shell(folder, command, node) {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
    cwd: folder,
    env: environment(folder, node),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status === 0) return stdout;
  throw new Error(`${command} (${status}):\n${`${stdout}\n${stderr}`.trim().slice(-3000)}`);
}

/** Packs the package with `npm pack`. */
export function pack() {
  mkdirSync(FOLDER, { recursive: true });
  const [{ filename }] = JSON.parse(
    shell(ROOT, `npm pack --json --ignore-scripts --pack-destination ${FOLDER}`),
  );
  return path.join(FOLDER, filename);
}

/** Makes the folder of a row's project, with everything that its build needs. */
export function prepare(row, tarball) {
  const folder = path.join(
    FOLDER,
    row.folder ?? row.name.toLowerCase().replace(/[^a-z0-9]+/g, '-'),
  );
  mkdirSync(folder, { recursive: true });
  const { module = true, packages = {}, manifest = {} } = row;
  const text = JSON.stringify({
    private: true,
    ...(module ? { type: 'module' } : {}),
    ...manifest,
    devDependencies: packages,
  });
  // Packages installed for other versions are useless.
  const stamp = path.join(folder, 'package.json');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== text) {
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    writeFileSync(stamp, text);
    try {
      shell(folder, 'npm install --no-audit --no-fund --no-package-lock');
    } catch (error) {
      rmSync(stamp);
      throw error;
    }
  }
  for (const stale of ['.next', '.parcel-cache', '.svelte-kit', row.output]) {
    if (stale) rmSync(path.join(folder, stale), { recursive: true, force: true });
  }
  const options = '--no-save --no-package-lock --prefer-offline --no-audit --no-fund';
  shell(folder, `npm install ${options} ${tarball}`);
  const sources = path.join(folder, row.sources ?? '.');
  mkdirSync(sources, { recursive: true });
  for (const name of SOURCES) {
    cpSync(path.join(HERE, name), path.join(sources, name));
  }
  for (const [name, content] of Object.entries(row.files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), content);
  }
  return folder;
}

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

function sendFile(folders, request, response, headers) {
  const { pathname } = new URL(request.url, 'http://localhost');
  const name = decodeURIComponent(pathname).replace(/^\/requant-data\//, '/');
  for (const folder of folders) {
    for (const file of [name, `${name}index.html`, `${name}.html`]) {
      const full = path.join(folder, file);
      if (!full.startsWith(folder) || !statSync(full, { throwIfNoEntry: false })?.isFile())
        continue;
      const type = TYPES[path.extname(full)] ?? 'application/octet-stream';
      response.writeHead(200, { ...headers, 'Content-Type': type });
      createReadStream(full).pipe(response);
      return;
    }
  }
  response.writeHead(404, headers).end();
}

function forward(port, request, response, headers) {
  const { url, method, headers: asked } = request;
  const from = http.request({ host: '127.0.0.1', port, path: url, method, headers: asked });
  from.on('response', (answer) => {
    response.writeHead(answer.statusCode, { ...answer.headers, ...headers });
    answer.pipe(response);
  });
  from.on('error', (error) => response.writeHead(502, headers).end(String(error)));
  request.pipe(from);
}

/** Serves a folder, or the program at `port`, with these headers, and the data at /requant-data. */
export async function serve({ folder, port }, headers = {}) {
  const server = http.createServer((request, response) => {
    if (request.url === '/favicon.ico') {
      response.writeHead(204).end();
      return;
    }
    const asset = request.url.startsWith('/requant-data/');
    if (port && !asset) forward(port, request, response, headers);
    else sendFile(asset ? [ASSETS] : [folder], request, response, headers);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())),
  };
}

/** Starts a project's own server at a free port. */
export async function startServer(folder, command, node) {
  const port = await new Promise((resolve) => {
    const probe = http.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
  const env = { ...environment(folder, node), PORT: String(port), HOST: '127.0.0.1', ASSETS };
  // The process group ends all processes that the server starts.
  const child = spawn('sh', ['-c', `exec ${command}`], {
    cwd: folder,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const close = () => {
    try {
      process.kill(-child.pid);
    } catch {
      // The group has ended already.
    }
  };
  for (let tries = 0; tries < 1500; tries++) {
    if (child.exitCode !== null) break;
    const up = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
    if (up) return { port, close, output: () => output };
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  close();
  throw new Error(`${command} does not answer:\n${output.slice(-3000)}`);
}

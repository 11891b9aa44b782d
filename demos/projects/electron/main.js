// Opens the page from a scheme of its own, since pages of file: cannot load modules and networks.

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { BrowserWindow, app, protocol } from 'electron';

const ROOT = import.meta.dirname;
const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.wasm': 'application/wasm',
};

protocol.registerSchemesAsPrivileged([
  { scheme: 'app', privileges: { standard: true, secure: true, supportFetchAPI: true } },
]);

/** Answers app://files/NAME with a file of this folder. */
async function answer(request) {
  const file = path.join(ROOT, decodeURIComponent(new URL(request.url).pathname));
  if (!file.startsWith(ROOT + path.sep)) return new Response(null, { status: 403 });
  try {
    const headers = {
      'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream',
      // Threads need a cross-origin isolated page.
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Embedder-Policy': 'require-corp',
    };
    return new Response(await readFile(file), { headers });
  } catch {
    return new Response(null, { status: 404 });
  }
}

await app.whenReady();
protocol.handle('app', answer);
await new BrowserWindow({ width: 900, height: 700 }).loadURL('app://files/index.html');
app.on('window-all-closed', () => app.quit());

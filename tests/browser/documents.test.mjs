// The unchanged pages of the documents in Chromium, in a folder where the package is installed.

import assert from 'node:assert/strict';
import { createReadStream, cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { documentFiles, documents } from '../node/document_table.mjs';
import { readDocument, textOf } from '../node/documents.mjs';
import { installPackage } from '../node/installed.mjs';
import { ROOT, launch, openPage } from './browser.mjs';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const pages = documentFiles().flatMap((file) =>
  readDocument(file, textOf(file)).blocks.filter(
    ({ language, attributes }) => language === 'html' && !attributes.needs,
  ),
);
let browser;
let folder;
let server;

before(async () => {
  ({ folder } = installPackage());
  // An ordinary file server.
  server = http.createServer((request, response) => {
    const name = path.join(folder, new URL(request.url, 'http://localhost').pathname);
    if (!existsSync(name)) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': TYPES[path.extname(name)] ?? 'text/plain' });
    return createReadStream(name).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('there are pages', () => assert.ok(pages.length >= 2));

for (const { at, file, code } of pages) {
  test(`${at}: the page`, async () => {
    for (const [name, source] of Object.entries(documents[file].files ?? {})) {
      cpSync(path.join(ROOT, source), path.join(folder, name), { recursive: true });
    }
    // Chromium requests an icon by itself.
    const icon = '<link rel="icon" href="data:," />\n';
    writeFileSync(
      path.join(folder, 'page.html'),
      code.replace(/^(<!doctype html>\n)?/, `$1${icon}`),
    );
    const { page, problems } = await openPage(browser);
    await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
    await page.waitForFunction(() => /\d\.\d+, -?\d/.test(document.body.textContent));
    assert.deepEqual(problems, []);
    await page.close();
  });
}

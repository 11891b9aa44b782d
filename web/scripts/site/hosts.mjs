// The files by which hosts of static pages send the headers of cross-origin isolation, and the page that they show at
// unknown addresses.

import { copyFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run.mjs';
import { ISOLATION, NOT_FOUND } from './serve.mjs';

/**
 * Writes `_headers`, which Netlify and Cloudflare Pages read, `.htaccess` of Apache, and `.nojekyll`, with which
 * GitHub Pages serves every file. Where a host reads none of them, the studio's service worker adds the headers.
 * `404.html` is what these hosts show at unknown addresses; Apache does so where the site is at the root of its host.
 */
export function writeHostFiles(folder) {
  const all = Object.entries({ ...ISOLATION, 'Cross-Origin-Resource-Policy': 'same-origin' });
  const write = (name, text) => writeFileSync(path.join(folder, name), text);
  write('_headers', `/*\n${all.map(([name, value]) => `  ${name}: ${value}\n`).join('')}`);
  const set = all.map(([name, value]) => `  Header set ${name} "${value}"\n`).join('');
  const missing = `ErrorDocument 404 /${NOT_FOUND}\n`;
  write('.htaccess', `<IfModule mod_headers.c>\n${set}</IfModule>\n${missing}`);
  write('.nojekyll', '');
  copyFileSync(path.join(ROOT, 'docs/.vitepress/not_found.html'), path.join(folder, NOT_FOUND));
}

// The files by which hosts of static pages send the headers of cross-origin isolation.

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { ISOLATION } from './serve.mjs';

/**
 * Writes `_headers`, which Netlify and Cloudflare Pages read, `.htaccess` of Apache, and `.nojekyll`, with which
 * GitHub Pages serves every file. Where a host reads none of them, the studio's service worker adds the headers.
 */
export function writeHostFiles(folder) {
  const all = Object.entries({ ...ISOLATION, 'Cross-Origin-Resource-Policy': 'same-origin' });
  const write = (name, text) => writeFileSync(path.join(folder, name), text);
  write('_headers', `/*\n${all.map(([name, value]) => `  ${name}: ${value}\n`).join('')}`);
  const set = all.map(([name, value]) => `  Header set ${name} "${value}"\n`).join('');
  write('.htaccess', `<IfModule mod_headers.c>\n${set}</IfModule>\n`);
  write('.nojekyll', '');
}

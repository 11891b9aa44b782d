// Builds the site into build/site: the documents, the generated reference, the studio and the demo, as static
// files for any host and any folder of it.
//
//   node web/scripts/site.mjs            builds
//   node web/scripts/site.mjs --serve    builds, then serves the files with the headers of cross-origin isolation

import { rmSync } from 'node:fs';
import path from 'node:path';
import { build as buildVite } from 'vite';
import { build as buildPages } from 'vitepress';
import { demoConfig } from './demo_web.mjs';
import { ROOT } from './run.mjs';
import { writeHostFiles } from './site/hosts.mjs';
import { writePages } from './site/pages.mjs';
import { writeReference } from './site/reference.mjs';
import { relocate } from './site/relocate.mjs';
import { serveFolder } from './site/serve.mjs';
import { studioConfig } from './studio.mjs';

/** The built site. */
export const SITE = path.join(ROOT, 'build/site');

/** Where the pages of the site are assembled. */
const PAGES = path.join(ROOT, 'build/site_pages');

/** Builds the whole site into build/site. */
export async function buildSite() {
  rmSync(PAGES, { recursive: true, force: true });
  await writePages(PAGES);
  await writeReference(path.join(PAGES, 'reference'));
  await buildPages(path.join(ROOT, 'docs'));
  relocate(SITE);
  writeHostFiles(SITE);
  for (const config of [
    studioConfig(path.join(SITE, 'studio'), true),
    demoConfig(path.join(SITE, 'demo')),
  ]) {
    await buildVite({ ...config, logLevel: 'warn' });
  }
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const start = performance.now();
  await buildSite();
  console.log(`site: build/site, in ${((performance.now() - start) / 1000).toFixed(0)} s`);
  if (process.argv.includes('--serve')) {
    const { url } = await serveFolder(SITE, { port: 4180 });
    console.log(`site: ${url}`);
  }
}

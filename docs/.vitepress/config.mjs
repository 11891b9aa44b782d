// The site of the documents. web/scripts/site.mjs assembles its pages in build/site_pages and builds it.

import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { BASE } from '../../web/scripts/site/relocate.mjs';
import { ISOLATION } from '../../web/scripts/site/serve.mjs';
import { sidebar } from './sidebar.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The anchor of a heading, as GitHub makes it. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .trim()
    .replace(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-');

/** Tables that are wider than the screen scroll, also by the keyboard; an empty cell of their head is no header. */
function adaptTables(md) {
  md.core.ruler.push('empty_headers', ({ tokens }) => {
    for (const [at, { type }] of tokens.entries()) {
      if (type !== 'th_open' || tokens[at + 1].content !== '') continue;
      tokens[at].tag = 'td';
      tokens[at + 2].tag = 'td';
    }
  });
  md.renderer.rules.table_open = () =>
    '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n';
  md.renderer.rules.table_close = () => '</table></div>\n';
}

export default defineConfig({
  lang: 'en',
  title: 'Requant',
  description:
    'Quantizes neural networks to 8 bits and fewer, and runs them in the browser and Node',
  base: BASE,
  srcDir: '../build/site_pages',
  outDir: '../build/site',
  cacheDir: '../build/site_cache',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${BASE}icon.svg` }]],
  markdown: {
    anchor: { slugify },
    toc: { slugify },
    config: adaptTables,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/guides/start' },
      { text: 'Guides', link: '/guides/which_bits' },
      { text: 'How it works', link: '/how/quantization' },
      { text: 'Reference', link: '/reference/api/index' },
      { text: 'Benchmarks', link: '/benchmarks' },
      { text: 'Studio', link: '/studio/', target: '_self' },
      { text: 'Demo', link: '/demo/', target: '_self' },
    ],
    sidebar: sidebar(),
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    externalLinkIcon: true,
    // For links inside of the pages; at unknown addresses hosts show not_found.html.
    notFound: {
      title: 'There is no such page',
      quote: 'The address may be misspelled, or the page has moved.',
      linkText: 'Go to the start',
      linkLabel: 'Go to the start',
    },
  },
  vite: {
    configFile: false,
    resolve: {
      alias: [
        { find: /^requant$/, replacement: path.join(ROOT, 'dist/index.js') },
        { find: /^requant\/(\w+)$/, replacement: path.join(ROOT, 'dist/$1/index.js') },
      ],
    },
    build: { assetsInlineLimit: 0, chunkSizeWarningLimit: 3000, target: 'es2022' },
    worker: {
      format: 'es',
      // As of pages, so that both take the same files.
      rollupOptions: { output: { assetFileNames: 'assets/[name].[hash][extname]' } },
    },
    server: { fs: { allow: [ROOT] }, headers: ISOLATION },
  },
});

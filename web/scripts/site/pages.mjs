// The pages of the site that people write: which documents become which pages.

import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run.mjs';
import { pageOf } from './markdown.mjs';

const markdownIn = (folder) =>
  existsSync(path.join(ROOT, folder))
    ? readdirSync(path.join(ROOT, folder)).filter((name) => name.endsWith('.md'))
    : [];

/** The pages by the documents that they are made of, both as paths: of the project, and of the site. */
export function pagesByDocument() {
  const pages = new Map([
    ['docs/.vitepress/home.md', 'index.md'],
    ['CHANGELOG.md', 'changelog.md'],
    ['CONTRIBUTING.md', 'contributing.md'],
  ]);
  for (const folder of ['docs', 'docs/guides', 'docs/how']) {
    for (const name of markdownIn(folder)) {
      pages.set(`${folder}/${name}`, path.join(path.relative('docs', folder), name));
    }
  }
  for (const folder of ['src', 'bindings', 'web', 'tests']) {
    pages.set(`${folder}/README.md`, `code/${folder}.md`);
  }
  return pages;
}

/** Writes the pages, and the files that they show or fetch, into a folder. */
export async function writePages(folder) {
  const pages = pagesByDocument();
  for (const [document, page] of pages) {
    const text = readFileSync(path.join(ROOT, document), 'utf8');
    const file = path.join(folder, page);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, await pageOf({ document, page, text, pages }));
  }
  const shared = path.join(folder, 'public');
  for (const [from, to] of [
    ['docs/pictures', 'pictures'],
    ['demos/studio/public/icon.svg', 'icon.svg'],
    ['tests/bench/results.json', 'data/results.json'],
  ]) {
    if (existsSync(path.join(ROOT, from))) {
      cpSync(path.join(ROOT, from), path.join(shared, to), { recursive: true });
    }
  }
}

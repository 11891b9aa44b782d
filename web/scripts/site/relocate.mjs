// Makes the built pages work in any folder of a host. VitePress writes the folder, its `base`, into every address
// of a build. The build has a placeholder there; this file replaces it by what is relative to each file.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

/** The folder for which the pages are built. */
export const BASE = '/_folder_of_the_site_/';

/**
 * A script at the end of each page: makes relative addresses absolute, because the page's address changes when the
 * reader goes on without loading another page, and tells VitePress the folder.
 */
const script = (up) =>
  `<script>(() => {
  const absolute = (address) => {
    const { pathname, search, hash } = new URL(address, location.href);
    return pathname + search + hash;
  };
  for (const name of ['href', 'src'])
    for (const element of document.querySelectorAll(\`[\${name}^="."]\`))
      element.setAttribute(name, absolute(element.getAttribute(name)));
  window.__VP_SITE_DATA__.base = absolute(${JSON.stringify(up)});
})();</script>`;

function page(text, depth) {
  const up = depth === 0 ? './' : '../'.repeat(depth);
  return text.replaceAll(BASE, up).replace('</body>', () => `${script(up)}\n</body>`);
}

/** JavaScript in which every literal with the placeholder computes its text from the module's own address. */
function code(name, text, depth) {
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const literals = [];
  const visit = (node) => {
    if (
      (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) &&
      node.getText(source).includes(BASE)
    )
      literals.push(node);
    else ts.forEachChild(node, visit);
  };
  visit(source);
  const folder = `new URL(${JSON.stringify('../'.repeat(depth))},import.meta.url).pathname`;
  const made = literals.reduceRight((all, node) => {
    const [start, end] = [node.getStart(source), node.end];
    const literal = all.slice(start, end);
    const replaced = `(${literal}.replaceAll(${JSON.stringify(BASE)},${folder}))`;
    return all.slice(0, start) + replaced + all.slice(end);
  }, text);
  return made;
}

/** Rewrites the files of a build in place. */
export function relocate(folder) {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.(html|js|css)$/.test(entry.name)) continue;
    const file = path.join(entry.parentPath ?? entry.path, entry.name);
    const text = readFileSync(file, 'utf8');
    if (!text.includes(BASE)) continue;
    const relative = path.relative(folder, file);
    const depth = relative.split(path.sep).length - 1;
    if (entry.name.endsWith('.html')) writeFileSync(file, page(text, depth));
    else if (entry.name.endsWith('.js')) writeFileSync(file, code(entry.name, text, depth));
    else writeFileSync(file, text.replaceAll(BASE, '../'.repeat(depth)));
  }
}

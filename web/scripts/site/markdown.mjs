// Makes pages of the site from documents. Documents are read on GitHub and in the package as well, so the site
// adapts to their form: links between files, attributes of code blocks, flowcharts, pictures. A line
// `<!-- live: Name -->` becomes a part of the page that computes, and `<!-- site: text -->` a text that only the site has,
// for links to pages that the package lacks.

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../run.mjs';
import { flowchartSvg } from './flowchart.mjs';

/** A link target of a document as one of its page. Throws if the site has no such page. */
function linkOf(target, { document, page, pages }) {
  if (/^(https?:|#|mailto:)/.test(target)) return target;
  const [name, anchor] = target.split('#');
  const other = path.join(path.dirname(document), name);
  const reference = /^reference\/.*\.md$/.test(path.relative('docs', other));
  const known = pages.get(other) ?? (reference ? path.relative('docs', other) : undefined);
  if (known === undefined) throw new Error(`${document}: the site has no page of ${other}`);
  const relative = path.relative(path.dirname(page), known);
  return `${relative.startsWith('.') ? relative : `./${relative}`}${anchor ? `#${anchor}` : ''}`;
}

/** A drawing that scrolls on narrow screens, also by the keyboard. */
const figure = (svg) => `<figure class="picture" tabindex="0" v-pre>${svg}</figure>`;

/** A picture as a part of the page, so that it has the page's colors; its own colors are left out. */
export function inlinePicture(file, name) {
  const svg = readFileSync(file, 'utf8')
    .replace(/<\?xml[^]*?\?>|<!--[^]*?-->|<style>[^]*?<\/style>|<title>[^]*?<\/title>/g, '')
    .replace(/<svg/, `<svg role="img" aria-label="${name.replaceAll('"', '&quot;')}"`)
    .replace(/\n\s*/g, '');
  return figure(svg);
}

function pictureOf(name, target, { document }) {
  const file = path.join(ROOT, path.dirname(document), target);
  if (!existsSync(file)) throw new Error(`${document}: there is no ${target}`);
  if (target.endsWith('.svg')) return inlinePicture(file, name);
  return `<img class="screenshot" src="/${path.relative(path.join(ROOT, 'docs'), file)}" alt="${name}">`;
}

/** A line outside of code blocks. */
function lineOf(line, context) {
  const code = [];
  const kept = line.replace(/(`+)[^`].*?\1/g, (span) => `\uE000${code.push(span) - 1}\uE000`);
  return kept
    .replace(/!\[([^\]]*)\]\(([^)\s]+)\)/g, (_all, name, target) =>
      pictureOf(name, target, context),
    )
    .replace(/\]\(([^)\s]+)\)/g, (_all, target) => `](${linkOf(target, context)})`)
    .replace(/^<!-- live: (\w+) -->$/, '<$1 />')
    .replace(/^<!-- site: (.*) -->$/, '$1')
    .replace(/\uE000(\d+)\uE000/g, (_all, at) => code[Number(at)]);
}

/** The text of a page. `pages` says which page a document becomes. */
export async function pageOf({ document, page, text, pages }) {
  const context = { document, page, pages };
  const lines = [];
  let fence;
  for (const line of text.split('\n')) {
    const mark = /^(\s*)```(\w*)/.exec(line);
    if (fence && mark) {
      lines.push(fence.language === 'mermaid' ? figure(await flowchartSvg(fence.lines)) : line);
      fence = undefined;
    } else if (mark) {
      fence = { language: mark[2], lines: [] };
      if (fence.language !== 'mermaid') lines.push(`${mark[1]}\`\`\`${fence.language}`);
    } else if (fence) {
      fence.lines.push(line);
      if (fence.language !== 'mermaid') lines.push(line);
    } else {
      lines.push(lineOf(line, context));
    }
  }
  return lines.join('\n');
}

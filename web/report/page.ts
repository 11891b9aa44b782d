// Helpers that the pages of all reports share.

import { chartStyle, escapeHtml, nameHtml } from './chart.js';
import { PART } from './metrics.js';

const pageStyle = `
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --shade: rgb(20 30 60 / 0.16); }
@media (prefers-color-scheme: dark) { :root { --page: #12151c; --card: #1b202b; --shade: rgb(0 0 0 / 0.6); } }
body { margin: 0; background: var(--page); color: var(--rq-text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px; box-sizing: border-box; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; } h2 { font-size: 18px; margin: 0 0 12px; }
p { color: var(--rq-muted); margin: 0 0 12px; max-width: 75ch; }
section { background: var(--card); border: 1px solid var(--rq-line); border-radius: 10px; padding: 18px;
  margin-top: 18px; }
/* Shades at the sides show that a table continues; backgrounds that scroll along cover them at the ends. */
.scroll { overflow-x: auto; position: relative; background:
  linear-gradient(to right, var(--card) 40%, transparent) 0 0 / 36px 100% no-repeat local,
  linear-gradient(to left, var(--card) 40%, transparent) 100% 0 / 36px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 0 / 12px calc(100% - 2px) no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / 12px calc(100% - 2px) no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid var(--rq-int8); outline-offset: 3px; border-radius: 4px; }
.scroll + p { margin-top: 22px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 8px; text-align: right; border-bottom: 1px solid var(--rq-line); white-space: nowrap; }
thead th { color: var(--rq-muted); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: inherit; white-space: normal; overflow-wrap: anywhere; min-width: 9em; }
tbody th.part { padding-left: 24px; }
tbody tr:last-child > * { border-bottom: 0; }
tr > :first-child { padding-left: 0; } tr > :last-child { padding-right: 0; }
tr > :first-child, td.left, th.left { text-align: left; }
td.words { white-space: normal; min-width: 14em; } td wbr { display: none; }
td > .rq-chart { margin-left: auto; }
h1, p { overflow-wrap: anywhere; }
@media (max-width: 600px) {
  main { padding: 16px 10px 32px; } section { padding: 14px 12px; margin-top: 12px; }
  table { font-size: 14px; } th, td { padding: 5px; white-space: normal; }
  tbody th { min-width: 4.8em; } tbody th.part { padding-left: 12px; } td.words { min-width: 9em; }
  /* Rows of many cells become blocks: the name, and below it cells with their titles. */
  .stack, .stack tbody { display: block; }
  .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stack tr { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 4px 10px; padding: 9px 0;
    border-bottom: 1px solid var(--rq-line); }
  .stack tbody tr:last-child { border-bottom: 0; }
  .stack tbody th, .stack td { padding: 0; border: 0; min-width: 0; text-align: left; overflow-wrap: anywhere; }
  .stack tbody th { grid-column: 1 / -1; font-weight: 600; }
  .stack td wbr { display: inline; }
  .stack td.words { grid-column: span 2; }
  .stack td.wide { grid-column: 1 / -1; }
  .stack td > .rq-chart { margin-left: 0; }
  .stack td::before { display: block; color: var(--rq-muted); font-size: 12px; white-space: nowrap;
    content: attr(data-title);
    content: attr(data-title) / ""; }
}
@media (max-width: 350px) { table { font-size: 13px; } th, td { padding: 5px 3px; } }
`;

/** A column of a table: its title, and the form of its cells if they are not numbers. */
export interface Column {
  title: string;
  /** `name`: a name from a model; `words`: a text of several lines; `html`: a drawing. */
  kind?: 'name' | 'words' | 'html';
}

/** Tables with more columns, or with long texts, are stacked on narrow screens. */
const MOST_NARROW_COLUMNS = 4;

const numberHtml = (text: string) =>
  escapeHtml(text).replace(/(\d) (?=(dB|[kM]?B|ms|%|x)(\s|$))/g, '$1&nbsp;');

/** A cell below `title`. */
function cellHtml(cell: string, { title, kind }: Column): string {
  const css = { name: 'left', words: 'left words', html: 'wide' };
  const content =
    kind === 'html'
      ? cell
      : kind === 'name'
        ? nameHtml(cell)
        : kind
          ? escapeHtml(cell)
          : numberHtml(cell);
  return `<td${kind ? ` class="${css[kind]}"` : ''} data-title="${escapeHtml(title)}">${content}</td>`;
}

/**
 * A table whose first column names its rows, in an area of its own that scrolls where the screen is narrow.
 * Cells are escaped, except those of kind `html`. Rows whose name begins with {@link PART} are indented.
 */
export function htmlTable(
  caption: string,
  columns: readonly (string | Column)[],
  rows: readonly (readonly string[])[],
): string {
  const all = columns.map((column) => (typeof column === 'string' ? { title: column } : column));
  const titles = all.map(({ title, kind }) => {
    const left = kind === 'name' || kind === 'words';
    return `<th scope="col"${left ? ' class="left"' : ''}>${escapeHtml(title)}</th>`;
  });
  const body = rows.map(([name = '', ...cells]) => {
    const part = name.startsWith(PART);
    const head = `<th scope="row"${part ? ' class="part"' : ''}>${nameHtml(part ? name.slice(PART.length) : name)}</th>`;
    return `<tr>${head}${cells.map((cell, index) => cellHtml(cell, all[index + 1]!)).join('')}</tr>`;
  });
  const label = escapeHtml(caption);
  const wide = all.length > MOST_NARROW_COLUMNS || all.some(({ kind }) => kind === 'words');
  const stack = wide ? ' class="stack"' : '';
  return (
    `<div class="scroll" role="region" aria-label="${label}" tabindex="0"><table${stack}>` +
    `<caption class="rq-hidden">${label}</caption>` +
    `<thead><tr>${titles.join('')}</tr></thead>\n<tbody>${body.join('\n')}</tbody></table></div>`
  );
}

/** A card with a title; the content is HTML. */
export function section(title: string, ...content: string[]): string {
  return `<section><h2>${escapeHtml(title)}</h2>\n${content.join('\n')}</section>`;
}

/** A page that loads nothing and runs no script; `intro` is HTML. */
export function page(title: string, intro: string, sections: readonly string[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapeHtml(title)}</title>
<style>${chartStyle}${pageStyle}</style>
</head>
<body>
<main>
<h1>${escapeHtml(title)}</h1>
<p>${intro}</p>
${sections.join('\n')}
</main>
</body>
</html>
`;
}

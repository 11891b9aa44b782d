// What the pages of all reports share.

import { chartStyle, escapeHtml } from './svg.js';

const pageStyle = `
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) { :root { --page: #12151c; --card: #1b202b; } }
body { margin: 0; background: var(--page); color: var(--rq-text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px; box-sizing: border-box; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 12px; }
p { color: var(--rq-muted); margin: 0 0 12px; }
section { background: var(--card); border: 1px solid var(--rq-line); border-radius: 10px; padding: 18px;
  margin-top: 18px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--rq-line); white-space: nowrap; }
th { color: var(--rq-muted); font-weight: 500; } tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child, .ops td:nth-child(2), .ops th:nth-child(2) { text-align: left; }
.words td { white-space: normal; text-align: left; }
h1, p { overflow-wrap: anywhere; }
@media (max-width: 600px) { section { padding: 12px; } .rq-chart { min-width: 560px; } .ops .rq-chart { min-width: 160px; } }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 6px 0 14px; }
`;

/** A table; every cell is escaped. */
export function htmlTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  kind = '',
) {
  const cells = (row: readonly string[], tag: string) =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return (
    `<table${kind ? ` class="${kind}"` : ''}><thead>${cells(header, 'th')}</thead>` +
    `<tbody>${rows.map((row) => cells(row, 'td')).join('\n')}</tbody></table>`
  );
}

/** A card with a title; the content is HTML. */
export function section(title: string, ...content: string[]): string {
  return `<section><h2>${escapeHtml(title)}</h2>\n${content.join('\n')}</section>`;
}

/** A page that loads nothing and runs nothing; `intro` is HTML. */
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

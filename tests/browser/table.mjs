// Writes the tables of docs/browsers.md, which list what every browser computes.
//
//   node tests/browser/table.mjs

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { engineInfo } from '../../dist/index.js';
import { ROOT } from './browser.mjs';
import { browsers } from './browsers.mjs';
import { inBrowser, inNode, present } from './everywhere.mjs';
import { files } from './jobs.mjs';

const DOCUMENT = path.join(ROOT, 'docs/browsers.md');
const MARKS = ['<!-- what every browser computes -->', '<!-- end -->'];

/** Name and version of a browser, from its user agent string. */
function versionOf({ name }, agent) {
  const version = /(?:Chrome|Firefox|Version)\/([\d.]+?)(?:\.0)*(?: |$)/.exec(agent);
  return `${name} ${version?.[1] ?? ''}`.trim();
}

/** The hash if all ways agree, or else the number of different ones. */
function cellOf(hashes, title) {
  const all = [...new Set(Object.values(hashes[title]))];
  return all.length === 1 ? `\`${all[0]}\`` : `${all.length} different`;
}

const columns = [];
const judge = await inNode();
columns.push({
  name: `Node ${process.versions.node.split('.')[0]}`,
  variant: (await engineInfo()).variant,
  ...judge,
});
for (const browser of browsers) {
  console.log(browser.name);
  const found = await inBrowser(browser);
  columns.push({ ...found, name: versionOf(browser, found.agent) });
}

const few = new Set(files.map(({ title }) => title));
const sameFiles = columns.map(({ hashes }) => {
  const same = files.filter(({ title }) => {
    const all = new Set([...Object.values(hashes[title]), ...Object.values(judge.hashes[title])]);
    return all.size === 1;
  });
  return `${same.length} of ${files.length} the same`;
});
const rows = [
  ['', ...columns.map(({ name }) => name)],
  ['module chosen', ...columns.map(({ variant }) => variant)],
  ['threads', ...columns.map(({ threads }) => String(threads))],
  ['files of small networks', ...sameFiles],
  ...present
    .filter(({ title }) => !few.has(title))
    .map(({ title }) => [title, ...columns.map(({ hashes }) => cellOf(hashes, title))]),
];
const widths = rows[0].map((_, at) => Math.max(3, ...rows.map((row) => row[at].length)));
const lines = rows.map(
  (row) => `| ${row.map((cell, at) => cell.padEnd(widths[at])).join(' | ')} |`,
);
lines.splice(1, 0, `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`);

const text = readFileSync(DOCUMENT, 'utf8');
const [begin, end] = MARKS.map((mark) => text.indexOf(mark));
if (begin < 0 || end < begin)
  throw new Error(`docs/browsers.md has no ${MARKS[0]} ... ${MARKS[1]}`);
const table = `${MARKS[0]}\n\n${lines.join('\n')}\n\n`;
writeFileSync(DOCUMENT, text.slice(0, begin) + table + text.slice(end));
console.log(lines.join('\n'));
process.exit(0);

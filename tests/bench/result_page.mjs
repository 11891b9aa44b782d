// Writes docs/benchmarks.md: the tables between two marks are those of tests/bench/results.json.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from './networks.mjs';
import { PARTS } from './result_parts.mjs';

/** The measurements that the page shows. */
export const RESULTS = path.join(ROOT, 'tests/bench/results.json');
const DOCUMENT = path.join(ROOT, 'docs/benchmarks.md');
const MARKS = ['<!-- results -->', '<!-- end -->'];

function formatTable({ text, header, rows }) {
  if (!rows) return text;
  const lines = [header, ...rows];
  const widths = header.map((_, at) => Math.max(3, ...lines.map((row) => row[at].length)));
  // Words are aligned left, numbers right.
  const format = (row) =>
    `| ${row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at]))).join(' | ')} |`;
  const rule = widths.map((width, at) =>
    at === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  const table = [format(header), `| ${rule.join(' | ')} |`, ...rows.map(format)].join('\n');
  return text ? `${text}\n\n${table}` : table;
}

function formatMachine({ machine, rounds, repeats }) {
  const { version, commit, changed, date, processor, cores, load, node, wholeBytes } = machine;
  const state = commit ? ` (commit ${commit}${changed ? ' with changes' : ''})` : '';
  const peers = [
    `Node ${node}`,
    machine.browser && `Chromium ${machine.browser}`,
    `onnxruntime-web ${machine.ort}`,
    machine.litert ? `LiteRT.js ${machine.litert}` : 'no LiteRT.js',
  ].filter(Boolean);
  const busy =
    load > cores / 4
      ? ` Other programs ran as well (a load of ${load.toFixed(1)} before), so that only ratios mean something.`
      : '';
  return (
    `Measured on ${date}: version ${version}${state}, ${peers.join(', ')}. The processor is ${processor}, ` +
    `${wholeBytes ? 'with' : 'without'} AVX-VNNI (or ARM's dot product), of which ${cores} cores were there. ` +
    `${rounds} rounds; ${repeats} new browsers and processes.${busy}`
  );
}

/** The tables of a run, as Markdown. */
export function formatResults(results) {
  const sections = PARTS.filter(({ name }) => results.parts[name]).map(
    ({ name, title, tables }) => {
      const { missing, result, measured } = results.parts[name];
      const body = missing
        ? [`Not measured: ${missing}.`]
        : [...(measured ? [formatMachine(measured)] : []), ...tables(result).map(formatTable)];
      return [`### ${title}`, ...body].join('\n\n');
    },
  );
  return [formatMachine(results), ...sections].join('\n\n');
}

/** The text of the page with the tables of a run. */
export function pageWith(results, page = readFileSync(DOCUMENT, 'utf8')) {
  const [begin, end] = MARKS.map((mark) => page.indexOf(mark));
  if (begin < 0 || end < begin) {
    throw new Error(`docs/benchmarks.md has no ${MARKS[0]} ... ${MARKS[1]}`);
  }
  return `${page.slice(0, begin)}${MARKS[0]}\n\n${formatResults(results)}\n\n${page.slice(end)}`;
}

/** Writes the tables of a run into the page. */
export function writePage(results) {
  writeFileSync(DOCUMENT, pageWith(results));
}

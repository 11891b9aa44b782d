// Writes the report of a search as text, and as one HTML page that loads nothing and runs no script.

import type { SearchAttempt, SearchReport } from '../base/search_report.js';
import { formatValue } from '../metrics/unit.js';
import { type FrontierCost, frontierAxes } from './analysis_charts.js';
import { escapeHtml } from './chart.js';
import { formatBytes, formatMs, oneLine, table } from './format.js';
import { htmlTable, page, section } from './page.js';
import { searchChart } from './search_chart.js';

const header = ['configuration', 'metric', 'size', 'time', 'seconds', 'float', '16 bits', 'result'];

/** An attempt in words: bits, recovery, and operators that differ. */
export function describeAttempt({ format, recovery, raised }: SearchAttempt): string {
  const operators = raised?.operators ?? [];
  if (!raised || operators.length === 0) return `${format}, ${recovery}`;
  const where = raised.to === 'float' ? 'in float' : raised.to;
  return `${format}, ${recovery}, ${operators.length} ${where}`;
}

/** Whether an attempt is good enough, and if not, why. */
function resultOf(attempt: SearchAttempt, index: number, { best, met }: SearchReport): string {
  if (attempt.error !== undefined) return 'impossible';
  if (index === best && met) return 'chosen';
  const reasons = [
    ...(attempt.meetsFloor ? [] : ['below the floor']),
    ...(attempt.fitsBudget ? [] : ['over the budget']),
  ];
  return reasons.length > 0 ? reasons.join(', ') : 'good enough';
}

function rows(report: SearchReport): string[][] {
  const { unit } = report.metric;
  return report.attempts.map((attempt, index) => {
    const { value, bytes, ms, seconds, floatOperators, wideOperators, error } = attempt;
    const measured =
      error === undefined
        ? [formatValue(value, unit), formatBytes(bytes), formatMs(ms)]
        : ['-', '-', '-'];
    const counts = [String(floatOperators), String(wideOperators)];
    const result = resultOf(attempt, index, report);
    return [describeAttempt(attempt), ...measured, seconds.toFixed(1), ...counts, result];
  });
}

/** What was asked for, and what came out, in sentences. */
function summary(report: SearchReport): string[] {
  const { metric, float, floor, budget, samples, attempts, best, met, seconds } = report;
  const value = (number: number) => formatValue(number, metric.unit);
  const bounds = [
    ...(floor === undefined ? [] : [`floor ${value(floor)}`]),
    ...(budget.bytes === undefined ? [] : [`at most ${formatBytes(budget.bytes)}`]),
    ...(budget.ms === undefined ? [] : [`at most ${formatMs(budget.ms)}`]),
  ];
  const chosen = attempts[best];
  const lines = [
    `${metric.name} on ${samples} samples: float ${value(float.value)} with ${formatBytes(float.bytes)} in ${formatMs(float.ms)}, ${bounds.join(', ')}`,
    `${attempts.length} ${attempts.length === 1 ? 'configuration' : 'configurations'} in ${seconds.toFixed(1)} s`,
  ];
  if (!chosen) return lines;
  const { bytes, ms } = chosen;
  const what = `${describeAttempt(chosen)}: ${value(chosen.value)}, ${formatBytes(bytes)}, ${formatMs(ms)}`;
  return [...lines, `${met ? 'chosen' : 'none is good enough; best'}: ${what}`];
}

/** The most names of operators in a text; a page has all. */
const MOST_NAMES = 12;

/** The attempts of a search as a table for a terminal. */
export function formatSearch(report: SearchReport): string {
  const raised = report.attempts[report.best]?.raised;
  const where = raised?.to === 'float' ? 'in float' : (raised?.to ?? '');
  const operators = raised?.operators ?? [];
  return [
    ...summary(report).slice(0, 2),
    '',
    table(header, rows(report), [0, header.length - 1]),
    '',
    ...summary(report).slice(2),
    ...operators.slice(0, MOST_NAMES).map((name) => `  ${oneLine(name)}: ${where}`),
    ...(operators.length > MOST_NAMES ? [`  and ${operators.length - MOST_NAMES} more`] : []),
  ].join('\n');
}

/** Options of {@link searchHtml}. */
export interface SearchHtmlOptions {
  /** Title of the page. Default "Search for a quantization". */
  title?: string;
  subtitle?: string;
}

function chartSection(report: SearchReport, by: FrontierCost): string[] {
  const chart = searchChart(report, by);
  if (chart === '') return [];
  const { title } = frontierAxes[by];
  const of = { bytes: 'the bytes of the file', ms: 'the time of a run' }[by];
  const dashed = report.floor === undefined ? '' : ' The dashed line is the floor.';
  return [
    section(
      `${title} against ${report.metric.name}`,
      `<p>Each dot is a configuration, by ${of}. The line goes through those that no other one beats, the ring ` +
        `is around the ${report.met ? 'chosen' : 'best'} one.${dashed}</p>`,
      chart,
    ),
  ];
}

/** The whole page. Every name from the model is escaped. */
export function searchHtml(report: SearchReport, options: SearchHtmlOptions = {}): string {
  const { title = 'Search for a quantization', subtitle = '' } = options;
  const lines = [...(subtitle ? [subtitle] : []), ...summary(report)];
  const raised = report.attempts[report.best]?.raised;
  return page(title, lines.map(escapeHtml).join('<br>'), [
    ...chartSection(report, 'bytes'),
    ...chartSection(report, 'ms'),
    section(
      'Attempts',
      htmlTable(
        'All configurations in the order in which they were tried',
        [
          header[0]!,
          report.metric.name,
          ...header.slice(2, -1),
          { title: header.at(-1)!, kind: 'words' },
        ],
        rows(report),
      ),
    ),
    ...(raised
      ? [
          section(
            `Operators ${raised.to === 'float' ? 'in float' : `with ${raised.to}`}`,
            htmlTable(
              'Operators of other bits',
              ['operator', 'bits'],
              raised.operators.map((name) => [name, raised.to]),
            ),
          ),
        ]
      : []),
  ]);
}

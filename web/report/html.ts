// The comparison report as one HTML page that loads nothing and runs nothing.

import type { CompareReport } from '../compare.js';
import { formatBytes, formatMs } from './format.js';
import {
  layerHeader,
  layerRow,
  metricRows,
  outputHeader,
  outputRows,
  worstLayers,
} from './metrics.js';
import { chartStyle, escapeHtml, layerChart, pairChart } from './svg.js';

/** Options of {@link htmlReport}. */
export interface HtmlOptions {
  /** Default "Quantized against float". */
  title?: string;
  /** A line below the title, such as the names of the files. */
  subtitle?: string;
}

const pageStyle = `
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) { :root { --page: #12151c; --card: #1b202b; } }
body { margin: 0; background: var(--page); color: var(--rq-text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 12px; }
p { color: var(--rq-muted); margin: 0 0 12px; }
section { background: var(--card); border: 1px solid var(--rq-line); border-radius: 10px; padding: 18px;
  margin-top: 18px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--rq-line); white-space: nowrap; }
th { color: var(--rq-muted); font-weight: 500; } tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child, .ops td:nth-child(2), .ops th:nth-child(2) { text-align: left; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 6px 0 14px; }
`;

function htmlTable(header: readonly string[], rows: readonly (readonly string[])[], kind = '') {
  const cells = (row: readonly string[], tag: string) =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return (
    `<table${kind ? ` class="${kind}"` : ''}><thead>${cells(header, 'th')}</thead>` +
    `<tbody>${rows.map((row) => cells(row, 'td')).join('\n')}</tbody></table>`
  );
}

function section(title: string, ...content: string[]): string {
  return `<section><h2>${escapeHtml(title)}</h2>\n${content.join('\n')}</section>`;
}

/** The whole page. Every name out of the model is escaped. */
export function htmlReport(report: CompareReport, options: HtmlOptions = {}): string {
  const { title = 'Quantized against float', subtitle = '' } = options;
  const { size, latency, memory } = report;
  const labelled = report.labelled > 0 ? `, ${report.labelled} with a label` : '';
  const sections = [
    section(
      'Summary',
      htmlTable(
        ['', 'float', 'quantized', 'both'],
        metricRows(report).map(({ name, float, candidate, both }) => [
          name,
          float,
          candidate,
          both,
        ]),
      ),
    ),
    section('Outputs', htmlTable(outputHeader, outputRows(report))),
    section(
      'Cost',
      '<p class="legend"><i style="background: var(--rq-float)"></i>float' +
        '<i style="background: var(--rq-int8)"></i>quantized</p>',
      pairChart([
        {
          name: 'latency',
          float: latency.floatMs,
          candidate: latency.candidateMs,
          format: formatMs,
        },
        {
          name: 'size',
          float: size.floatBytes,
          candidate: size.candidateBytes,
          format: formatBytes,
        },
        {
          name: 'peak memory',
          float: memory.float.arena,
          candidate: memory.candidate.arena,
          format: formatBytes,
        },
      ]),
    ),
  ];
  if (report.layers.length > 0) {
    sections.push(
      section(
        'Where the error comes from',
        '<p>Signal to noise ratio of every layer, in the order of the graph; higher is better. Bars: ' +
          'everything is quantized. Circles: only this layer is, its inputs are exact.</p>',
        layerChart(report.layers),
      ),
      section(
        'Layers, worst first',
        htmlTable(layerHeader, worstLayers(report).map(layerRow), 'ops'),
      ),
    );
  }
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
<p>${subtitle ? `${escapeHtml(subtitle)}<br>` : ''}${report.samples} samples${labelled}</p>
${sections.join('\n')}
</main>
</body>
</html>
`;
}

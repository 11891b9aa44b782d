// Writes the comparison report as one HTML page that loads nothing and runs no script.

import type { CompareReport } from '../analyze/compare_report.js';
import { layerChart, pairChart } from './bars.js';
import { escapeHtml } from './chart.js';
import { formatBytes, formatMs } from './format.js';
import {
  layerHeader,
  layerRow,
  metricRows,
  outputHeader,
  outputRows,
  worstLayers,
} from './metrics.js';
import { htmlTable, page, section } from './page.js';

/** Options of {@link htmlReport}. */
export interface HtmlOptions {
  /** Title of the page. Default "Quantized against float". */
  title?: string;
  /** A line below the title, such as the names of the files. */
  subtitle?: string;
}

/** The whole page. Every name from the model is escaped. */
export function htmlReport(report: CompareReport, options: HtmlOptions = {}): string {
  const { title = 'Quantized against float', subtitle = '' } = options;
  const { size, latency, memory } = report;
  const labelled = report.labelled > 0 ? `, ${report.labelled} with a label` : '';
  const sections = [
    section(
      'Summary',
      htmlTable(
        'Accuracy, size, latency and memory of both networks',
        ['measure', 'float', 'quantized', 'both'],
        metricRows(report).map(({ name, float, candidate, both }) => [
          name,
          float,
          candidate,
          both,
        ]),
      ),
    ),
    section(
      'Outputs',
      htmlTable('What quantization does to each output', outputHeader, outputRows(report)),
    ),
    section(
      'Cost',
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
        htmlTable(
          'What quantization does to each layer',
          layerHeader.map((title) => ({
            title,
            ...(title === 'operator' ? { kind: 'name' } : {}),
          })),
          worstLayers(report).map(layerRow),
        ),
      ),
    );
  }
  return page(
    title,
    `${subtitle ? `${escapeHtml(subtitle)}<br>` : ''}${report.samples} samples${labelled}`,
    sections,
  );
}

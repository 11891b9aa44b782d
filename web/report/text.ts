// Writes the comparison report for a terminal.

import type { CompareReport } from '../analyze/compare_report.js';
import { shorten, table } from './format.js';
import {
  layerHeader,
  layerRow,
  metricRows,
  outputHeader,
  outputRows,
  worstLayers,
} from './metrics.js';

/** Options of {@link formatReport}. */
export interface TextOptions {
  /** How many layers to list, the worst first. Default 8. */
  layers?: number;
}

/** The report as plain text. */
export function formatReport(report: CompareReport, { layers = 8 }: TextOptions = {}): string {
  const labelled = report.labelled > 0 ? `, ${report.labelled} with a label` : '';
  const parts = [
    `${report.samples} samples${labelled}`,
    table(
      ['', 'float', 'quantized', 'both'],
      metricRows(report).map(({ name, float, candidate, both }) => [name, float, candidate, both]),
    ),
    table(outputHeader, outputRows(report)),
  ];
  const worst = worstLayers(report, layers);
  if (worst.length > 0) {
    parts.push(
      `Worst ${worst.length} of ${report.layers.length} layers (SNR: with all quantized; alone: only this one)`,
      table(
        layerHeader,
        worst.map((layer) => {
          const [name, ...rest] = layerRow(layer);
          return [shorten(name!, 36), ...rest];
        }),
        [0, 1],
      ),
    );
  }
  return parts.join('\n\n');
}

// Writes the quantizer's analysis as text, and as one HTML page that loads nothing and runs no script.

import { type Diagnosis, type FrontierPoint, diagnose } from '../analyze/analysis.js';
import { formatValue } from '../metrics/unit.js';
import type { Analysis } from '../quantize/record.js';
import {
  type FrontierCost,
  frontierAxes,
  frontierChart,
  histogramChart,
} from './analysis_charts.js';
import { escapeHtml } from './chart.js';
import { formatDb, formatNumber, oneLine, shorten, table } from './format.js';
import { htmlTable, page, section } from './page.js';

function rows(analysis: Analysis, count: number): string[][] {
  const db = (value: number | null | undefined) => formatDb(value);
  return [...analysis.operators]
    .sort((a, b) => (a.aloneSnr ?? Infinity) - (b.aloneSnr ?? Infinity))
    .slice(0, count)
    .map(({ name, type, aloneSnr, snr, noise, metric }) => [
      name,
      type,
      ...(analysis.metric ? [metric ? formatValue(metric.alone, analysis.metric.unit) : '-'] : []),
      db(aloneSnr),
      db(snr),
      ...['8', '4', '2'].map((width) =>
        noise?.[width] === undefined
          ? '-'
          : db(noise[width] > 0 ? -10 * Math.log10(noise[width]) : null),
      ),
    ]);
}

const headerOf = ({ metric }: Analysis) => [
  'operator',
  'type',
  ...(metric ? [metric.name] : []),
  'alone',
  'all',
  'outputs at W8',
  'W4',
  'W2',
];

/** The values of both models, if the analysis was made with a metric. */
function metricOf({ metric }: Analysis): string[] {
  if (!metric) return [];
  const { name, unit, samples, float, quantized } = metric;
  return [
    `${name} on ${samples} samples: float ${formatValue(float, unit)}, quantized ${formatValue(quantized, unit)}`,
  ];
}

/** The number of samples on which errors were measured, and of how many. */
function samplesOf({ samples }: Analysis, calibrationSamples?: number): string {
  const measured = `${samples} ${samples === 1 ? 'sample' : 'samples'}`;
  if (calibrationSamples === undefined)
    return `measured on the first ${measured} of the calibration`;
  const calibrated = `calibrated on ${calibrationSamples} ${calibrationSamples === 1 ? 'sample' : 'samples'}`;
  if (calibrationSamples <= samples) return `${calibrated}, measured on the same`;
  return `${calibrated}, measured on the first ${samples} of them`;
}

/** Options of {@link formatAnalysis}. */
export interface AnalysisTextOptions {
  /** How many operators to list, the worst first. Default 8. */
  layers?: number;
  /** The number of samples that the network was calibrated on, which an analysis does not tell. */
  calibrationSamples?: number;
}

/** The worst layers with diagnoses, for a terminal. */
export function formatAnalysis(analysis: Analysis, options: AnalysisTextOptions = {}): string {
  const { layers = 8, calibrationSamples } = options;
  const lines = [
    `outputs: ${formatDb(analysis.snr)}, ${samplesOf(analysis, calibrationSamples)}`,
    ...metricOf(analysis),
    '',
    table(headerOf(analysis), rows(analysis, layers), [0, 1]),
    '',
  ];
  for (const { suggestion, found } of bySuggestion(diagnose(analysis, Math.min(layers, 5)))) {
    for (const { operator, problem } of found) {
      lines.push(oneLine(`${shorten(operator, 60)}: ${problem}`));
    }
    lines.push(`  ${suggestion}.`);
  }
  return lines.join('\n');
}

/** Groups diagnoses by their suggestion, so that each piece of advice appears once. */
function bySuggestion(
  diagnoses: readonly Diagnosis[],
): { suggestion: string; found: Diagnosis[] }[] {
  const groups = new Map<string, Diagnosis[]>();
  for (const diagnosis of diagnoses) {
    groups.set(diagnosis.suggestion, [...(groups.get(diagnosis.suggestion) ?? []), diagnosis]);
  }
  return [...groups].map(([suggestion, found]) => ({ suggestion, found }));
}

/** Options of {@link analysisHtml}. */
export interface AnalysisHtmlOptions {
  /** Title of the page. Default "Quantization analysis". */
  title?: string;
  subtitle?: string;
  frontier?: readonly FrontierPoint[];
  chosen?: FrontierPoint;
  /** The cost that the frontier reduces: `ms` for one with `maxMs`. Default `bytes`. */
  by?: FrontierCost;
  /** The number of samples that the network was calibrated on, which an analysis does not tell. */
  calibrationSamples?: number;
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function adviceSection(analysis: Analysis): string {
  const advice = bySuggestion(diagnose(analysis, 10)).flatMap(({ suggestion, found }, index) => [
    `<p>${escapeHtml(capital(suggestion))}:</p>`,
    htmlTable(
      `Operators of advice ${index + 1}`,
      ['operator', 'alone', { title: 'problem', kind: 'words' }],
      found.map(({ operator, aloneSnr, problem }) => [operator, formatDb(aloneSnr), problem]),
    ),
  ]);
  if (advice.length === 0) advice.push('<p>No operator alone has less than 60 dB.</p>');
  return section('What to do', ...advice);
}

function frontierSection({ frontier = [], chosen, by = 'bytes' }: AnalysisHtmlOptions): string[] {
  const chart = frontierChart(frontier, chosen, by);
  if (chart === '') return [];
  const { title, of } = frontierAxes[by];
  const circle =
    chosen === undefined
      ? 'Without a budget none is chosen.'
      : Number.isFinite(chosen.snr)
        ? 'The circle is the chosen one.'
        : 'The budget has room for all layers in float.';
  return [
    section(
      `${title} against accuracy`,
      `<p>Expected signal to noise of the outputs by ${of}, at the best division of bits. ${circle}</p>`,
      chart,
    ),
  ];
}

/** Values in the order of the operators that read or write them. */
function valuesInOrder({ operators, values }: Analysis): Analysis['values'] {
  const order = new Map<string, number>();
  for (const { input, value } of operators) {
    for (const name of [input, value]) if (!order.has(name)) order.set(name, order.size);
  }
  const place = ({ name }: { name: string }) => order.get(name) ?? order.size;
  return [...values].sort((a, b) => place(a) - place(b) || (a.name < b.name ? -1 : 1));
}

function valuesSection(analysis: Analysis): string {
  const cells = valuesInOrder(analysis).map(
    ({ name, min, max, clipped, scale, bits, histogram }) => [
      name,
      formatNumber(min),
      formatNumber(max),
      String(bits),
      formatNumber(scale),
      `${(100 * clipped).toFixed(3)} %`,
      histogramChart(histogram.counts, 180, 36, `Histogram of ${name}`),
    ],
  );
  const columns = ['value', 'min', 'max', 'bits', 'scale', 'clipped'];
  return section(
    'Values',
    '<p>Histograms have a logarithmic scale and span the calibrated range.</p>',
    htmlTable('What values look like', [...columns, { title: 'histogram', kind: 'html' }], cells),
  );
}

/** The whole page. Every name from the model is escaped. */
export function analysisHtml(analysis: Analysis, options: AnalysisHtmlOptions = {}): string {
  const { title = 'Quantization analysis', subtitle = '' } = options;
  const [operator, type, ...numbers] = headerOf(analysis);
  const outputs = `Outputs: ${formatDb(analysis.snr)}, ${samplesOf(analysis, options.calibrationSamples)}`;
  const intro = [outputs, ...metricOf(analysis).map(escapeHtml)].join('<br>');
  return page(title, `${subtitle ? `${escapeHtml(subtitle)}<br>` : ''}${intro}`, [
    adviceSection(analysis),
    ...frontierSection(options),
    section(
      'Operators, worst first',
      '<p>Signal to noise of each operator alone, with exact inputs, and with all quantized; and of the outputs ' +
        'where only the weights of this one have 8, 4 or 2 bits.</p>',
      htmlTable(
        'What each operator costs',
        [operator!, { title: type!, kind: 'name' }, ...numbers],
        rows(analysis, Infinity),
      ),
    ),
    valuesSection(analysis),
  ]);
}

// The quantizer's analysis as text, and as one HTML page that loads nothing and runs nothing.

import { type Analysis, type Diagnosis, type FrontierPoint, diagnose } from '../analysis.js';
import { formatBytes, formatDb, table } from './format.js';
import { htmlTable, page, section } from './page.js';
import { escapeHtml } from './svg.js';

function rows(analysis: Analysis, count: number): string[][] {
  const db = (value: number | null | undefined) => formatDb(value);
  return [...analysis.operators]
    .sort((a, b) => (a.aloneSnr ?? Infinity) - (b.aloneSnr ?? Infinity))
    .slice(0, count)
    .map(({ name, type, aloneSnr, snr, noise }) => [
      name,
      type,
      db(aloneSnr),
      db(snr),
      ...['8', '4', '2'].map((width) =>
        noise?.[width] === undefined
          ? '-'
          : db(noise[width] > 0 ? -10 * Math.log10(noise[width]) : null),
      ),
    ]);
}

const header = ['operator', 'type', 'alone', 'all', 'outputs at W8', 'W4', 'W2'];

/** The worst layers with diagnoses, for a terminal. */
export function formatAnalysis(analysis: Analysis, options: { layers?: number } = {}): string {
  const { layers = 8 } = options;
  const lines = [
    `outputs: ${formatDb(analysis.snr)} over the first ${analysis.samples} of the calibration samples`,
    '',
    table(header, rows(analysis, layers)),
    '',
  ];
  for (const { suggestion, found } of bySuggestion(diagnose(analysis, Math.min(layers, 5)))) {
    for (const { operator, problem } of found) lines.push(`${operator}: ${problem}`);
    lines.push(`  ${suggestion}.`);
  }
  return lines.join('\n');
}

/** What the same thing may help, each piece of advice once. */
function bySuggestion(
  diagnoses: readonly Diagnosis[],
): { suggestion: string; found: Diagnosis[] }[] {
  const groups = new Map<string, Diagnosis[]>();
  for (const diagnosis of diagnoses) {
    groups.set(diagnosis.suggestion, [...(groups.get(diagnosis.suggestion) ?? []), diagnosis]);
  }
  return [...groups].map(([suggestion, found]) => ({ suggestion, found }));
}

/** A histogram as a small SVG drawing. */
export function histogramChart(counts: readonly number[], width = 220, height = 44): string {
  const top = Math.log1p(Math.max(1, ...counts));
  const step = width / counts.length;
  const bars = counts
    .map((count, index) => {
      const tall = (Math.log1p(count) / top) * height;
      return `<rect class="rq-int8" x="${(index * step).toFixed(1)}" y="${(height - tall).toFixed(1)}" width="${(step * 0.9).toFixed(1)}" height="${tall.toFixed(1)}"/>`;
    })
    .join('');
  return `<svg class="rq-chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="histogram" style="max-width:${width}px">${bars}</svg>`;
}

/** Expected signal to noise against the size of the weights. Empty text for fewer than two points. */
export function frontierChart(
  frontier: readonly FrontierPoint[],
  chosen?: FrontierPoint,
  width = 760,
): string {
  const points = frontier.filter(({ snr }) => Number.isFinite(snr));
  if (points.length < 2) return '';
  const height = 260;
  const [left, bottom] = [56, 34];
  const most = Math.max(...points.map(({ bytes }) => bytes));
  const low = Math.min(0, ...points.map(({ snr }) => snr));
  const high = Math.max(...points.map(({ snr }) => snr));
  const x = (bytes: number) => left + (bytes / most) * (width - left - 12);
  const y = (snr: number) =>
    height - bottom - ((snr - low) / (high - low || 1)) * (height - bottom - 12);
  const line = points.map(({ bytes, snr }) => `${x(bytes).toFixed(1)},${y(snr).toFixed(1)}`);
  const labels = [0, 0.25, 0.5, 0.75, 1].map(
    (part) =>
      `<text class="rq-muted" x="${x(part * most).toFixed(1)}" y="${height - 12}" text-anchor="${part === 1 ? 'end' : 'middle'}">${formatBytes(Math.round(part * most))}</text>`,
  );
  const decibels = [0, 0.5, 1].map((part) => {
    const snr = low + part * (high - low);
    return (
      `<line class="rq-grid" x1="${left}" x2="${width - 12}" y1="${y(snr).toFixed(1)}" y2="${y(snr).toFixed(1)}"/>` +
      `<text class="rq-muted" x="${left - 6}" y="${(y(snr) + 4).toFixed(1)}" text-anchor="end">${snr.toFixed(0)} dB</text>`
    );
  });
  const dot =
    chosen && Number.isFinite(chosen.snr)
      ? `<circle class="rq-alone" cx="${x(chosen.bytes).toFixed(1)}" cy="${y(chosen.snr).toFixed(1)}" r="5"/>`
      : '';
  return (
    `<svg class="rq-chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="size against accuracy">` +
    `${decibels.join('')}${labels.join('')}` +
    `<polyline points="${line.join(' ')}" style="fill:none;stroke:var(--rq-int8);stroke-width:2"/>${dot}</svg>`
  );
}

/** Options of {@link analysisHtml}. */
export interface AnalysisHtmlOptions {
  /** Default "Quantization analysis". */
  title?: string;
  subtitle?: string;
  frontier?: readonly FrontierPoint[];
  chosen?: FrontierPoint;
}

/** The whole page. Every name out of the model is escaped. */
export function analysisHtml(analysis: Analysis, options: AnalysisHtmlOptions = {}): string {
  const { title = 'Quantization analysis', subtitle = '', frontier = [], chosen } = options;
  const advice = bySuggestion(diagnose(analysis, 10)).flatMap(({ suggestion, found }) => [
    `<p>${escapeHtml(suggestion)}:</p>`,
    htmlTable(
      ['operator', 'alone', 'problem'],
      found.map(({ operator, aloneSnr, problem }) => [operator, formatDb(aloneSnr), problem]),
      'ops words',
    ),
  ]);
  const histograms = analysis.values
    .map(
      ({ name, min, max, clipped, scale, bits, histogram }) =>
        `<tr><td>${escapeHtml(name)}</td><td>${min.toPrecision(4)}</td><td>${max.toPrecision(4)}</td>` +
        `<td>${bits}</td><td>${scale.toPrecision(4)}</td><td>${(100 * clipped).toFixed(3)} %</td>` +
        `<td>${histogramChart(histogram.counts)}</td></tr>`,
    )
    .join('\n');
  const sections = [
    section('What to do', ...advice),
    ...(frontier.length > 1
      ? [
          section(
            'Size against accuracy',
            '<p>Expected signal to noise of the outputs by the bytes of all weights, at the best ' +
              `division of bits.${chosen ? ' Circle: the chosen one.' : ' Without a budget none is chosen.'}</p>`,
            frontierChart(frontier, chosen),
          ),
        ]
      : []),
    section('Operators, worst first', htmlTable(header, rows(analysis, Infinity), 'ops')),
    section(
      'Values',
      '<p>Counts are on a logarithmic scale, over the calibrated range.</p>',
      `<table class="ops"><thead><tr><th>value</th><th>min</th><th>max</th><th>bits</th><th>scale</th>` +
        `<th>clipped</th><th>histogram</th></tr></thead><tbody>${histograms}</tbody></table>`,
    ),
  ];
  return page(
    title,
    `${subtitle ? `${escapeHtml(subtitle)}<br>` : ''}outputs ${formatDb(analysis.snr)}, the first ${analysis.samples} of the calibration samples`,
    sections,
  );
}

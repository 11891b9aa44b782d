// Charts as SVG text. Colours come from the CSS variables of chartStyle, so that one drawing serves
// light and dark pages; nothing is loaded and no script runs.

import type { LayerDifference } from '../compare.js';
import { formatDb } from './format.js';

/** Text that is safe inside elements and attributes of HTML and SVG. */
export function escapeHtml(text: unknown): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return String(text).replace(/[&<>"']/g, (character) => entities[character]!);
}

/** CSS of the charts; a page may set other values for the variables. */
export const chartStyle = `
:root { --rq-text: #1d2433; --rq-muted: #667085; --rq-line: #dfe3ea; --rq-float: #98a2b3;
  --rq-int8: #3366d6; --rq-alone: #e07b18; }
@media (prefers-color-scheme: dark) {
  :root { --rq-text: #e6e9ef; --rq-muted: #98a2b3; --rq-line: #343b4a; --rq-float: #7d8799;
    --rq-int8: #7ea4ff; --rq-alone: #f5a755; } }
.rq-chart { width: 100%; height: auto; display: block; font: 12px system-ui, sans-serif; }
.rq-chart text { fill: var(--rq-text); }
.rq-chart .rq-muted { fill: var(--rq-muted); }
.rq-chart .rq-grid { stroke: var(--rq-line); stroke-width: 1; }
.rq-chart .rq-float { fill: var(--rq-float); }
.rq-chart .rq-int8 { fill: var(--rq-int8); }
.rq-chart .rq-alone { fill: none; stroke: var(--rq-alone); stroke-width: 2; }
`;

const clip = (text: string, length: number) =>
  text.length <= length ? text : `\u2026${text.slice(text.length - length + 1)}`;

/** Round steps for an axis from 0: 1, 2 or 5 times a power of ten. */
function ticks(top: number, count: number): number[] {
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)!;
  const result: number[] = [];
  for (let index = 0; index * step <= top * (1 + 1e-9); index++) {
    result.push(Number((index * step).toPrecision(12)));
  }
  return result;
}

/** Options of {@link layerChart}. */
export interface LayerChartOptions {
  /** Width in the drawing's own units; it scales to its container. Default 760. */
  width?: number;
}

/**
 * SNR of every layer in the order of the graph: bars with everything before quantized as well, circles
 * for the layer alone. Empty text without layers.
 */
export function layerChart(
  layers: readonly LayerDifference[],
  { width = 760 }: LayerChartOptions = {},
): string {
  if (layers.length === 0) return '';
  const left = Math.min(230, width * 0.34);
  const right = width - 64;
  const row = 20;
  const top = 40;
  const height = top + layers.length * row + 8;
  const values = layers.flatMap(({ snr, aloneSnr }) => [snr, aloneSnr]);
  const known = values.filter((value): value is number => Number.isFinite(value));
  const most = Math.max(10, ...known) * 1.05;
  const x = (snr: number) => left + (Math.max(0, Math.min(snr, most)) / most) * (right - left);
  const grid = ticks(most, 6).map(
    (tick) =>
      `<line class="rq-grid" x1="${x(tick)}" x2="${x(tick)}" y1="${top - 4}" y2="${height - 6}"/>` +
      `<text class="rq-muted" x="${x(tick)}" y="${top - 10}" text-anchor="middle">${tick}</text>`,
  );
  const rows = layers.map(({ name, op, snr, aloneSnr }, index) => {
    const middle = top + index * row + row / 2;
    const label = clip(name, Math.floor(left / 7));
    const end = snr === null ? right : x(snr);
    const alone =
      typeof aloneSnr === 'number'
        ? `<circle class="rq-alone" cx="${x(aloneSnr).toFixed(1)}" cy="${middle}" r="4"/>`
        : '';
    const title = `${name} (${op}): ${formatDb(snr)}${aloneSnr === undefined ? '' : `, alone ${formatDb(aloneSnr)}`}`;
    return (
      `<g><title>${escapeHtml(title)}</title>` +
      `<text x="${left - 8}" y="${middle + 4}" text-anchor="end">${escapeHtml(label)}</text>` +
      `<rect class="rq-int8" x="${left}" y="${middle - 6}" width="${Math.max(1, end - left).toFixed(1)}" height="12" rx="2"/>` +
      `${alone}<text class="rq-muted" x="${right + 8}" y="${middle + 4}">${snr === null ? 'exact' : snr.toFixed(1)}</text></g>`
    );
  });
  return (
    `<svg class="rq-chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="SNR of every layer in dB">` +
    `<rect class="rq-int8" x="0" y="6" width="12" height="10" rx="2"/>` +
    `<text class="rq-muted" x="18" y="15">SNR in dB</text>` +
    `<circle class="rq-alone" cx="97" cy="11" r="4"/><text class="rq-muted" x="107" y="15">layer alone</text>` +
    `${grid.join('')}${rows.join('')}</svg>`
  );
}

/** One pair of bars. */
export interface Pair {
  name: string;
  float: number;
  candidate: number;
  format: (value: number) => string;
}

/** Float against quantized for several quantities, each on a scale of its own. */
export function pairChart(pairs: readonly Pair[], width = 760): string {
  const left = Math.min(150, width * 0.3);
  const right = width - 100;
  const block = 54;
  const bars = pairs.map(({ name, float, candidate, format }, index) => {
    const top = index * block + 8;
    const most = Math.max(float, candidate, Number.MIN_VALUE);
    const bar = (value: number, y: number, kind: string) => {
      const length = Math.max(1, (value / most) * (right - left));
      return (
        `<rect class="${kind}" x="${left}" y="${y}" width="${length.toFixed(1)}" height="16" rx="2"/>` +
        `<text x="${(left + length + 8).toFixed(1)}" y="${y + 12}">${escapeHtml(format(value))}</text>`
      );
    };
    return (
      `<text x="${left - 10}" y="${top + 22}" text-anchor="end">${escapeHtml(name)}</text>` +
      bar(float, top, 'rq-float') +
      bar(candidate, top + 19, 'rq-int8')
    );
  });
  return (
    `<svg class="rq-chart" viewBox="0 0 ${width} ${pairs.length * block + 4}" role="img" ` +
    `aria-label="Float against quantized">${bars.join('')}</svg>`
  );
}

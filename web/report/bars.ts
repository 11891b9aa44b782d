// Draws charts of bars: a list with a row for each layer or quantity. Names stand beside their bars, or above
// them in a narrow container.

import type { LayerDifference } from '../analyze/compare_report.js';
import { escapeHtml, nameHtml, percent, ticks } from './chart.js';
import { formatDb } from './format.js';

const swatch = (kind: string) =>
  `<svg width="12" height="12" aria-hidden="true"><rect class="${kind}" width="12" height="12" rx="2"/></svg>`;
const ring =
  '<svg width="12" height="12" aria-hidden="true"><circle class="rq-alone" cx="6" cy="6" r="4"/></svg>';

const key = (...entries: string[]) =>
  `<p class="rq-key">${entries.map((entry) => `<span>${entry}</span>`).join('')}</p>`;

/** A bar with at least a visible width. */
const bar = (kind: string, share: number, y: number, height: number) =>
  `<rect class="${kind}" x="0" y="${y}" width="${percent(Math.max(0.004, share))}" height="${height}" rx="2"/>`;

/**
 * Draws the SNR of every layer in the order of the graph: bars with everything before quantized as well,
 * circles for the layer alone. HTML for a page with {@link chartStyle}; empty text without layers.
 */
export function layerChart(layers: readonly LayerDifference[]): string {
  if (layers.length === 0) return '';
  const known = layers
    .flatMap(({ snr, aloneSnr }) => [snr, aloneSnr])
    .filter((value): value is number => Number.isFinite(value));
  const most = Math.max(10, ...known) * 1.05;
  const share = (snr: number) => Math.max(0, Math.min(snr, most)) / most;
  const steps = ticks(0, most, 5);
  const grid = steps
    .map(
      (step) =>
        `<line class="rq-grid" x1="${percent(share(step))}" x2="${percent(share(step))}" y2="20"/>`,
    )
    .join('');
  const labels = steps.map((step) => {
    const anchor = step === 0 ? 'start' : 'middle';
    return `<text class="rq-muted" x="${percent(share(step))}" y="12" text-anchor="${anchor}">${step}</text>`;
  });
  const rows = layers.map(({ name, op, snr, aloneSnr }) => {
    const alone =
      typeof aloneSnr === 'number'
        ? `<circle class="rq-alone" cx="${percent(share(aloneSnr))}" cy="10" r="4"/>`
        : '';
    const shown = snr === null ? 'exact' : snr.toFixed(1);
    const more = `${snr === null ? '' : ' dB'}${aloneSnr === undefined ? '' : `, alone ${formatDb(aloneSnr)}`}`;
    return (
      `<li class="rq-row" title="${escapeHtml(`${name} (${op}): ${shown}${more}`)}">` +
      `<span class="rq-name">${nameHtml(name)}</span>` +
      `<svg class="rq-plot" height="20" aria-hidden="true">${grid}` +
      `${bar('rq-int8', snr === null ? 1 : share(snr), 4, 12)}${alone}</svg>` +
      `<span class="rq-value">${shown}<span class="rq-hidden">${more}</span></span></li>`
    );
  });
  return (
    '<div class="rq-chart rq-bars">' +
    `${key(`${swatch('rq-int8')}SNR in dB`, `${ring}layer alone`)}` +
    '<div class="rq-row" aria-hidden="true"><span class="rq-name"></span>' +
    `<svg class="rq-plot" height="18">${labels.join('')}</svg></div>` +
    `<ul role="list" aria-label="SNR of every layer in dB">${rows.join('\n')}</ul></div>`
  );
}

/** One pair of bars. */
export interface Pair {
  name: string;
  float: number;
  candidate: number;
  format: (value: number) => string;
}

/**
 * Draws float against quantized for several quantities, each on a scale of its own. HTML for a page with
 * {@link chartStyle}.
 */
export function pairChart(pairs: readonly Pair[]): string {
  const rows = pairs.map(({ name, float, candidate, format }) => {
    const most = Math.max(float, candidate, Number.MIN_VALUE);
    const value = (kind: string, of: number) =>
      `<span><span class="rq-hidden">${kind} </span>${escapeHtml(format(of))}</span>`;
    return (
      `<li class="rq-row rq-pair"><span class="rq-name">${nameHtml(name)}</span>` +
      `<svg class="rq-plot" height="40" aria-hidden="true">` +
      `${bar('rq-float', float / most, 2, 16)}${bar('rq-int8', candidate / most, 22, 16)}</svg>` +
      `<span class="rq-value">${value('float', float)}${value('quantized', candidate)}</span></li>`
    );
  });
  return (
    '<div class="rq-chart rq-bars">' +
    `${key(`${swatch('rq-float')}float`, `${swatch('rq-int8')}quantized`)}` +
    `<ul role="list" aria-label="Float against quantized">${rows.join('\n')}</ul></div>`
  );
}

// Draws charts of the analysis: the frontier of size and accuracy, histograms of values.

import type { FrontierPoint } from '../analyze/analysis.js';
import { escapeHtml, percent, ticks } from './chart.js';
import { formatBytes } from './format.js';

/**
 * Draws a histogram as a small SVG on a logarithmic scale, for a page with {@link chartStyle}; `label` names
 * its subject.
 */
export function histogramChart(
  counts: readonly number[],
  width = 220,
  height = 44,
  label = 'histogram',
): string {
  const top = Math.log1p(Math.max(1, ...counts));
  const step = width / counts.length;
  const bars = counts
    .map((count, index) => {
      const tall = (Math.log1p(count) / top) * height;
      return `<rect class="rq-int8" x="${(index * step).toFixed(1)}" y="${(height - tall).toFixed(1)}" width="${(step * 0.9).toFixed(1)}" height="${tall.toFixed(1)}"/>`;
    })
    .join('');
  return (
    `<svg class="rq-chart rq-histogram" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `role="img" aria-label="${escapeHtml(label)}">${bars}</svg>`
  );
}

/** The cost for which the bits of layers are divided: bytes of weights, or milliseconds of layers. */
export type FrontierCost = 'bytes' | 'ms';

/** The horizontal axis of {@link frontierChart}. */
export const frontierAxes: Record<
  FrontierCost,
  { title: string; of: string; format: (value: number) => string }
> = {
  bytes: { title: 'Size', of: 'the bytes of all weights', format: formatBytes },
  ms: {
    title: 'Time',
    of: 'the time of all layers',
    format: (ms) => `${Number(ms.toPrecision(3))} ms`,
  },
};

/**
 * Draws the expected signal to noise ratio against the size of the weights or, `by` 'ms', the time of layers,
 * with a circle at `chosen`, if it has any noise. SVG for a page with {@link chartStyle}; empty text for
 * fewer than two points.
 */
export function frontierChart(
  frontier: readonly FrontierPoint[],
  chosen?: FrontierPoint,
  by: FrontierCost = 'bytes',
): string {
  const points = frontier.filter(({ snr }) => Number.isFinite(snr));
  if (points.length < 2) return '';
  const { title, format } = frontierAxes[by];
  const get = (point: FrontierPoint) => point[by];
  const circled = chosen && Number.isFinite(chosen.snr) ? chosen : undefined;
  const all = circled ? [...points, circled] : points;
  const most = Math.max(...all.map(get)) || 1;
  const low = Math.min(0, ...all.map(({ snr }) => snr));
  const high = Math.max(low + 1, ...all.map(({ snr }) => snr));
  const y = (snr: number) => 1 - (snr - low) / (high - low);
  const across = ticks(0, most, 6).map((value, index) => {
    const label = format(value).replace(/\.0+ /, ' ');
    const css = index % 2 === 1 ? 'rq-muted rq-odd' : 'rq-muted';
    return `<text class="${css}" x="${percent(value / most)}" y="100%" dy="22" text-anchor="middle">${label}</text>`;
  });
  const decibels = ticks(low, high, 5).map(
    (snr) =>
      `<line class="rq-grid" x2="100%" y1="${percent(y(snr))}" y2="${percent(y(snr))}"/>` +
      `<text class="rq-muted" x="0" dx="-8" y="${percent(y(snr))}" dy="4" text-anchor="end">${snr} dB</text>`,
  );
  const line = points.map(
    (point) => `${((100 * get(point)) / most).toFixed(2)},${(100 * y(point.snr)).toFixed(2)}`,
  );
  const dot = circled
    ? `<circle class="rq-alone" cx="${percent(get(circled) / most)}" cy="${percent(y(circled.snr))}" r="5"/>`
    : '';
  const tell = (point: FrontierPoint) => `${format(get(point))} at ${point.snr.toFixed(1)} dB`;
  const label =
    `${title} against accuracy, from ${tell(points[0]!)} to ${tell(points.at(-1)!)}` +
    (circled ? `; chosen: ${tell(circled)}` : '');
  return (
    `<svg class="rq-chart rq-frontier" role="img" aria-label="${label}">` +
    `${decibels.join('')}${across.join('')}` +
    '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" overflow="visible">' +
    `<polyline class="rq-curve" vector-effect="non-scaling-stroke" points="${line.join(' ')}"/></svg>${dot}</svg>`
  );
}

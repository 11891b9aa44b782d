// Draws the attempts of a search: what they cost, and how good they are.

import type { SearchReport } from '../base/search_report.js';
import { formatValue } from '../metrics/unit.js';
import { frontierAxes, type FrontierCost } from './analysis_charts.js';
import { escapeHtml, percent, ticks } from './chart.js';

/**
 * Draws the value of the metric against bytes or, `by` 'ms', milliseconds: a dot for each attempt, a line through
 * those that no other one beats, a ring around the chosen one, and a dashed line at the floor. SVG for a page
 * with {@link chartStyle}; empty text without two attempts of finite values.
 */
export function searchChart(report: SearchReport, by: FrontierCost = 'bytes'): string {
  const { attempts, best, floor, frontier, metric } = report;
  const drawn = attempts.filter((one) => Number.isFinite(one.value) && Number.isFinite(one[by]));
  if (drawn.length < 2) return '';
  const { title, format } = frontierAxes[by];
  const most = Math.max(...drawn.map((one) => one[by])) * 1.05 || 1;
  const values = [...drawn.map(({ value }) => value), ...(floor === undefined ? [] : [floor])];
  const low = Math.min(...values);
  const high = Math.max(...values) > low ? Math.max(...values) : low + 1;
  const x = (cost: number) => percent(cost / most);
  const y = (value: number) => percent(1 - (value - low) / (high - low));
  const value = (number: number) => escapeHtml(formatValue(number, metric.unit));
  const across = ticks(0, most, 3).map((cost, index) => {
    const css = index % 2 === 1 ? 'rq-muted rq-odd' : 'rq-muted';
    const label = format(cost).replace(/\.0+ /, ' ');
    return `<text class="${css}" x="${x(cost)}" y="100%" dy="22" text-anchor="middle">${label}</text>`;
  });
  const up = ticks(low, high, 5).map(
    (one) =>
      `<line class="rq-grid" x2="100%" y1="${y(one)}" y2="${y(one)}"/>` +
      `<text class="rq-muted" x="0" dx="-8" y="${y(one)}" dy="4" text-anchor="end">${value(one).replace(/\.0+ /, ' ')}</text>`,
  );
  const bound =
    floor === undefined
      ? ''
      : `<line class="rq-floor" x2="100%" y1="${y(floor)}" y2="${y(floor)}"/>`;
  const inside = frontier[by].filter((point) => Number.isFinite(point.value));
  const line = inside.map(
    (point) =>
      `${((100 * point.cost) / most).toFixed(2)},${(100 * (1 - (point.value - low) / (high - low))).toFixed(2)}`,
  );
  const dots = drawn.map(
    (one) => `<circle class="rq-int8" cx="${x(one[by])}" cy="${y(one.value)}" r="3"/>`,
  );
  const chosen = attempts[best];
  const ring =
    chosen && drawn.includes(chosen)
      ? `<circle class="rq-alone" fill-opacity="0" cx="${x(chosen[by])}" cy="${y(chosen.value)}" r="7"/>`
      : '';
  const label =
    `${title} against ${escapeHtml(metric.name)}, ${drawn.length} attempts` +
    (chosen ? `; best: ${format(chosen[by])} at ${value(chosen.value)}` : '') +
    (floor === undefined ? '' : `; the floor is ${value(floor)}`);
  return (
    `<svg class="rq-chart rq-frontier" role="img" aria-label="${label}">${up.join('')}${across.join('')}${bound}` +
    '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" overflow="visible">' +
    `<polyline class="rq-curve" vector-effect="non-scaling-stroke" points="${line.join(' ')}"/></svg>` +
    `${dots.join('')}${ring}</svg>`
  );
}

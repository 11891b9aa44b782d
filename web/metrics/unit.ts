// The values of metrics: their units, their order, and their form in texts.

/** `share`: in [0, 1], whose drops are given in points (hundredths); `dB`; `number`: in a unit of its own. */
export type MetricUnit = 'share' | 'dB' | 'number';

/** Whether `a` is a better value than `b`. NaN is worse than any number. */
export function isBetter(a: number, b: number, better: 'higher' | 'lower'): boolean {
  if (Number.isNaN(a)) return false;
  if (Number.isNaN(b)) return true;
  return better === 'higher' ? a > b : a < b;
}

/** A value with its unit, such as "71.30 %". */
export function formatValue(value: number, unit: MetricUnit): string {
  if (Number.isNaN(value)) return 'none';
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : '-infinite';
  if (unit === 'share') return `${(100 * value).toFixed(2)} %`;
  return unit === 'dB' ? `${value.toFixed(1)} dB` : String(Number(value.toPrecision(5)));
}

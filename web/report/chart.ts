// Helpers that charts share. Charts are HTML and SVG text that fills its container at any width: positions
// are percentages, so that text never shrinks with the drawing. Colors come from the CSS variables of
// chartStyle, so that one drawing serves light and dark pages. Charts load nothing and run no script.

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

/** A name from a model as HTML, which breaks between its words if it must. */
export function nameHtml(name: string): string {
  return name
    .split(/(?<=[^/\\][/\\])(?=.)|(?<=_)(?=[A-Za-z])|(?<=[a-z0-9])(?=[A-Z])/)
    .map(escapeHtml)
    .join('<wbr>');
}

/** CSS of the charts; a page may set other values for the variables. */
export const chartStyle = `
:root { --rq-text: #1d2433; --rq-muted: #5d6678; --rq-line: #dfe3ea; --rq-float: #7d8799;
  --rq-int8: #3366d6; --rq-alone: #c2600c; }
@media (prefers-color-scheme: dark) {
  :root { --rq-text: #e6e9ef; --rq-muted: #a3acbb; --rq-line: #343b4a; --rq-float: #8d97a8;
    --rq-int8: #7ea4ff; --rq-alone: #f5a755; } }
.rq-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
.rq-chart { display: block; color: var(--rq-text); font: 13px/1.35 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; }
.rq-chart text { fill: var(--rq-text); }
.rq-chart .rq-muted { color: var(--rq-muted); fill: var(--rq-muted); }
.rq-chart .rq-grid { stroke: var(--rq-line); stroke-width: 1; }
.rq-chart .rq-float { fill: var(--rq-float); }
.rq-chart .rq-int8 { fill: var(--rq-int8); }
.rq-chart .rq-alone { fill: Canvas; stroke: var(--rq-alone); stroke-width: 2; }
.rq-chart .rq-curve { fill: none; stroke: var(--rq-int8); stroke-width: 2; }
.rq-chart .rq-floor { stroke: var(--rq-alone); stroke-width: 1.5; stroke-dasharray: 6 4; }
.rq-bars { container-type: inline-size; position: relative; }
.rq-bars ul { list-style: none; margin: 0; padding: 0; }
.rq-bars .rq-key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; color: var(--rq-muted); }
.rq-bars .rq-key span { display: inline-flex; align-items: center; gap: 6px; }
.rq-bars .rq-row { display: grid; grid-template-columns: minmax(0, min(36%, 20em)) minmax(0, 1fr) 5em;
  column-gap: 10px; align-items: center; }
.rq-bars .rq-name { text-align: right; overflow-wrap: anywhere; }
.rq-bars .rq-plot { display: block; width: 100%; overflow: visible; }
.rq-bars .rq-value { color: var(--rq-muted); white-space: nowrap; }
.rq-bars .rq-value span { display: block; line-height: 20px; }
.rq-bars .rq-pair { padding: 7px 0; }
@container (max-width: 560px) {
  .rq-bars .rq-row { grid-template-columns: minmax(0, 1fr) 5em; }
  .rq-bars .rq-name { grid-column: 1 / -1; text-align: left; padding-top: 4px; }
}
.rq-frontier { box-sizing: border-box; width: calc(100% - 74px); height: 230px; margin: 12px 26px 32px 48px;
  overflow: visible; }
@media (max-width: 375px) { .rq-frontier .rq-odd { display: none; } }
.rq-histogram { max-width: 100%; height: auto; }
`;

/** Round steps for an axis: 1, 2 or 5 times a power of ten, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)!;
  const result: number[] = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) {
    result.push(Number((index * step).toPrecision(12)));
  }
  return result;
}

/** A share as a percentage for an attribute. */
export function percent(share: number): string {
  return `${Number((100 * share).toFixed(2))}%`;
}

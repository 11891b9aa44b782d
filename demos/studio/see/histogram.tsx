// The numbers that an operator writes, as a histogram with the grid drawn on it.

import type { TensorRecord } from 'requant';
import { formatNumber, formatShare } from 'requant/report';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Histogram, histogramOf, numbersOf } from '../engine/values.js';
import { samples } from '../state/store.js';
import { colourOf, theme } from '../state/theme.js';
import { describe } from '../watch/problems.js';

const [WIDTH, HEIGHT] = [320, 120];
/** More codes than these are drawn by their ends alone. */
const MOST_LINES = 64;

/** The reals of the codes of a slot with one scale. */
function gridOf(slot: TensorRecord | null | undefined): number[] | undefined {
  const { scale, offset = 0, quantMin, quantMax } = slot ?? {};
  if (scale?.length !== 1 || quantMin === undefined || quantMax === undefined) return undefined;
  const zero = typeof offset === 'number' ? offset : (offset[0] ?? 0);
  const real = (code: number) => scale[0]! * (code - zero);
  const count = quantMax - quantMin + 1;
  if (count > MOST_LINES) return [real(quantMin), real(quantMax)];
  return Array.from({ length: count }, (_, at) => real(quantMin + at));
}

function draw(
  context: CanvasRenderingContext2D,
  { from, to, counts }: Histogram,
  grid: readonly number[] | undefined,
): void {
  const low = Math.min(from, grid?.[0] ?? from);
  const high = Math.max(to, grid?.at(-1) ?? to);
  const x = (value: number) => ((value - low) / (high - low)) * (WIDTH - 2) + 1;
  const most = Math.log1p(Math.max(1, ...counts));
  context.clearRect(0, 0, WIDTH, HEIGHT);
  context.fillStyle = colourOf('--accent');
  const step = (to - from) / counts.length;
  counts.forEach((count, at) => {
    const tall = (Math.log1p(count) / most) * (HEIGHT - 8);
    const left = x(from + at * step);
    context.fillRect(
      left,
      HEIGHT - tall,
      Math.max(1, x(from + (at + 1) * step) - left - 0.5),
      tall,
    );
  });
  context.fillStyle = colourOf('--warm');
  for (const real of grid ?? []) context.fillRect(x(real) - 0.75, 0, 1.5, HEIGHT);
}

export function Values(props: {
  value: string;
  slot: TensorRecord | null | undefined;
  /** The activation that is computed in the same step. */
  activation: string | undefined;
}) {
  const { value, slot, activation } = props;
  const [shown, setShown] = useState<{ value: string; lists: Float32Array[] } | undefined>();
  const [failed, setFailed] = useState('');
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  const lists = shown?.value === value ? shown.lists : undefined;
  const grid = gridOf(slot);
  const ends = grid && ([grid[0]!, grid.at(-1)!] as const);
  const histogram = lists && lists.length > 0 ? histogramOf(lists, ends) : undefined;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (context && histogram) draw(context, histogram, grid);
  }, [lists, slot, colours]);
  useEffect(() => setFailed(''), [value]);
  if (!samples.value) return null;
  const show = () => {
    numbersOf(value).then(
      (numbers) => setShown({ value, lists: numbers }),
      (error: unknown) => setFailed(describe(error).text),
    );
  };
  const words =
    histogram &&
    [
      `Numbers from ${formatNumber(histogram.from)} to ${formatNumber(histogram.to)}`,
      ends
        ? `the grid goes from ${formatNumber(ends[0])} to ${formatNumber(ends[1])}, ${formatShare(histogram.outside)} lie outside${activation ? `, as ${activation} cuts them off` : ''}`
        : '',
    ]
      .filter(Boolean)
      .join('; ');
  return (
    <section class="stack">
      <h3>What it writes</h3>
      {histogram && (
        <figure class="histogram">
          <canvas
            ref={canvas}
            width={WIDTH}
            height={HEIGHT}
            role="img"
            aria-label={`Histogram of ${value}`}
          />
          <figcaption class="small muted">
            {words}. Bars count on a logarithmic scale
            {grid
              ? grid.length > 2
                ? '; lines are codes'
                : '; lines are the first and the last code'
              : ''}
            .
          </figcaption>
        </figure>
      )}
      {failed && <p class="small bad">{failed}</p>}
      {!histogram && (
        <div class="buttons">
          <button type="button" class="button small" onClick={show}>
            Show its numbers
          </button>
        </div>
      )}
    </section>
  );
}

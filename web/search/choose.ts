// Chooses among attempts.

import type { SearchAttempt, SearchPoint } from '../base/search_report.js';
import { isBetter } from '../metrics/unit.js';
import type { MetricValues } from '../analyze/compare_report.js';

/** How attempts are ranked. */
export interface Ranking {
  better: MetricValues['better'];
  by: 'bytes' | 'ms';
  /** Whether there is a floor: then the cheapest attempt is the best one, otherwise that of the best value. */
  floor: boolean;
}

/** Whether an attempt is good enough and cheap enough. */
export const isMet = ({ meetsFloor, fitsBudget }: SearchAttempt): boolean =>
  meetsFloor && fitsBudget;

/** Files whose sizes differ by no more than this share count as equally large: 16-bit slots cost few bytes. */
const SAME_SIZE = 0.01;

/** Operators that are slower than those of 8 bits. */
const slow = ({ wideOperators, floatOperators }: SearchAttempt) => wideOperators + floatOperators;

/** The largest cost that counts as no more than that of an attempt. */
export const costLimit = (attempt: SearchAttempt, by: Ranking['by']): number =>
  by === 'bytes' ? attempt.bytes * (1 + SAME_SIZE) : attempt.ms;

/** The first of the items that no other one beats. */
function first<T>(items: readonly T[], beats: (a: T, b: T) => boolean): T | undefined {
  return items.reduce<T | undefined>(
    (best, item) => (best === undefined || beats(item, best) ? item : best),
    undefined,
  );
}

function cheapest(met: readonly SearchAttempt[], by: Ranking['by']): SearchAttempt | undefined {
  const least = first(met, (a, b) => a[by] < b[by]);
  if (!least || by === 'ms') return least;
  const same = met.filter(({ bytes }) => bytes <= costLimit(least, by));
  return first(same, (a, b) => slow(a) < slow(b) || (slow(a) === slow(b) && a.bytes < b.bytes));
}

/**
 * Index of the best attempt; undefined where none was possible. With a floor it is the cheapest one that is met: of
 * files of nearly the same size that with the fewest operators of 16 bits and in float. Otherwise, and where none
 * is met, it is that of the best value, if possible within the budget.
 */
export function bestOf(attempts: readonly SearchAttempt[], ranking: Ranking): number | undefined {
  const { better, by, floor } = ranking;
  const possible = attempts.filter(({ error }) => error === undefined);
  const met = possible.filter(isMet);
  const fitting = possible.filter(({ fitsBudget }) => fitsBudget);
  const pool = met.length > 0 ? met : fitting.length > 0 ? fitting : possible;
  const best =
    floor && met.length > 0
      ? cheapest(met, by)
      : first(
          pool,
          (a, b) => isBetter(a.value, b.value, better) || (a.value === b.value && a[by] < b[by]),
        );
  return best && attempts.indexOf(best);
}

/** The attempts that no other one beats in both cost and value, from the cheapest to the best. */
export function frontierOf(
  attempts: readonly SearchAttempt[],
  by: 'bytes' | 'ms',
  better: MetricValues['better'],
): SearchPoint[] {
  const points = attempts
    .map((one, attempt): SearchPoint => ({ attempt, cost: one[by], value: one.value }))
    .filter(({ attempt, value }) => attempts[attempt]!.error === undefined && !Number.isNaN(value))
    .sort((a, b) => a.cost - b.cost || (isBetter(a.value, b.value, better) ? -1 : 1));
  let best: number | undefined;
  return points.filter(({ value }) => {
    const ahead = best === undefined || isBetter(value, best, better);
    if (ahead) best = value;
    return ahead;
  });
}

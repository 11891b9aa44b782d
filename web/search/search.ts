// Finds the cheapest configuration that is good enough, or the best one within a budget.
//
//   1. Every format, from the dearest to the cheapest, with the caller's recovery.
//   2. Formats that fail and would be cheaper than what is good enough, with further recovery methods, from
//      cheap to dear.
//   3. Single operators of a format that fails get the bits of a dearer one, or stay in float. Operators are
//      measured one by one; the smallest number of them that is enough is found by doubling and bisecting.

import type { BitFormat, SearchAttempt } from '../base/search_report.js';
import { isBetter } from '../metrics/unit.js';
import { type Ranking, bestOf, costLimit, isMet } from './choose.js';
import { type OperatorCost, type OperatorGroup, inOrder } from './operators.js';
import { type Candidate, byCost, dominates, recoveries } from './recoveries.js';
import type { RecoveryLevel, SearchOptions } from './search_options.js';

/** What a search asks for. All of it may be results of earlier steps. */
export interface Laboratory {
  attempt(candidate: Candidate): Promise<SearchAttempt>;
  /** The operators that this format quantizes, and the cost of each. */
  operators(format: BitFormat): Promise<{ groups: OperatorGroup[]; costs: OperatorCost[] }>;
  /** Whether no further attempt may be made. */
  full(attempts: number): boolean;
}

/** @internal The formats of a search that names none. */
export const defaultFormats: readonly BitFormat[] = ['W8A8', 'W4A8', 'W8A16'];

/** The search is over before its end. */
class Full extends Error {}

/** One search. */
export class Search {
  readonly attempts: SearchAttempt[] = [];
  readonly #laboratory: Laboratory;
  readonly #ranking: Ranking;
  readonly #formats: readonly BitFormat[];
  readonly #levels: readonly RecoveryLevel[];
  readonly #float: boolean;
  readonly #byTime: boolean;

  /** @param limitsTime Whether the budget has milliseconds. */
  constructor(
    laboratory: Laboratory,
    ranking: Ranking,
    options: SearchOptions,
    limitsTime: boolean,
  ) {
    this.#laboratory = laboratory;
    this.#ranking = ranking;
    this.#formats = byCost(options.formats ?? defaultFormats, ranking.by);
    const levels = Object.keys(recoveries) as RecoveryLevel[];
    this.#levels = levels.filter((level) => (options.recoveries ?? levels).includes(level));
    this.#float = options.float ?? true;
    this.#byTime = ranking.by === 'ms' || limitsTime;
  }

  async run(): Promise<void> {
    try {
      for (const format of this.#formats) await this.#try({ format, recovery: this.#levels[0]! });
      if (this.#ranking.floor) await this.#meetFloor();
      else await this.#fillBudget();
    } catch (error) {
      if (!(error instanceof Full)) throw error;
    }
  }

  get best(): number | undefined {
    return bestOf(this.attempts, this.#ranking);
  }

  async #try(candidate: Candidate): Promise<SearchAttempt> {
    const { format, recovery, raised } = candidate;
    const known = this.attempts.find(
      (one) =>
        one.format === format &&
        one.recovery === recovery &&
        one.raised?.to === raised?.to &&
        one.raised?.operators.length === raised?.operators.length,
    );
    if (known) return known;
    if (this.#laboratory.full(this.attempts.length)) throw new Full();
    const attempt = await this.#laboratory.attempt(candidate);
    this.attempts.push(attempt);
    return attempt;
  }

  /** The attempts of a format whose operators all have its bits. */
  #of(format: BitFormat): SearchAttempt[] {
    return this.attempts.filter((one) => one.format === format && !one.raised);
  }

  #meets(format: BitFormat): boolean {
    return this.#of(format).some(({ meetsFloor }) => meetsFloor);
  }

  /** The recovery of a format with the best value, of the first one and those that do not take long. */
  #recoveryOf(format: BitFormat): string {
    const quick = this.#of(format).filter(
      ({ recovery, error }) =>
        error === undefined &&
        (recovery === this.#levels[0] || !recoveries[recovery as RecoveryLevel].dear),
    );
    const { better } = this.#ranking;
    return quick.reduce(
      (best, one) => (isBetter(one.value, best.value, better) ? one : best),
      quick[0] ?? this.#of(format)[0]!,
    ).recovery;
  }

  /** The formats that are cheaper than the cheapest one that meets the floor; all, if none does. */
  #cheaper(): readonly BitFormat[] {
    const last = this.#formats.map((format) => this.#meets(format)).lastIndexOf(true);
    return this.#formats.slice(last + 1);
  }

  async #meetFloor(): Promise<void> {
    const hopeless: BitFormat[] = [];
    for (const format of this.#cheaper()) {
      if (hopeless.some((one) => dominates(one, format))) continue;
      for (const recovery of this.#levels.slice(1)) {
        if (this.#meets(format)) break;
        await this.#try({ format, recovery });
      }
      if (!this.#meets(format)) hopeless.push(format);
    }
    for (const format of this.#cheaper()) {
      const target = this.#formats
        .filter((one) => dominates(one, format) && this.#meets(one))
        .at(-1);
      const ways: (BitFormat | 'float')[] = target ? [target] : [];
      if (this.#float && (!target || this.#byTime)) ways.push('float');
      for (const to of ways) {
        const best = this.#recoveryOf(format);
        const first = this.#levels[0]!;
        const met = await this.#raise(format, first, to);
        if (!met && best !== first) await this.#raise(format, best, to);
      }
    }
  }

  /** Whether an attempt costs more than the best one that is met: with more operators it would cost still more. */
  #tooDear(attempt: SearchAttempt): boolean {
    const best = this.best === undefined ? undefined : this.attempts[this.best]!;
    if (!best || !isMet(best)) return !attempt.fitsBudget;
    return attempt[this.#ranking.by] > costLimit(best, this.#ranking.by);
  }

  /** Gives as few operators as possible other bits, and tells whether that meets the floor. */
  async #raise(format: BitFormat, recovery: string, to: BitFormat | 'float'): Promise<boolean> {
    const { groups, costs } = await this.#laboratory.operators(format);
    const order = inOrder(groups, costs, format, to);
    const tryFirst = (count: number) =>
      this.#try({
        format,
        recovery,
        raised: { to, operators: order.slice(0, count).flatMap(({ members }) => members) },
      });
    // With all operators it would be the other format, or the float model.
    const most = order.length - 1;
    let low = 0;
    let high: number | undefined;
    for (let count = 1; low < most && high === undefined; count = Math.min(2 * count, most)) {
      const attempt = await tryFirst(count);
      if (attempt.meetsFloor) high = count;
      else if (this.#tooDear(attempt)) return false;
      else low = count;
    }
    if (high === undefined) return false;
    while (high - low > 1) {
      const middle: number = (low + high) >> 1;
      if ((await tryFirst(middle)).meetsFloor) high = middle;
      else low = middle;
    }
    return true;
  }

  /** Without a floor: more recovery for the best format that fits, then more bits for it as long as they fit. */
  async #fillBudget(): Promise<void> {
    const { best } = this;
    if (best === undefined || !isMet(this.attempts[best]!)) return;
    const { format } = this.attempts[best]!;
    for (const recovery of this.#levels.slice(1)) await this.#try({ format, recovery });
    const recovery = this.#recoveryOf(format);
    const dearer: (BitFormat | 'float')[] = this.#formats.filter((one) => dominates(one, format));
    if (this.#float) dearer.push('float');
    for (const to of dearer) {
      const { groups, costs } = await this.#laboratory.operators(format);
      const order = inOrder(groups, costs, format, to);
      let [low, high] = [0, order.length];
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        const operators = order.slice(0, middle).flatMap(({ members }) => members);
        const { fitsBudget } = await this.#try({ format, recovery, raised: { to, operators } });
        if (fitsBudget) low = middle;
        else high = middle;
      }
    }
  }
}

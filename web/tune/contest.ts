// Runs two sessions of one model in turns and finds which is faster, step by step and as a whole.

import { median } from '../base/median.js';
import type { Feeds } from '../engine/tensors.js';
import type { PlanStep } from '../session/plan.js';
import type { InferenceSession } from '../session/session.js';

/** The least number of runs of each session of which a median is taken. */
const ROUNDS = 5;
/** A step that is so many times slower in its second run is given up. */
const HOPELESS = 4;
/** Milliseconds. Reading the clock would be a large part of a shorter step. */
const SHORT = 0.004;

/** @internal A session whose runs tell how long every step took. */
export class Measured {
  #before: number[] = [];
  readonly session: InferenceSession;

  constructor(session: InferenceSession) {
    this.session = session;
  }

  get steps(): readonly PlanStep[] {
    return this.session.plan()?.steps ?? [];
  }

  /** Milliseconds of every step, and of the whole run. */
  async run(feeds: Feeds): Promise<{ steps: number[]; all: number }> {
    const start = performance.now();
    await this.session.run(feeds);
    const all = performance.now() - start;
    const sums = this.session.profile().map(({ milliseconds }) => milliseconds);
    const steps = sums.map((sum, step) => sum - (this.#before[step] ?? 0));
    this.#before = sums;
    return { steps, all };
  }
}

/** @internal The conditions under which two sessions are measured. */
export interface Rules {
  feeds: Feeds;
  /** The time, by performance.now(), after which no further round begins, once there were enough. */
  until: number;
  /** Called after every round; an error that it throws ends the contest. */
  pause: () => Promise<void>;
}

type Times = Awaited<ReturnType<Measured['run']>>;

/** Runs each session once. They alternate in starting, since the second finds the machine warmer. */
async function takeTurn(
  usual: Measured,
  tried: Measured,
  round: number,
  { feeds, pause }: Rules,
): Promise<{ usual: Times; tried: Times }> {
  const usualFirst = round % 2 === 0;
  const first = await (usualFirst ? usual : tried).run(feeds);
  const second = await (usualFirst ? tried : usual).run(feeds);
  await pause();
  return usualFirst ? { usual: first, tried: second } : { usual: second, tried: first };
}

/**
 * @internal How many times as fast `tried` is in the steps in which it `differs`, by their `tuning`: the
 * median over all steps of that shape and all rounds.
 */
export async function compareSteps(
  usual: Measured,
  tried: Measured,
  differs: (usual: PlanStep, tried: PlanStep) => boolean,
  rules: Rules,
): Promise<Map<string, number>> {
  await tried.run(rules.feeds);
  const triedSteps = tried.steps;
  const contested = new Map<number, string>();
  for (const [at, step] of usual.steps.entries()) {
    const other = triedSteps[at];
    if (step.tuning !== undefined && other && differs(step, other)) contested.set(at, step.tuning);
  }
  const ratios = new Map<string, number[]>();
  const usually = new Map<string, number[]>();
  for (let round = -1; contested.size > 0; round++) {
    if (round >= ROUNDS && performance.now() > rules.until) break;
    const times = await takeTurn(usual, tried, round, rules);
    for (const [at, tuning] of contested) {
      const ratio = times.usual.steps[at]! / times.tried.steps[at]!;
      if (round < 0) {
        // The first run of code does not count; a step that is far behind is not run again.
        if (ratio < 1 / HOPELESS) contested.delete(at);
      } else if (Number.isFinite(ratio)) {
        ratios.set(tuning, [...(ratios.get(tuning) ?? []), ratio]);
        usually.set(tuning, [...(usually.get(tuning) ?? []), times.usual.steps[at]!]);
      }
    }
  }
  const long = [...ratios].filter(([tuning]) => median(usually.get(tuning)!) >= SHORT);
  return new Map(long.map(([tuning, list]) => [tuning, median(list)]));
}

/** @internal How many times as fast a whole run of `tried` is, at the median. */
export async function compareWhole(
  usual: Measured,
  tried: Measured,
  rules: Rules,
): Promise<number> {
  const ratios: number[] = [];
  for (let round = -2; round < 2 * ROUNDS || performance.now() < rules.until; round++) {
    const times = await takeTurn(usual, tried, round, rules);
    if (round >= 0) ratios.push(times.usual.all / times.tried.all);
  }
  return median(ratios);
}

// Measures, on the user's device, which kernel is the fastest for every operator of a model.

import { Breather, throwIfAborted } from './abort.js';
import { type EngineInfo, engineInfo } from './engine.js';
import { invalidArgument, show } from './errors.js';
import { type Feeds, call } from './heap.js';
import { Model } from './model.js';
import { checkOptions, withoutUndefined } from './options.js';
import { QuantizedModel } from './quantize.js';
import { InferenceSession, type PlanStep } from './session.js';
import { type PlanningOptions, planningOptionKinds } from './session_options.js';
import {
  type Tuning,
  type TuningRecord,
  checkTuning,
  deviceName,
  mergeTunings,
  readTuning,
  writeTuning,
} from './tuning.js';

/** Progress of {@link tune}: milliseconds of the budget. */
export interface TuneProgress {
  done: number;
  total: number;
  /** The kernel that is measured, or "1 of 4 threads". */
  kernel: string;
}

/** Options of {@link tune}. */
export interface TuneOptions extends Omit<PlanningOptions, 'kernels'> {
  /** Inputs of the shapes to tune for; their values do not matter. */
  feeds: Feeds;
  /** Milliseconds to measure for, about. Default 3000. */
  budget?: number;
  /**
   * Where records are kept: a file in Node, a key in IndexedDB in browsers. What is there for this
   * device is not measured again.
   */
  cache?: string;
  /** At most so many threads; default all that the model was loaded with. */
  numThreads?: number;
  onProgress?: (progress: TuneProgress) => void;
  signal?: AbortSignal;
}

/** A shape of operator for which there is a choice. */
export interface TunedStep {
  /** Its name in records. */
  tuning: string;
  /** The kernel without records, and the fastest. */
  before: string;
  kernel: string;
  /** How many times as fast, at the median of interleaved runs. */
  faster: number;
  /** Where fewer threads than all divide it from now on: how many. */
  threads?: number;
}

/** What {@link tune} found. */
export interface TuneResult {
  /** For {@link SessionOptions.tuning}: what was given or kept, and what is new. */
  tuning: Tuning;
  /** What was measured now. */
  steps: TunedStep[];
  /** How many times as fast the whole model is, at the median of interleaved runs; 1: nothing changed. */
  faster: number;
}

/** Below this a difference may be noise. */
const WORTH = 1.05;
const ROUNDS = 5;
/** A kernel so many times slower in its second run is given up. */
const HOPELESS = 4;

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

/** A session whose runs say how long every step took. */
class Measured {
  #before: number[] = [];
  readonly session: InferenceSession;

  constructor(session: InferenceSession) {
    this.session = session;
  }

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

/**
 * Finds the fastest kernels for a model on this device, operator by operator, by running it with each of
 * those that can be chosen, in turns with the usual one; then whether fewer threads do some operators sooner. Give `tuning` of the result to
 * {@link InferenceSession.create}. Results stay the same bits.
 *
 * @throws RequantError `INVALID_ARGUMENT`, `ABORTED`, or as {@link InferenceSession.create}.
 * @example
 * const { tuning, faster } = await tune(model, { feeds, cache: 'tuning.json' });
 * const session = await InferenceSession.create(model, { tuning });
 */
export async function tune(
  source: Model | QuantizedModel,
  options: TuneOptions,
): Promise<TuneResult> {
  checkOptions(
    options,
    {
      ...planningOptionKinds,
      feeds: 'object',
      budget: 'number',
      cache: 'string',
      numThreads: 'any',
      onProgress: 'function',
      signal: 'any',
    },
    'options',
  );
  const { feeds, budget = 3000, cache, onProgress, signal, tuning: given, ...planning } = options;
  if (!feeds) throw invalidArgument('feeds are missing', 'options.feeds');
  if (!(budget > 0)) throw invalidArgument(`the budget is ${show(budget)}`, 'options.budget');
  const model = source instanceof QuantizedModel ? source.integerModel : source;
  if (!(model instanceof Model)) {
    throw invalidArgument(`this needs a model, not ${show(source)}`, 'model', 'Use loadModel().');
  }
  throwIfAborted(signal);
  const { core } = model.handle;
  const device = await deviceName(core);
  let known: Tuning = cache === undefined ? { version: 1, devices: {} } : await readTuning(cache);
  if (given) {
    checkTuning(given, 'options.tuning');
    known = mergeTunings(known, given);
  }

  const open = async (more: {
    kernels?: Record<string, string>;
    tuning?: Tuning;
    numThreads?: number;
  }) =>
    new Measured(
      await InferenceSession.create(
        source,
        withoutUndefined({ ...planning, ...more, profile: true }) as typeof more,
      ),
    );
  const sessions: Measured[] = [];
  const close = async () => {
    for (const { session } of sessions.splice(0)) await session.release();
  };
  const breather = new Breather(signal);
  try {
    const base = await open({ tuning: known });
    sessions.push(base);
    await base.run(feeds);
    const steps = base.session.plan()?.steps ?? [];
    const wanted = new Set(
      steps.flatMap(({ tuning }) =>
        tuning !== undefined && !known.devices[device]?.[tuning] ? [tuning] : [],
      ),
    );
    const families = new Set([...wanted].map((tuning) => tuning.split(' ', 1)[0]!));
    const kernels = JSON.parse(call(core, () => core.kernels())) as EngineInfo['kernels'];
    const { variant } = await engineInfo();
    const candidates = kernels.filter(
      ({ family, isa, missing }) =>
        families.has(family) &&
        missing === undefined &&
        isa !== 'scalar' &&
        (isa !== 'relaxed' || variant === 'relaxed'),
    );

    const found = new Map<string, TunedStep>();
    for (const { tuning, kernel } of steps) {
      if (tuning === undefined || !wanted.has(tuning)) continue;
      found.set(tuning, { tuning, before: kernel, kernel, faster: 1 });
    }
    const begin = performance.now();
    const most = Math.max(1, ...steps.map(({ threads }) => threads));
    const splits = [1, 2, 4, 8, 16, 32].filter((split) => split < most);
    const contests = candidates.length + splits.length + 1; // and the last comparison
    /** Ratios by step of a session against a candidate that differs from it in some of them. */
    const contest = async (
      against: Measured,
      candidate: Measured,
      label: string,
      differs: (usual: PlanStep, tried: PlanStep) => boolean,
      until: number,
    ): Promise<Map<string, number>> => {
      await candidate.run(feeds);
      const usualSteps = against.session.plan()?.steps ?? [];
      const triedSteps = candidate.session.plan()?.steps ?? [];
      const ratios = new Map<number, number[]>();
      for (const [step, usual] of usualSteps.entries()) {
        const tried = triedSteps[step];
        if (usual.tuning === undefined || !wanted.has(usual.tuning) || !tried) continue;
        if (differs(usual, tried)) ratios.set(step, []);
      }
      for (let round = -1; ratios.size > 0; round++) {
        if (round >= ROUNDS && performance.now() > until) break;
        const first = round % 2 === 0 ? against : candidate;
        const one = await first.run(feeds);
        const other = await (first === against ? candidate : against).run(feeds);
        await breather.breathe(true);
        onProgress?.({
          done: Math.min(performance.now() - begin, budget),
          total: budget,
          kernel: label,
        });
        throwIfAborted(signal);
        const [usual, tried] = first === against ? [one, other] : [other, one];
        if (round < 0) {
          // The first run of code is another matter; what is far behind is not run again.
          for (const step of ratios.keys()) {
            if (tried.steps[step]! > HOPELESS * usual.steps[step]!) ratios.delete(step);
          }
          continue;
        }
        for (const [step, list] of ratios) list.push(usual.steps[step]! / tried.steps[step]!);
      }
      // Steps of the same shape are measured together.
      const byShape = new Map<string, number[]>();
      for (const [step, list] of ratios) {
        const { tuning } = usualSteps[step]!;
        byShape.set(tuning!, [...(byShape.get(tuning!) ?? []), ...list]);
      }
      return new Map(
        [...byShape].map(([tuning, list]) => [tuning, median(list.filter(Number.isFinite))]),
      );
    };
    /** Runs a contest with a session that is there meanwhile only. */
    const measure = async (
      at: number,
      label: string,
      against: Measured,
      options: Parameters<typeof open>[0],
      differs: Parameters<typeof contest>[3],
      keep: (tuning: string, faster: number) => void,
    ) => {
      const candidate = await open(options);
      sessions.push(candidate);
      const until = begin + (budget * (at + 1)) / contests;
      for (const [tuning, faster] of await contest(against, candidate, label, differs, until)) {
        if (faster >= WORTH) keep(tuning, faster);
      }
      await candidate.session.release();
      sessions.pop();
    };
    for (const [at, { family, name }] of candidates.entries()) {
      await measure(
        at,
        name,
        base,
        { kernels: { [family]: name } },
        (usual, tried) => usual.kernel !== tried.kernel,
        (tuning, faster) => {
          const best = found.get(tuning)!;
          if (faster > best.faster) found.set(tuning, { ...best, kernel: name, faster });
        },
      );
    }

    const chosen = (list: readonly TunedStep[]): Tuning =>
      mergeTunings(known, {
        version: 1,
        devices: {
          [device]: Object.fromEntries(
            list.map(({ tuning, kernel, faster, threads }) => [
              tuning,
              withoutUndefined({ kernel, faster, threads }) as TuningRecord,
            ]),
          ),
        },
      });
    if (splits.length > 0) {
      // With these kernels: whether fewer threads than all do some step sooner.
      const all = await open({ tuning: chosen([...found.values()]) });
      sessions.push(all);
      await all.run(feeds);
      const before = new Map([...found].map(([tuning, { faster }]) => [tuning, faster]));
      for (const [at, numThreads] of splits.entries()) {
        await measure(
          candidates.length + at,
          `${numThreads} of ${most} threads`,
          all,
          { tuning: chosen([...found.values()]), numThreads },
          (usual, tried) => usual.threads !== tried.threads && usual.kernel === tried.kernel,
          (tuning, more) => {
            const best = found.get(tuning)!;
            const faster = before.get(tuning)! * more;
            if (faster > best.faster) found.set(tuning, { ...best, faster, threads: numThreads });
          },
        );
      }
    }

    const result = [...found.values()];
    let tuning = chosen(result);
    let faster = 1;
    const differs = ({ kernel, before, threads }: TunedStep) =>
      kernel !== before || threads !== undefined;
    if (result.some(differs)) {
      // Together they may do less than each alone: what is not faster as a whole is not kept.
      const tuned = await open({ tuning });
      sessions.push(tuned);
      const ratios: number[] = [];
      for (let round = -2; round < 2 * ROUNDS || performance.now() < begin + budget; round++) {
        const first = round % 2 === 0 ? base : tuned;
        const one = (await first.run(feeds)).all;
        const other = (await (first === base ? tuned : base).run(feeds)).all;
        await breather.breathe(true);
        if (round >= 0) ratios.push(first === base ? one / other : other / one);
      }
      faster = median(ratios);
      if (faster < 1) {
        for (const step of result) {
          Object.assign(step, { kernel: step.before, faster: 1 });
          delete step.threads;
        }
        tuning = chosen(result);
        faster = 1;
      }
    }
    throwIfAborted(signal);
    if (cache !== undefined && result.length > 0) await writeTuning(cache, tuning);
    onProgress?.({ done: budget, total: budget, kernel: '' });
    return { tuning, steps: result, faster };
  } finally {
    await close();
  }
}

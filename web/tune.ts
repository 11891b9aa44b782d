// Measures, on the user's device, which kernel is the fastest for every operator of a model.

import { Breather, throwIfAborted } from './abort.js';
import { Measured, type Rules, compareSteps, compareWhole } from './contest.js';
import type { Core } from './core.js';
import type { EngineInfo } from './engine.js';
import { invalidArgument, show } from './errors.js';
import { type Feeds, call } from './heap.js';
import { variantOf } from './load_core.js';
import { Model } from './model.js';
import { checkOptions, withoutUndefined } from './options.js';
import { QuantizedModel } from './quantize.js';
import { InferenceSession } from './session.js';
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

type Kernels = EngineInfo['kernels'];
type Planning = Omit<PlanningOptions, 'tuning' | 'kernels'>;
/** What one session has that others have not. */
type Special = Pick<PlanningOptions, 'tuning' | 'kernels'> & { numThreads?: number };

/** What {@link tune} was asked to do, checked. */
interface Task {
  source: Model | QuantizedModel;
  core: Core;
  device: string;
  planning: Planning;
  /** Records that count already; what they have for this device is not measured. */
  known: Tuning;
  feeds: Feeds;
  budget: number;
  onProgress: TuneOptions['onProgress'];
  signal: AbortSignal | undefined;
}

/** One tuning: its sessions, its clock and what it has found. */
class Tuner {
  readonly #task: Task;
  readonly #begin = performance.now();
  readonly #breather: Breather;
  readonly #sessions = new Set<Measured>();
  readonly #found = new Map<string, TunedStep>();
  #contests = 0;
  #over = 0;

  constructor(task: Task) {
    this.#task = task;
    this.#breather = new Breather(task.signal);
  }

  /** All of it. Call close() afterwards, whatever happens. */
  async run(): Promise<TuneResult> {
    const base = await this.#open({ tuning: this.#task.known });
    await base.run(this.#task.feeds);
    for (const { tuning, kernel } of base.steps) {
      if (tuning === undefined || this.#task.known.devices[this.#task.device]?.[tuning]) continue;
      this.#found.set(tuning, { tuning, before: kernel, kernel, faster: 1 });
    }
    const candidates = this.#candidates();
    const most = Math.max(1, ...base.steps.map(({ threads }) => threads));
    const splits = [1, 2, 4, 8, 16, 32].filter((split) => split < most);
    this.#contests = candidates.length + splits.length + 1; // and the last comparison
    for (const kernel of candidates) await this.#tryKernel(base, kernel);
    if (splits.length > 0) await this.#trySplits(splits, most);
    const faster = await this.#holdAgainst(base);
    this.#report(this.#task.budget, '');
    return { tuning: this.#records(), steps: [...this.#found.values()], faster };
  }

  async close(): Promise<void> {
    for (const { session } of this.#sessions) await session.release();
    this.#sessions.clear();
  }

  /** Kernels of this machine that may serve some step. */
  #candidates(): Kernels {
    const { core } = this.#task;
    const families = new Set([...this.#found.keys()].map((tuning) => tuning.split(' ', 1)[0]!));
    const kernels = JSON.parse(call(core, () => core.kernels())) as Kernels;
    return kernels.filter(
      ({ family, isa, missing }) =>
        families.has(family) &&
        missing === undefined &&
        isa !== 'scalar' &&
        (isa !== 'relaxed' || variantOf(core) === 'relaxed'),
    );
  }

  async #tryKernel(base: Measured, { family, name }: Kernels[number]): Promise<void> {
    await this.#contest(
      name,
      base,
      { kernels: { [family]: name } },
      (usual, tried) => {
        return usual.kernel !== tried.kernel;
      },
      (best, faster) => {
        if (faster > best.faster) Object.assign(best, { kernel: name, faster });
      },
    );
  }

  /** With the kernels that were found: whether fewer threads than all do some step sooner. */
  async #trySplits(splits: readonly number[], most: number): Promise<void> {
    const all = await this.#open({ tuning: this.#records() });
    await all.run(this.#task.feeds);
    const before = new Map([...this.#found].map(([tuning, { faster }]) => [tuning, faster]));
    for (const threads of splits) {
      await this.#contest(
        `${threads} of ${most} threads`,
        all,
        { tuning: this.#records(), numThreads: threads },
        (usual, tried) => usual.threads !== tried.threads && usual.kernel === tried.kernel,
        (best, more) => {
          const faster = before.get(best.tuning)! * more;
          if (faster > best.faster) Object.assign(best, { faster, threads });
        },
      );
    }
  }

  /**
   * All that was found, as one session, against the usual one: together it may do less than each alone,
   * and what is not faster as a whole is not kept.
   */
  async #holdAgainst(base: Measured): Promise<number> {
    const steps = [...this.#found.values()];
    if (!steps.some((step) => step.kernel !== step.before || step.threads !== undefined)) return 1;
    const tuned = await this.#open({ tuning: this.#records() });
    const faster = await compareWhole(base, tuned, this.#rules('all of it'));
    if (faster >= 1) return faster;
    for (const step of steps) {
      Object.assign(step, { kernel: step.before, faster: 1 });
      delete step.threads;
    }
    return 1;
  }

  /** A contest of `against` with a session that is there meanwhile only; `keep` what is worth it. */
  async #contest(
    label: string,
    against: Measured,
    special: Special,
    differs: Parameters<typeof compareSteps>[2],
    keep: (best: TunedStep, faster: number) => void,
  ): Promise<void> {
    const candidate = await this.#open(special);
    const wanted: typeof differs = (usual, tried) =>
      this.#found.has(usual.tuning!) && differs(usual, tried);
    const ratios = await compareSteps(against, candidate, wanted, this.#rules(label));
    for (const [tuning, faster] of ratios) {
      if (faster >= WORTH) keep(this.#found.get(tuning)!, faster);
    }
    await candidate.session.release();
    this.#sessions.delete(candidate);
  }

  async #open(special: Special): Promise<Measured> {
    const options = { ...this.#task.planning, ...special, profile: true };
    const session = await InferenceSession.create(
      this.#task.source,
      withoutUndefined(options) as typeof options,
    );
    const measured = new Measured(session);
    this.#sessions.add(measured);
    return measured;
  }

  /** Of the next contest, which gets an equal part of the budget. */
  #rules(label: string): Rules {
    this.#over++;
    return {
      feeds: this.#task.feeds,
      until: this.#begin + (this.#task.budget * this.#over) / this.#contests,
      pause: async () => {
        await this.#breather.breathe(true);
        this.#report(performance.now() - this.#begin, label);
      },
    };
  }

  #report(done: number, kernel: string): void {
    const { budget, onProgress, signal } = this.#task;
    onProgress?.({ done: Math.min(done, budget), total: budget, kernel });
    // After every report, the last one too: who aborts in it means it.
    throwIfAborted(signal);
  }

  /** What was known, and what has been found. */
  #records(): Tuning {
    const records = [...this.#found.values()].map(
      ({ tuning, kernel, faster, threads }): [string, TuningRecord] => [
        tuning,
        withoutUndefined({ kernel, faster, threads }) as TuningRecord,
      ],
    );
    const { known, device } = this.#task;
    return mergeTunings(known, { version: 1, devices: { [device]: Object.fromEntries(records) } });
  }
}

async function checkedTask(source: Model | QuantizedModel, options: TuneOptions): Promise<Task> {
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
  let known: Tuning = cache === undefined ? { version: 1, devices: {} } : await readTuning(cache);
  if (given) {
    checkTuning(given, 'options.tuning');
    known = mergeTunings(known, given);
  }
  const device = await deviceName(core);
  return { source, core, device, planning, known, feeds, budget, onProgress, signal };
}

/**
 * Finds the fastest kernels for a model on this device, operator by operator, by running it with each of
 * those that can be chosen, in turns with the usual one; then whether fewer threads do some operators
 * sooner. Give `tuning` of the result to {@link InferenceSession.create}. Results stay the same bits.
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
  const tuner = new Tuner(await checkedTask(source, options));
  try {
    const result = await tuner.run();
    if (options.cache !== undefined && result.steps.length > 0) {
      await writeTuning(options.cache, result.tuning);
    }
    return result;
  } finally {
    await tuner.close();
  }
}

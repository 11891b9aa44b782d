// Measures, on the user's device, which kernel is the fastest for every operator of a model.

import { Breather, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { checkOptions, withoutUndefined } from '../base/options.js';
import type { Core } from '../core.js';
import type { EngineInfo } from '../engine/engine_info.js';
import { call } from '../engine/heap.js';
import { type Feeds } from '../engine/tensors.js';
import { variantOf } from '../engine/load_core.js';
import { Model } from '../model/model.js';
import { type PlanningOptions, tunableOptionKinds } from '../model/planning.js';
import {
  type Tuning,
  type TuningRecord,
  checkCache,
  checkTuning,
  deviceName,
  mergeTunings,
  readTuning,
  writeTuning,
} from '../model/tuning.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import type { PlanStep } from '../session/plan.js';
import { InferenceSession } from '../session/session.js';
import { Measured, type Rules, compareSteps, compareWhole } from './contest.js';

/** Progress of {@link tune}, in milliseconds of the budget. */
export interface TuneProgress {
  done: number;
  total: number;
  /** The kernel under measurement, or "1 of 4 threads", "panels of 120", "outputs packed". */
  kernel: string;
}

/** Options of {@link tune}. */
export interface TuneOptions extends Omit<PlanningOptions, 'kernels'> {
  /** Inputs of the shapes to tune for; their values do not matter. */
  feeds: Feeds;
  /** About how many milliseconds to measure. Default 3000. */
  budget?: number;
  /**
   * Where records are stored: a file in Node, a key in IndexedDB in browsers. Records of this device are not
   * measured again.
   */
  cache?: string;
  /** The most threads to use; default all that the model was loaded with. */
  numThreads?: number;
  onProgress?: (progress: TuneProgress) => void;
  signal?: AbortSignal;
}

/** A shape of operator for which there is a choice. */
export interface TunedStep {
  /** Its key in records. */
  tuning: string;
  /** The kernel chosen without records, and the fastest. */
  before: string;
  kernel: string;
  /** How many times as fast it is, at the median of interleaved runs. */
  faster: number;
  /** The number of threads to divide it among, if fewer than all are faster. */
  threads?: number;
  /** The number of windows gathered at a time, if another number is faster. */
  panel?: number;
  /** The form of its output, if another form is faster. */
  output?: 'bytes' | 'packed';
}

/** The result of {@link tune}. */
export interface TuneResult {
  /** Records for {@link SessionOptions.tuning}: those given or stored, and new ones. */
  tuning: Tuning;
  /** The steps that were measured now. */
  steps: TunedStep[];
  /** How many times as fast the whole model is, at the median of interleaved runs; 1: nothing changed. */
  faster: number;
}

/** The least ratio that is not taken for noise. */
const WORTH = 1.05;
/** The least ratio for a whole network, whose times vary less. */
const WORTH_WHOLE = 1.02;
/** Numbers of windows that a convolution gathers at a time (ConvGeometry::panel_rows): whole strips of 60. */
const PANELS = [60, 120, 240, 480, 960];
const FORMS = ['packed', 'bytes'] as const;
const FEW_BITS = /_(narrow|lookup|popcount|carry_save)/;

/** Settings that a record may have beside the kernel. */
const SETTINGS = ['threads', 'panel', 'output'] as const;

/** @internal Whether something faster than the usual was found. */
export function isChanged(step: TunedStep): boolean {
  return step.kernel !== step.before || SETTINGS.some((setting) => step[setting] !== undefined);
}

type Kernels = EngineInfo['kernels'];
type Planning = Omit<PlanningOptions, 'tuning' | 'kernels'>;
/** The options that distinguish one session from the others. */
type Special = Pick<PlanningOptions, 'tuning' | 'kernels'> & { numThreads?: number };

/** The checked arguments of {@link tune}. */
interface Task {
  source: Model | QuantizedModel;
  core: Core;
  device: string;
  planning: Planning;
  /** Records that apply already; shapes that they have for this device are not measured. */
  known: Tuning;
  feeds: Feeds;
  budget: number;
  onProgress: TuneOptions['onProgress'];
  signal: AbortSignal | undefined;
}

/** One run of tune(): its sessions, its clock and its findings. */
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

  /** Runs everything. Call close() afterwards, even after an error. */
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
    const panels = [...this.#found.keys()].some((tuning) => tuning.startsWith('conv_'))
      ? PANELS
      : [];
    // Only the kernels for few bits compute values that fit in less than a byte.
    const { compact } = this.#task.planning;
    const forms = !compact && base.steps.some(({ kernel }) => FEW_BITS.test(kernel)) ? FORMS : [];
    // One more for the final comparison.
    this.#contests = candidates.length + panels.length + forms.length + splits.length + 1;
    for (const kernel of candidates) await this.#tryKernel(base, kernel);
    if (panels.length > 0) await this.#tryPanels(panels);
    for (const form of forms) await this.#tryForm(form);
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

  /** Runs contests of sessions that differ in one setting from the best session so far. */
  async #trySettings(
    settings: readonly {
      label: string;
      special: () => Special;
      differs: (usual: PlanStep, tried: PlanStep) => boolean;
      found: Partial<TunedStep>;
    }[],
  ): Promise<void> {
    const all = await this.#open({ tuning: this.#records() });
    await all.run(this.#task.feeds);
    const before = new Map([...this.#found].map(([tuning, { faster }]) => [tuning, faster]));
    for (const { label, special, differs, found } of settings) {
      await this.#contest(label, all, special(), differs, (best, more) => {
        const faster = before.get(best.tuning)! * more;
        if (faster > best.faster) Object.assign(best, { faster, ...found });
      });
    }
    await this.#release(all);
  }

  /** Tries whether fewer threads than all are faster for some steps. */
  async #trySplits(splits: readonly number[], most: number): Promise<void> {
    await this.#trySettings(
      splits.map((threads) => ({
        label: `${threads} of ${most} threads`,
        special: () => ({ tuning: this.#records(), numThreads: threads }),
        differs: (usual, tried) => usual.threads !== tried.threads && usual.kernel === tried.kernel,
        found: { threads },
      })),
    );
  }

  /** Tries whether more or fewer windows gathered at a time suit this machine's caches better. */
  async #tryPanels(panels: readonly number[]): Promise<void> {
    await this.#trySettings(
      panels.map((panel) => ({
        label: `panels of ${panel}`,
        special: () => ({ tuning: this.#records({ panel }) }),
        differs: (usual, tried) => usual.panel !== tried.panel && usual.kernel === tried.kernel,
        found: { panel },
      })),
    );
  }

  /** Tries values of few codes in this form: what one step gains another may lose. */
  async #tryForm(output: (typeof FORMS)[number]): Promise<void> {
    const usual = await this.#open({ tuning: this.#records() });
    const tried = await this.#open({ tuning: this.#records({ output }) });
    await usual.run(this.#task.feeds);
    await tried.run(this.#task.feeds);
    const layouts = ({ steps }: Measured): string =>
      steps.map(({ output: value }) => `${value?.layout} ${value?.packing}`).join();
    const rules = this.#rules(`outputs ${output}`);
    if (layouts(usual) !== layouts(tried)) {
      const faster = await compareWhole(usual, tried, rules);
      if (faster >= WORTH_WHOLE) {
        for (const step of this.#found.values()) Object.assign(step, { output });
      }
    }
    await this.#release(usual);
    await this.#release(tried);
  }

  /**
   * Compares a session of all findings with the usual one: together they may gain less than each alone, and
   * what is not faster as a whole is dropped.
   */
  async #holdAgainst(base: Measured): Promise<number> {
    const steps = [...this.#found.values()];
    if (!steps.some(isChanged)) return 1;
    const tuned = await this.#open({ tuning: this.#records() });
    const faster = await compareWhole(base, tuned, this.#rules('all of it'));
    if (faster >= 1) return faster;
    for (const step of steps) {
      Object.assign(step, { kernel: step.before, faster: 1 });
      for (const setting of SETTINGS) delete step[setting];
    }
    return 1;
  }

  /** Runs a contest of `against` with a temporary session and keeps what is faster. */
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
    await this.#release(candidate);
  }

  async #release(measured: Measured): Promise<void> {
    await measured.session.release();
    this.#sessions.delete(measured);
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

  /** The rules of the next contest, which gets an equal share of the budget. */
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
    // The signal is also checked after the last report, in which the caller may abort.
    throwIfAborted(signal);
  }

  /** All known and found records, with `more` added to each. */
  #records(more: Pick<TunedStep, 'panel' | 'output'> = {}): Tuning {
    const records = [...this.#found.values()].map(
      ({ tuning, before: _, ...found }): [string, TuningRecord] => [tuning, { ...found, ...more }],
    );
    const { known, device } = this.#task;
    return mergeTunings(known, { version: 1, devices: { [device]: Object.fromEntries(records) } });
  }
}

async function checkedTask(source: Model | QuantizedModel, options: TuneOptions): Promise<Task> {
  checkOptions(
    options,
    {
      ...tunableOptionKinds,
      feeds: 'object',
      budget: 'number',
      cache: 'string',
      numThreads: 'any',
      onProgress: 'function',
      signal: 'signal',
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
  if (cache !== undefined) await checkCache(cache);
  let known: Tuning = cache === undefined ? { version: 1, devices: {} } : await readTuning(cache);
  if (given) {
    checkTuning(given, 'options.tuning');
    known = mergeTunings(known, given);
  }
  const device = await deviceName(core);
  return { source, core, device, planning, known, feeds, budget, onProgress, signal };
}

/**
 * Finds the fastest kernels for a model on this device. It runs the model with each kernel that each operator
 * can use, in turns with the usual one, and then checks whether fewer threads are faster for some operators.
 * Give `tuning` of the result to {@link InferenceSession.create}. Results stay the same bits.
 *
 * @throws RequantError `INVALID_ARGUMENT`, `ABORTED`, `SAVE_FAILED` when the cache cannot be written (before
 * anything is measured, where that can be known), or what {@link InferenceSession.create} throws.
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

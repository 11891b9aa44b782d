// Replaces operators by cheaper ones and measures the costs and gains.

import { checkIterable, items, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { median } from '../base/median.js';
import { checkMaxSamples, checkOptions } from '../base/options.js';
import { Model } from '../model/model.js';
import type { StepProfile } from '../session/plan.js';
import { InferenceSession } from '../session/session.js';
import { type CompareSample, compare } from './compare.js';
import type { OutputDifference } from './compare_report.js';

/** Passes that replace operators by cheaper ones, and so change results. */
export const substitutions = [
  'SubstituteSigmoid',
  'SubstituteGelu',
  'SubstituteGeluByTanh',
  'SubstituteSiluByRelu6',
  'FastMath',
] as const;

/** One of {@link substitutions}. */
export type SubstitutionPass = (typeof substitutions)[number];

/** Options of {@link substitute}. */
export interface SubstituteOptions {
  /** Substitutions to make; several run in the order of the passes' table. */
  passes: readonly SubstitutionPass[];
  /** Inputs to measure on, with labels where known. */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** The largest number of samples to use. Default 32. */
  maxSamples?: number;
  /** Timed runs of each of the two networks, in turns. Default 20. */
  runs?: number;
  onProgress?: (progress: { phase: 'compare' | 'time'; done: number; total: number }) => void;
  signal?: AbortSignal;
}

/** One operator that was replaced. */
export interface SubstitutedOperator {
  /** Name of the operator, which the replacement keeps. */
  name: string;
  /** Operator types. */
  before: string;
  after: string;
  /**
   * Error of its result with all substitutions in place: SNR in dB (null: none) and the largest difference.
   */
  snr: number | null;
  maxAbs: number;
  /** The same errors when the operator gets exact inputs. */
  aloneSnr?: number | null;
  aloneMaxAbs?: number;
  /** Mean milliseconds of the operator in a run. */
  beforeMs: number;
  afterMs: number;
}

/** The effect of substitutions on accuracy and speed. */
export interface SubstitutionReport {
  passes: SubstitutionPass[];
  samples: number;
  labelled: number;
  operators: SubstitutedOperator[];
  outputs: OutputDifference[];
  /** Shares in [0, 1] by the first output; accuracies are null without labels. */
  top1: { before: number | null; after: number | null; agreement: number | null };
  /** Medians of one run; ratio > 1: faster than before. */
  latency: { beforeMs: number; afterMs: number; ratio: number };
}

/** Milliseconds of a run by operator name. */
function timeByName(profile: readonly StepProfile[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const { name, milliseconds, runs } of profile) {
    times.set(name, (times.get(name) ?? 0) + (runs > 0 ? milliseconds / runs : 0));
  }
  return times;
}

/** Times both networks in turns: whole runs, then runs measured operator by operator. */
async function time(
  models: readonly [Model, Model],
  samples: readonly CompareSample[],
  runs: number,
  tick: (done: number) => void,
  signal?: AbortSignal,
) {
  const sessions: InferenceSession[] = [];
  try {
    for (const profile of [false, true]) {
      for (const model of models) sessions.push(await InferenceSession.create(model, { profile }));
    }
    const times: number[][] = [[], [], [], []];
    // The first run is not timed: it loads and plans.
    for (let run = -1; run < runs; run++) {
      throwIfAborted(signal);
      const { feeds } = samples[Math.max(run, 0) % samples.length]!;
      for (const [index, session] of sessions.entries()) {
        const start = performance.now();
        await session.run(feeds);
        if (run >= 0) times[index]!.push(performance.now() - start);
      }
      tick(run + 1);
    }
    const [before, after] = [median(times[0]!), median(times[1]!)];
    return {
      latency: { beforeMs: before, afterMs: after, ratio: before / after },
      before: timeByName(sessions[2]!.profile()),
      after: timeByName(sessions[3]!.profile()),
    };
  } finally {
    for (const session of sessions) session.dispose();
  }
}

/**
 * Replaces operators by cheaper ones and measures on samples what that does to accuracy and speed, for each
 * operator and for the whole network.
 *
 * The given model stays as it is, so it is the way back. (`dump` of {@link Model.optimize} also keeps the
 * graph before each pass.)
 *
 * @returns A model of your own with the substitutions, and the report.
 * @example
 * const { model: hard, report } = await substitute(model, {
 *   passes: ['SubstituteSigmoid'],
 *   dataset: [{ feeds, label: 3 }],
 * });
 * console.log(report.top1.agreement, report.latency.ratio);
 */
export async function substitute(
  model: Model,
  options: SubstituteOptions,
): Promise<{ model: Model; report: SubstitutionReport }> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`substitute needs a Model, not ${show(model)}`, 'model');
  }
  checkOptions(
    options,
    {
      passes: 'strings',
      dataset: 'any',
      maxSamples: 'number',
      runs: 'integer',
      onProgress: 'function',
      signal: 'signal',
    },
    'options',
  );
  const { passes, dataset, maxSamples = 32, runs = 20, onProgress, signal } = options;
  checkIterable(dataset, 'options.dataset');
  checkMaxSamples(maxSamples);
  if (runs < 1) throw invalidArgument(`options.runs is ${runs}`, 'options.runs');
  // Callers without types may leave `passes` out.
  const wanted = (passes as SubstituteOptions['passes'] | undefined) ?? [];
  const unknown = wanted.find((pass) => !substitutions.includes(pass));
  if (unknown !== undefined || wanted.length === 0) {
    throw invalidArgument(
      unknown === undefined
        ? `options.passes ${passes ? 'is empty' : 'is missing'}`
        : `'${unknown}' is no substitution`,
      'options.passes',
      `There are ${substitutions.join(', ')}.`,
    );
  }
  const samples: CompareSample[] = [];
  for await (const sample of items(dataset, signal)) {
    samples.push(sample);
    if (samples.length >= maxSamples) break;
  }
  if (samples.length === 0) throw invalidArgument('there are no samples', 'options.dataset');

  const base = model.clone();
  let result: Model | undefined;
  try {
    base.optimize();
    result = base.clone();
    // Some substitutions make a form that CanonicalizeOps turns into one operator.
    result.optimize({ passes: [...passes, 'InferType', 'CanonicalizeOps', 'DeadCodeElimination'] });
    const before = new Map(base.info.nodes.map((node) => [node.name, node]));
    const replaced = result.info.nodes.filter(({ name, op, domain }) => {
      const old = before.get(name);
      return old && (old.op !== op || old.domain !== domain);
    });
    const report = await compare(base, result, {
      dataset: samples,
      layerwise: true,
      aloneSamples: Math.min(samples.length, 2),
      onProgress: ({ done }) => onProgress?.({ phase: 'compare', done, total: samples.length }),
      ...(signal ? { signal } : {}),
    });
    const tick = (done: number) => onProgress?.({ phase: 'time', done, total: runs });
    const times = await time([base, result], samples, runs, tick, signal);
    const layers = new Map(report.layers.map((layer) => [layer.name, layer]));
    const operators = replaced.map(({ name, op }): SubstitutedOperator => {
      const layer = layers.get(name);
      return {
        name,
        before: before.get(name)!.op,
        after: op,
        snr: layer?.snr ?? null,
        maxAbs: layer?.maxAbs ?? 0,
        ...(layer?.aloneSnr === undefined ? {} : { aloneSnr: layer.aloneSnr }),
        ...(layer?.aloneMaxAbs === undefined ? {} : { aloneMaxAbs: layer.aloneMaxAbs }),
        beforeMs: times.before.get(name) ?? 0,
        afterMs: times.after.get(name) ?? 0,
      };
    });
    const { float, candidate, agreement } = report.top1;
    const made = result;
    result = undefined;
    return {
      model: made,
      report: {
        passes: [...passes],
        samples: report.samples,
        labelled: report.labelled,
        operators,
        outputs: report.outputs,
        top1: { before: float, after: candidate, agreement },
        latency: times.latency,
      },
    };
  } finally {
    base.dispose();
    result?.dispose();
  }
}

// The options of quantize(), those of a search included, and their checks.

import { checkIterable } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { checkBytes, checkKind } from '../base/options.js';
import {
  type ConfigOf,
  checkSchema,
  choice,
  choices,
  flag,
  integer,
  number,
  other,
} from '../base/schema.js';
import type { BitFormat, SearchAttempt } from '../base/search_report.js';
import type { MeasuredSample } from '../analyze/measure.js';
import type { MetricSpec } from '../metrics/table.js';
import type { CalibrateOptions } from '../quantize/calibrate.js';
import type { QuantizeProgress } from '../quantize/calibrator.js';

const positive = number('above 0', (value) => value > 0);

/** @internal */
export const floorOptions = {
  /** What to measure on the validation samples. */
  metric: other<MetricSpec>('any', 'a metric'),
  /**
   * How much worse than the float model the value may be: in points (hundredths) for a share such as top-1 or
   * mAP, in the metric's own unit otherwise.
   */
  drop: number('at least 0', (value) => value >= 0),
  /** For metrics of which higher values are better: the least value. */
  atLeast: number('a number', () => true),
  /** For metrics of which lower values are better: the largest value. */
  atMost: number('a number', () => true),
};

/** The worst value of a metric that is good enough: one of `drop`, `atLeast` and `atMost`. */
export type Floor = ConfigOf<typeof floorOptions> & { metric: MetricSpec };

/** @internal */
export const budgetOptions = {
  /** Bytes of the file that `toOnnx({ int2: true })` makes, where bits are packed. */
  bytes: positive,
  /** Median milliseconds of a run on this machine. */
  ms: positive,
};

/** What the result may cost. */
export type Budget = ConfigOf<typeof budgetOptions>;

/** The names of the rows of recoveries.ts, from cheap to dear. */
export const recoveryLevels = [
  'default',
  'equalize',
  'auto',
  'adaround',
  'block_reconstruction',
] as const;

/** A set of recovery methods that a search tries. */
export type RecoveryLevel = (typeof recoveryLevels)[number];

/** @internal */
export const searchOptions = {
  /** What the cheapest configuration has least of. Default 'bytes'. */
  by: choice('bytes', 'ms'),
  /**
   * Bits of weights (1 to 8) and activations (1 to 16) to try. Default 'W8A8', 'W4A8' and 'W8A16'. Where one
   * fails, single operators get the bits of another one that is dearer.
   */
  formats: other<readonly BitFormat[]>('any', "an array such as ['W8A8', 'W4A8']"),
  /** Whether single operators may stay in float. Default true. */
  float: flag,
  /** Sets of recovery methods to try, from cheap to dear. Default all. */
  recoveries: choices(...recoveryLevels),
  /** How many configurations to try at most. Default: as many as it takes. */
  maxAttempts: integer(1),
  /** After so many seconds no other configuration is tried. Default: none. */
  maxSeconds: positive,
  /** Validation samples on which operators are measured one by one, where single ones must change. Default 16. */
  operatorSamples: integer(1),
};

/** How to search. */
export type SearchOptions = ConfigOf<typeof searchOptions>;

/** How far quantize() has come. */
export interface SearchProgress extends Omit<QuantizeProgress, 'phase'> {
  /**
   * 'calibrate' shows samples to the float model; 'finish' makes the result, accuracy recovery included. In a
   * search also 'measure': of a configuration on the validation samples; 'operators': of operators one by one;
   * and 'attempt', behind each configuration.
   */
  phase: QuantizeProgress['phase'] | 'measure' | 'operators' | 'attempt';
  /** In a search: the configuration in words. */
  configuration?: string;
  /** With 'attempt': its result; `done` counts the attempts. */
  attempt?: SearchAttempt;
}

/** Options of {@link quantize}. */
export interface QuantizeOptions extends Omit<CalibrateOptions, 'onProgress'> {
  onProgress?: (progress: SearchProgress) => void;
  /** Samples of your own with labels or targets, which measure what is tried. They are walked over many times. */
  validation?: Iterable<MeasuredSample> | AsyncIterable<MeasuredSample>;
  /** Finds the cheapest configuration that is good enough on `validation`. */
  floor?: Floor;
  /** What the result may cost. Without a `floor` the best configuration within the budget is chosen. */
  budget?: Budget;
  /** For `budget` without `floor`, and for `analyze`: what to measure on `validation`. */
  metric?: MetricSpec;
  search?: SearchOptions;
  /**
   * Called with the state of the search behind every step; the search waits for a promise. With these bytes as
   * `resume`, and the same model, samples and options, another call goes on there and ends with the same result.
   */
  onCheckpoint?: (state: Uint8Array, attempts: number) => void | Promise<void>;
  /** The state of a search that goes on, from `onCheckpoint`. */
  resume?: Uint8Array;
}

/** @internal Throws INVALID_ARGUMENT for options of a search that do not go together. */
export function checkSearchOptions(options: QuantizeOptions): void {
  const { floor, budget, metric, search, validation, analyze, resume, onCheckpoint } = options;
  const needed = (what: string, name: string, hint: string) =>
    invalidArgument(what, `options.${name}`, hint);
  const searches = floor !== undefined || budget !== undefined;
  const lone = Object.entries({ search, resume, onCheckpoint }).find(([, value]) => value);
  if (!searches && lone) {
    throw needed(`options.${lone[0]} is of a search`, lone[0], 'Give floor or budget.');
  }
  if (!searches && !(analyze && metric !== undefined)) {
    throw needed(
      `options.${metric === undefined ? 'validation' : 'metric'} has no effect`,
      metric === undefined ? 'validation' : 'metric',
      'Give floor, budget, or analyze: true and metric.',
    );
  }
  if (validation === undefined) {
    throw needed(
      'there are no samples to measure on',
      'validation',
      'Give samples with labels that calibration does not have.',
    );
  }
  checkIterable(validation, 'options.validation');
  if (resume !== undefined) checkBytes(resume, 'options.resume');
  if (floor !== undefined) {
    checkSchema(floor, floorOptions, 'options.floor');
    const bounds = (['drop', 'atLeast', 'atMost'] as const).filter(
      (key) => floor[key] !== undefined,
    );
    if (floor.metric === undefined || bounds.length !== 1) {
      throw needed(
        floor.metric === undefined
          ? 'options.floor has no metric'
          : `options.floor has ${bounds.length} bounds`,
        'floor',
        "Give a metric and one of drop, atLeast and atMost, such as { metric: 'top1', drop: 0.5 }.",
      );
    }
    if (metric !== undefined && analyze !== true) {
      throw needed('options.metric is beside that of options.floor', 'metric', 'Give one.');
    }
  } else if (searches && metric === undefined) {
    throw needed('a budget needs a metric to choose by', 'metric', "Give one, such as 'top1'.");
  }
  if (budget !== undefined) {
    checkSchema(budget, budgetOptions, 'options.budget');
    if (budget.bytes === undefined && budget.ms === undefined) {
      throw needed('options.budget has no bound', 'budget', 'Give bytes or ms.');
    }
  }
  if (search !== undefined) {
    checkSchema(search, searchOptions, 'options.search');
    checkFormats(search.formats);
    if (search.recoveries?.length === 0) {
      throw needed('options.search.recoveries is empty', 'search.recoveries', "Give ['default'].");
    }
  }
}

function checkFormats(formats: unknown): void {
  if (formats === undefined) return;
  const name = 'options.search.formats';
  if (!Array.isArray(formats) || formats.length === 0) {
    throw invalidArgument(`${name} is ${show(formats)}`, name, "Give ['W8A8'] or more.");
  }
  formats.forEach((format: unknown, index) => {
    checkKind(format, 'string', `${name}[${index}]`);
    const [weights = 0, activations = 0] = (/^W(\d+)A(\d+)$/.exec(format as string) ?? [])
      .slice(1)
      .map(Number);
    if (weights >= 1 && weights <= 8 && activations >= 1 && activations <= 16) return;
    throw invalidArgument(
      `${name}[${index}] is ${show(format)}`,
      name,
      "It must be such as 'W8A8': 1 to 8 bits of weights, 1 to 16 of activations.",
    );
  });
}

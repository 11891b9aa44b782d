// quantize() with measurements on validation samples: searches, and analyses in the terms of a metric.

import { RequantError, invalidArgument } from '../base/errors.js';
import { hashOf } from '../base/hash.js';
import { version } from '../base/version.js';
import type { SearchAttempt, SearchReport } from '../base/search_report.js';
import type { Metric } from '../metrics/metric.js';
import { metricOf } from '../metrics/table.js';
import { isBetter } from '../metrics/unit.js';
import type { Model } from '../model/model.js';
import type { QuantizeProgress } from '../quantize/calibrator.js';
import type { QuantizeConfig } from '../quantize/config.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import type { OperatorRecord } from '../quantize/record.js';
import type { MeasuredSample } from '../analyze/measure.js';
import { addMetric } from './analysis.js';
import { bestOf, frontierOf, isMet } from './choose.js';
import { type OperatorCost, groupsOf, onlyThese } from './operators.js';
import { type Candidate, configFor, describe } from './recoveries.js';
import { identityOf, repeatable } from './samples.js';
import { type Laboratory, Search } from './search.js';
import { type Floor, type QuantizeOptions, checkSearchOptions } from './search_options.js';
import { ATTEMPT, SearchState } from './state.js';
import { Trials, packedBytes } from './trials.js';

/** Calibration samples for an operator alone, whose ranges matter less. */
const ALONE_SAMPLES = 16;

/** The worst value that is good enough. Throws INVALID_ARGUMENT where there is none. */
function boundOf(floor: Floor, { name, better, unit }: Metric, float: number): number {
  const { drop, atLeast, atMost } = floor;
  const wrong = better === 'higher' ? 'atMost' : 'atLeast';
  if (floor[wrong] !== undefined) {
    throw invalidArgument(
      `options.floor.${wrong} is of metrics of which ${better === 'higher' ? 'lower' : 'higher'} values are better, unlike ${name}`,
      `options.floor.${wrong}`,
      `Give ${better === 'higher' ? 'atLeast' : 'atMost'}.`,
    );
  }
  const given = better === 'higher' ? atLeast : atMost;
  if (given !== undefined) return given;
  if (!Number.isFinite(float)) {
    throw invalidArgument(
      `the float model has the value ${float} of ${name}, from which nothing can be taken`,
      'options.floor.drop',
      better === 'higher' ? 'Give atLeast.' : 'Give atMost.',
    );
  }
  const own = unit === 'share' ? drop! / 100 : drop!;
  return better === 'higher' ? float - own : float + own;
}

// Sums of shares are not exact in floats: half a point less than 0.9 is 0.895.
const SLACK = 1e-9;

/** Whether a value is no worse than a bound. */
const reaches = (value: number, bound: number, better: Metric['better']) =>
  better === 'higher' ? value >= bound - SLACK : value <= bound + SLACK;

/** Whether an operator has activations of more than 8 bits. Only these have a range and no constant numbers. */
const isWide = ({ inputs, outputs }: OperatorRecord) =>
  [...inputs, ...outputs].some(
    (slot) => slot?.range !== undefined && slot.state !== 'BAKED' && (slot.bits ?? 0) > 8,
  );

/** A search that runs: its state, its trials, and the best model so far. */
class Run implements Laboratory {
  readonly #model: Model;
  readonly #options: QuantizeOptions;
  readonly #metric: Metric;
  readonly #trials: Trials;
  readonly #state: SearchState;
  readonly #search: Search;
  readonly #start = performance.now();
  readonly #config: QuantizeConfig;
  #float = { value: NaN, bytes: 0, ms: 0, samples: 0 };
  #floor: number | undefined;
  #kept: { attempt: SearchAttempt; quantized: QuantizedModel } | undefined;

  /** @param samples What tells the samples from others. */
  constructor(
    model: Model,
    options: QuantizeOptions,
    metric: Metric,
    trials: Trials,
    samples: string,
  ) {
    this.#model = model;
    this.#options = options;
    this.#metric = metric;
    this.#trials = trials;
    const { config = {}, floor, budget = {}, search = {}, maxSamples, resume } = options;
    this.#config = config;
    const named = (_key: string, value: unknown) =>
      typeof value === 'function' ? 'a function' : (value as unknown);
    // A search may go on with other limits of its own length.
    const { by, formats, float, recoveries, operatorSamples } = search;
    const how = { by, formats, float, recoveries, operatorSamples };
    const given = { config, floor, budget, how, maxSamples, metric: options.metric };
    const origin = [version, JSON.stringify(given, named), hashOf(model.toOnnx()), samples].join(
      ' ',
    );
    this.#state = new SearchState(origin, resume);
    this.#search = new Search(
      this,
      { better: metric.better, by: search.by ?? 'bytes', floor: floor !== undefined },
      search,
      budget.ms !== undefined,
    );
  }

  /** The result of a step: that of an earlier run or, behind a checkpoint, a new one. */
  async #step<T>(name: string, work: () => Promise<T>): Promise<T> {
    const known = this.#state.get<T>(name);
    if (known !== undefined) return known;
    const result = await work();
    this.#state.set(name, result);
    await this.#options.onCheckpoint?.(this.#state.bytes(), this.#state.attempts);
    return result;
  }

  #progress(configuration: string) {
    return (progress: QuantizeProgress) =>
      this.#options.onProgress?.({ ...progress, configuration });
  }

  #measuring(configuration: string) {
    return (done: number, total: number | undefined) =>
      this.#options.onProgress?.({
        phase: 'measure',
        configuration,
        done,
        ...(total === undefined ? {} : { total }),
      });
  }

  async run(): Promise<QuantizedModel> {
    const { floor, onProgress } = this.#options;
    this.#float = await this.#step('float', async () => {
      const { value, ms, samples } = await this.#trials.measure(
        this.#model,
        this.#measuring('float'),
      );
      return { value, ms, samples, bytes: this.#model.toOnnx().length };
    });
    if (floor) this.#floor = boundOf(floor, this.#metric, this.#float.value);
    try {
      const { value } = this.#float;
      if (this.#floor !== undefined && !reaches(value, this.#floor, this.#metric.better)) {
        throw this.#notMet('not even the float model meets the floor');
      }
      await this.#search.run();
      const { best, attempts } = this.#search;
      if (best === undefined || !isMet(attempts[best]!)) {
        const { length } = attempts;
        throw this.#notMet(
          `none of ${length} ${length === 1 ? 'configuration' : 'configurations'} is good enough`,
        );
      }
      const chosen = attempts[best]!;
      const kept = this.#kept?.attempt === chosen ? this.#kept.quantized : undefined;
      this.#kept = kept ? undefined : this.#kept;
      const configuration = describe(chosen);
      const analyze = this.#options.analyze ?? false;
      const quantized =
        kept && !analyze
          ? kept
          : await this.#trials.quantize(
              configFor(this.#config, chosen),
              this.#progress(configuration),
              { analyze },
            );
      if (kept && kept !== quantized) kept.dispose();
      quantized.search = this.#report();
      onProgress?.({ phase: 'finish', done: 1, total: 1, configuration });
      return quantized;
    } finally {
      this.#kept?.quantized.dispose();
    }
  }

  full(attempts: number): boolean {
    const { maxAttempts = Infinity, maxSeconds = Infinity } = this.#options.search ?? {};
    return attempts >= maxAttempts || performance.now() - this.#start > 1000 * maxSeconds;
  }

  async attempt(candidate: Candidate): Promise<SearchAttempt> {
    let made: QuantizedModel | undefined;
    const attempt = await this.#step(`${ATTEMPT}${JSON.stringify(candidate)}`, async () => {
      const start = performance.now();
      const result = await this.#measured(candidate);
      made = result.quantized;
      return { ...candidate, ...result.numbers, seconds: (performance.now() - start) / 1000 };
    });
    const done = this.#search.attempts.length + 1;
    this.#options.onProgress?.({
      phase: 'attempt',
      done,
      configuration: describe(candidate),
      attempt,
    });
    const all = [...this.#search.attempts, attempt];
    const best = bestOf(all, {
      better: this.#metric.better,
      by: this.#options.search?.by ?? 'bytes',
      floor: this.#floor !== undefined,
    });
    if (best === all.length - 1) {
      this.#kept?.quantized.dispose();
      this.#kept = made && { attempt, quantized: made };
    } else made?.dispose();
    return attempt;
  }

  async #measured(candidate: Candidate) {
    const configuration = describe(candidate);
    const { bytes: mostBytes = Infinity, ms: mostMs = Infinity } = this.#options.budget ?? {};
    let quantized: QuantizedModel | undefined;
    try {
      quantized = await this.#trials.quantize(
        configFor(this.#config, candidate),
        this.#progress(configuration),
      );
      const { value, ms } = await this.#trials.measure(quantized, this.#measuring(configuration));
      const bytes = packedBytes(quantized);
      const { operators } = quantized.config;
      const numbers = {
        value,
        bytes,
        ms,
        operators: operators.length,
        floatOperators: operators.filter((one) => !one.quantized).length,
        wideOperators: operators.filter(isWide).length,
        meetsFloor: this.#floor === undefined || reaches(value, this.#floor, this.#metric.better),
        fitsBudget: bytes <= mostBytes && ms <= mostMs,
      };
      return { quantized, numbers };
    } catch (error) {
      quantized?.dispose();
      const { code, message } = error as RequantError;
      if (!['UNSUPPORTED', 'INVALID_QUANTIZATION'].includes(code)) throw error;
      const none = {
        value: NaN,
        bytes: Infinity,
        ms: Infinity,
        meetsFloor: false,
        fitsBudget: false,
      };
      const counts = { operators: 0, floatOperators: 0, wideOperators: 0 };
      const numbers = { ...none, ...counts, error: message };
      return { quantized: undefined, numbers };
    }
  }

  async operators(format: Candidate['format']) {
    const candidate = { format, recovery: 'default' };
    const configuration = describe(candidate);
    const groups = await this.#step(`operators ${format}`, async () => {
      const probe = await this.#trials.quantize(
        { ...configFor(this.#config, candidate), recover: [] },
        this.#progress(configuration),
        { analyze: true, most: ALONE_SAMPLES },
      );
      const found = groupsOf(probe.config);
      probe.dispose();
      return found;
    });
    const most = this.#options.search?.operatorSamples ?? 16;
    const quiet = () => {};
    const float = await this.#step('float operators', async () => {
      const { value } = await this.#trials.measure(this.#model, quiet, { most });
      return value;
    });
    const costs: OperatorCost[] = [];
    for (const [index, { name, members }] of groups.entries()) {
      this.#options.onProgress?.({
        phase: 'operators',
        configuration,
        done: index,
        total: groups.length,
      });
      const cost = await this.#step(`alone ${format} ${name}`, async () => {
        const config = onlyThese({ ...configFor(this.#config, candidate), recover: [] }, members);
        const alone = await this.#trials.quantize(config, quiet, { most: ALONE_SAMPLES });
        try {
          const { value, noise } = await this.#trials.measure(alone, quiet, { most, noise: true });
          const loss = lossOf(value, float, this.#metric.better);
          const own = alone.config.operators.find((one) => one.name === name);
          return { loss, noise, ...(own?.quantized ? {} : { follows: true }) };
        } finally {
          alone.dispose();
        }
      });
      costs.push(cost);
    }
    return { groups, costs };
  }

  #report(): SearchReport {
    const { attempts, best } = this.#search;
    const { name, better, unit } = this.#metric;
    const { samples, ...float } = this.#float;
    return {
      metric: { name, better, unit },
      samples,
      float,
      ...(this.#floor === undefined ? {} : { floor: this.#floor }),
      budget: { ...this.#options.budget },
      by: this.#options.search?.by ?? 'bytes',
      attempts,
      best: best ?? -1,
      met: best !== undefined && isMet(attempts[best]!),
      frontier: {
        bytes: frontierOf(attempts, 'bytes', better),
        ms: frontierOf(attempts, 'ms', better),
      },
      seconds: (performance.now() - this.#start) / 1000,
    };
  }

  #notMet(what: string): RequantError {
    const search = this.#report();
    const { best, attempts, float, floor } = search;
    const closest = attempts[best];
    const bound = floor === undefined ? '' : `, the floor is ${Number(floor.toPrecision(6))}`;
    const most = closest
      ? `; best is ${describe(closest)} with ${Number(closest.value.toPrecision(6))} and ${closest.bytes} bytes`
      : '';
    return new RequantError(
      'FLOOR_NOT_MET',
      `${what}: ${search.metric.name} of the float model is ${Number(float.value.toPrecision(6))}${bound}${most}`,
      {
        value: floor === undefined ? 'options.budget' : 'options.floor',
        hint: closest
          ? 'Allow a lower floor, a larger budget, more formats or recoveries, or train().'
          : 'Allow a lower floor, or check the validation samples and their labels.',
        search,
      },
    );
  }
}

/** By how much a value is worse than that of the float model; NaN is worse than anything. */
export function lossOf(value: number, float: number, better: Metric['better']): number {
  if (!isBetter(float, value, better)) return 0;
  const loss = Math.abs(float - value);
  return Number.isNaN(loss) ? Infinity : loss;
}

/** @internal Quantizes with measurements. */
export async function quantizeMeasured(
  model: Model,
  options: QuantizeOptions,
): Promise<QuantizedModel> {
  checkSearchOptions(options);
  const { floor, budget, signal, maxSamples, analyze } = options;
  const spec = floor?.metric ?? options.metric!;
  const metric = metricOf(spec, floor ? 'options.floor.metric' : 'options.metric');
  const calibration = await repeatable(options.calibration, signal);
  const validation = await repeatable(options.validation!, signal);
  // Samples without feeds are refused where they are run.
  const feedsOf = (sample: MeasuredSample) => sample?.feeds ?? {};
  const samples = `${await identityOf(calibration, (feeds) => feeds)} ${await identityOf(validation, feedsOf)}`;
  const trials = new Trials(model, metric, { calibration, validation, maxSamples, signal });
  try {
    const searches = floor !== undefined || budget !== undefined;
    const quantized = searches
      ? await new Run(model, options, metric, trials, samples).run()
      : await trials.quantize(options.config ?? {}, (progress) => options.onProgress?.(progress), {
          analyze: true,
        });
    try {
      if (analyze) await addMetric(quantized, model, options, metric, trials);
      return quantized;
    } catch (error) {
      quantized.dispose();
      throw error;
    }
  } finally {
    trials.dispose();
  }
}

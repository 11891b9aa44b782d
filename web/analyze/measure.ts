// Runs models on samples and measures them by a metric.

import { RequantError } from '../base/errors.js';
import { withoutUndefined } from '../base/options.js';
import type { Feeds } from '../engine/tensors.js';
import type { Metric, Outputs } from '../metrics/metric.js';
import { type MetricSpec, metricOf } from '../metrics/table.js';
import type { Model } from '../model/model.js';
import type { RequantizeMode } from '../model/planning.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession } from '../session/session.js';
import type { MetricValues } from './compare_report.js';

/** @internal A sample of a measurement, as compare() takes it. */
export interface MeasuredSample {
  feeds: Feeds;
  label?: number;
  target?: unknown;
}

/** @internal Does `work`; its errors name the sample. */
export async function ofSampleAsync<T>(index: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequantError) || error.code === 'ABORTED') throw error;
    const { code, node, value, hint, message } = error;
    throw new RequantError(
      code,
      `sample ${index}: ${message}`,
      withoutUndefined({ node, value, hint, cause: error }) as object,
    );
  }
}

/** @internal Measures a float model and a candidate on the same samples. */
export class Measurement {
  readonly #metric: Metric;
  readonly #meters: { float: ReturnType<Metric['meter']>; candidate: ReturnType<Metric['meter']> };
  readonly #float: InferenceSession;
  readonly #candidate: InferenceSession;

  private constructor(metric: Metric, float: InferenceSession, candidate: InferenceSession) {
    this.#metric = metric;
    this.#meters = { float: metric.meter(), candidate: metric.meter() };
    this.#float = float;
    this.#candidate = candidate;
  }

  static async create(
    spec: MetricSpec,
    float: Model,
    candidate: Model | QuantizedModel,
    requantize?: RequantizeMode,
  ): Promise<Measurement> {
    const metric = metricOf(spec);
    const first = await InferenceSession.create(float);
    try {
      const options = requantize === undefined ? {} : { requantize };
      const second = await InferenceSession.create(candidate, options);
      return new Measurement(metric, first, second);
    } catch (error) {
      first.dispose();
      throw error;
    }
  }

  /** Throws what {@link InferenceSession.run} and the metric throw, with the number of the sample. */
  add(sample: MeasuredSample, index: number): Promise<void> {
    return ofSampleAsync(index, async () => {
      const float = await this.#float.run(sample.feeds);
      const candidate = await this.#candidate.run(sample.feeds);
      await this.#meters.float.add(float, sample, float);
      await this.#meters.candidate.add(candidate, sample, float);
    });
  }

  async values(): Promise<MetricValues> {
    const { name, better, unit } = this.#metric;
    return {
      name,
      better,
      unit,
      float: await this.#meters.float.value(),
      candidate: await this.#meters.candidate.value(),
    };
  }

  dispose(): void {
    this.#float.dispose();
    this.#candidate.dispose();
  }
}

/** @internal How well one model does. */
export interface Measured {
  value: number;
  samples: number;
  /** Median milliseconds of a run. */
  ms: number;
}

/** @internal The outputs of the float model for a sample. */
export type FloatOutputs = (index: number, feeds: Feeds) => Promise<Outputs>;

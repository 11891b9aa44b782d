// Quantizes a model in different ways and measures the results on the validation samples.

import { type MeasuredSample, type Measured, ofSampleAsync } from '../analyze/measure.js';
import { Breather, items, lengthOf } from '../base/abort.js';
import { RequantError, invalidArgument } from '../base/errors.js';
import { median } from '../base/median.js';
import { checkOptions } from '../base/options.js';
import { bytesOf } from '../base/tensor.js';
import type { Feeds } from '../engine/tensors.js';
import { type Metric, type Outputs, numbersOf } from '../metrics/metric.js';
import type { Model } from '../model/model.js';
import { calibrate } from '../quantize/calibrate.js';
import type { QuantizeProgress } from '../quantize/calibrator.js';
import type { QuantizeConfig } from '../quantize/config.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession } from '../session/session.js';
import type { Repeatable } from './samples.js';

/** The most bytes of the float model's outputs that are kept for later attempts. */
const MOST_KEPT = 2 ** 27;

/** Relative noise of outputs: the power of the error divided by that of the float model, summed up. */
class Noise {
  #signal = 0;
  #noise = 0;

  add(outputs: Outputs, float: Outputs): void {
    for (const [name, right] of Object.entries(float)) {
      const [wanted, given] = [numbersOf(right), outputs[name] && numbersOf(outputs[name])];
      for (let at = 0; at < wanted.length; at++) {
        this.#signal += wanted[at]! ** 2;
        // Lists of another length, such as those of boxes, are noise as far as they differ.
        this.#noise += (wanted[at]! - (given?.[at] ?? 0)) ** 2;
      }
    }
  }

  value(): number {
    const ratio = this.#noise === 0 ? 0 : this.#noise / this.#signal;
    return Number.isNaN(ratio) ? Infinity : ratio;
  }
}

/** Options of {@link Trials}. */
export interface TrialOptions {
  calibration: Repeatable<Feeds>;
  validation: Repeatable<MeasuredSample>;
  maxSamples?: number | undefined;
  signal: AbortSignal | undefined;
}

/** Measurements of models on the same samples. `dispose()` gives the float session back. */
export class Trials {
  readonly #model: Model;
  readonly #metric: Metric;
  readonly #options: TrialOptions;
  #float: InferenceSession | undefined;
  readonly #kept = new Map<number, Outputs>();
  #bytes = 0;

  constructor(model: Model, metric: Metric, options: TrialOptions) {
    this.#model = model;
    this.#metric = metric;
    this.#options = options;
  }

  /** Quantizes with one config, on the first calibration samples or all. */
  quantize(
    config: QuantizeConfig,
    onProgress: (progress: QuantizeProgress) => void,
    { analyze = false, most = Infinity }: { analyze?: boolean; most?: number } = {},
  ): Promise<QuantizedModel> {
    const { signal, calibration, maxSamples = Infinity } = this.#options;
    const limit = Math.min(most, maxSamples);
    return calibrate(this.#model, {
      calibration,
      ...(limit === Infinity ? {} : { maxSamples: limit }),
      config,
      analyze,
      onProgress,
      ...(signal ? { signal } : {}),
    });
  }

  async #floatOutputs(index: number, feeds: Feeds): Promise<Outputs> {
    const known = this.#kept.get(index);
    if (known) return known;
    this.#float ??= await InferenceSession.create(this.#model);
    const outputs = await this.#float.run(feeds);
    const bytes = Object.values(outputs).reduce((sum, { data }) => sum + bytesOf(data).length, 0);
    if (this.#bytes + bytes <= MOST_KEPT) {
      this.#kept.set(index, outputs);
      this.#bytes += bytes;
    }
    return outputs;
  }

  /** Measures a model on the first samples or all. With `noise` also how its outputs differ from the float model's. */
  async measure(
    candidate: Model | QuantizedModel,
    onSample: (done: number, total: number | undefined) => void,
    { most = Infinity, noise = false }: { most?: number; noise?: boolean } = {},
  ): Promise<Measured & { noise: number }> {
    const { signal, validation } = this.#options;
    const isFloat = candidate === this.#model;
    const needsFloat = this.#metric.needsFloat || noise;
    const session = await InferenceSession.create(candidate);
    try {
      const breather = new Breather(signal);
      const meter = this.#metric.meter();
      const measured = new Noise();
      const times: number[] = [];
      for await (const sample of items(validation, signal)) {
        const index = times.length;
        checkOptions(sample, { feeds: 'any', label: 'any', target: 'any' }, `sample ${index}`);
        await ofSampleAsync(index, async () => {
          const start = performance.now();
          const outputs = await session.run(sample.feeds);
          times.push(performance.now() - start);
          const float = isFloat
            ? outputs
            : needsFloat
              ? await this.#floatOutputs(index, sample.feeds)
              : undefined;
          await meter.add(outputs, sample, float);
          if (noise) measured.add(outputs, float!);
        });
        const length = lengthOf(validation);
        onSample(times.length, length === undefined ? undefined : Math.min(length, most));
        await breather.breathe();
        if (times.length >= most) break;
      }
      if (times.length === 0) {
        throw invalidArgument('there are no samples to measure on', 'options.validation');
      }
      const value = await meter.value();
      return { value, samples: times.length, ms: median(times), noise: measured.value() };
    } finally {
      session.dispose();
    }
  }

  dispose(): void {
    this.#float?.dispose();
  }
}

/** Bytes of the file in which bits are packed; of a model that no file can hold, of the graph that runs. */
export function packedBytes(quantized: QuantizedModel): number {
  try {
    return quantized.toOnnx({ int2: true }).length;
  } catch (error) {
    if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
    return quantized.integerModel.toOnnx().length;
  }
}

// How well models do on samples: whether a training helped, and which of its epochs was the best.

import { type CompareSample, compare, isNotFinite } from '../analyze/compare.js';
import { type MetricUnit, formatValue, isBetter } from '../metrics/unit.js';
import type { MetricSpec } from '../metrics/table.js';
import type { Model } from '../model/model.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';

/** How well a model does on samples. */
export interface Quality {
  /**
   * Share of right answers, without labels of answers that are those of the float model; -1: an output has
   * NaN; null where outputs are no scores (`loss: 'values'`).
   */
  answers: number | null;
  /** Signal to noise ratio of the outputs in dB, beside the float model's. */
  snr: number;
  /** With the option `metric`: its value, which decides. */
  metric?: { name: string; value: number; better: 'higher' | 'lower'; unit: MetricUnit };
}

/**
 * Measures the candidate beside the float model. Outputs with NaN, which compare() refuses, are the worst quality.
 */
export async function qualityOf(
  float: Model,
  candidate: QuantizedModel,
  dataset: AsyncIterable<CompareSample> | Iterable<CompareSample>,
  {
    loss,
    signal,
    metric,
  }: { loss?: 'scores' | 'values'; signal?: AbortSignal; metric?: MetricSpec },
): Promise<Quality> {
  let labelled = false;
  async function* watched() {
    for await (const sample of dataset) {
      labelled ||= (sample.label ?? -1) >= 0;
      yield sample;
    }
  }
  try {
    const options = {
      dataset: watched(),
      ...(signal ? { signal } : {}),
      ...(metric === undefined ? {} : { metric }),
    };
    const report = await compare(float, candidate, options);
    const { top1, outputs } = report;
    const noise = outputs.map(({ snr }) => snr ?? Infinity);
    const answers =
      (loss ?? (labelled ? 'scores' : 'values')) === 'scores'
        ? ((labelled ? top1.candidate : top1.agreement) ?? 0)
        : null;
    const snr = noise.reduce((a, b) => a + b, 0) / noise.length;
    if (!report.metric) return { answers, snr };
    const { name, better, unit, candidate: value } = report.metric;
    return { answers, snr, metric: { name, value, better, unit } };
  } catch (error) {
    if (!isNotFinite(error)) throw error;
    return { answers: -1, snr: -Infinity };
  }
}

/** Negative if `a` is worse than `b`, positive if it is better, 0 if their answers, or their noise, are equal. */
export function compareQuality(a: Quality, b: Quality): number {
  if (a.metric ?? b.metric) {
    // Outputs with NaN have no value.
    const [x, y] = [a.metric?.value ?? NaN, b.metric?.value ?? NaN];
    const { better } = (a.metric ?? b.metric)!;
    return isBetter(x, y, better) ? 1 : isBetter(y, x, better) ? -1 : 0;
  }
  if (a.answers === null || b.answers === null) return a.snr === b.snr ? 0 : a.snr - b.snr;
  return a.answers - b.answers;
}

export function formatQuality({ answers, snr, metric }: Quality): string {
  if (metric) return `${metric.name} ${formatValue(metric.value, metric.unit)}`;
  if (answers === null) return `${snr.toFixed(1)} dB`;
  return answers < 0 ? 'none' : `${(100 * answers).toFixed(1)} %`;
}

/** The warning of a training whose model is the one before. */
export function didNotHelp(before: Quality, after: Quality, samples: string): string {
  const what = before.metric
    ? 'the metric'
    : before.answers === null
      ? 'signal to noise'
      : 'right answers';
  return (
    `training did not help: ${what} ${formatQuality(before)} before, ${formatQuality(after)} after, ` +
    `${samples}; the model is the one before`
  );
}

/** The first samples of a training, on which its result is compared with the model that it began with. */
export class FirstSamples {
  static readonly #MOST = 128;
  static readonly #MOST_BYTES = 2 ** 26;
  readonly samples: CompareSample[] = [];
  #bytes = 0;

  add(sample: CompareSample): void {
    if (this.samples.length >= FirstSamples.#MOST || this.#bytes > FirstSamples.#MOST_BYTES) return;
    this.samples.push(sample);
    for (const { data } of Object.values(sample.feeds)) {
      this.#bytes += (data as Partial<ArrayBufferView>).byteLength ?? 0;
    }
  }
}

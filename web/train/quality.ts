// Whether a training helped: the model before and after it, on the same samples.

import { type CompareSample, compare } from '../analyze/compare.js';
import type { RequantError } from '../base/errors.js';
import { call } from '../engine/heap.js';
import type { Model } from '../model/model.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import type { TrainOptions } from './train_options.js';

/** Some samples, and a measure of how well models do on them. */
export class Judged {
  static readonly #MOST = 128;
  static readonly #MOST_BYTES = 2 ** 26;
  readonly #samples: CompareSample[] = [];
  #bytes = 0;

  add(sample: CompareSample): void {
    if (this.#samples.length >= Judged.#MOST || this.#bytes > Judged.#MOST_BYTES) return;
    this.#samples.push(sample);
    for (const { data } of Object.values(sample.feeds)) this.#bytes += data.byteLength;
  }

  get length(): number {
    return this.#samples.length;
  }

  /** Shares of right answers (null where they do not count), and signal to noise ratio in dB. */
  async quality(
    float: Model,
    candidate: QuantizedModel,
    loss: TrainOptions['loss'],
    signal: AbortSignal | undefined,
  ): Promise<{ answers: number | null; snr: number }> {
    const options = { dataset: this.#samples, ...(signal ? { signal } : {}) };
    try {
      const { top1, outputs } = await compare(float, candidate, options);
      const labelled = this.#samples.some(({ label }) => label !== undefined && label >= 0);
      const noise = outputs.map(({ snr }) => snr ?? Infinity);
      const answers =
        (loss ?? (labelled ? 'scores' : 'values')) === 'scores'
          ? ((labelled ? top1.candidate : top1.agreement) ?? 0)
          : null;
      return { answers, snr: noise.reduce((a, b) => a + b, 0) / noise.length };
    } catch (error) {
      // The outputs have NaN.
      if ((error as Partial<RequantError>).code !== 'INVALID_ARGUMENT') throw error;
      return { answers: -1, snr: -Infinity };
    }
  }
}

/** The trained model or, with a warning, the one before if that does better. */
export async function better(
  before: QuantizedModel,
  trained: QuantizedModel,
  judged: Judged,
  { loss, signal }: TrainOptions,
): Promise<QuantizedModel> {
  const float = before.floatModel();
  try {
    const was = await judged.quality(float, before, loss, signal);
    const is = await judged.quality(float, trained, loss, signal);
    const worse =
      was.answers === null || is.answers === null ? is.snr < was.snr : is.answers < was.answers;
    if (!worse) return trained;
    const text = ({ answers, snr }: typeof was) =>
      answers === null
        ? `${snr.toFixed(1)} dB`
        : answers < 0
          ? 'none'
          : `${(100 * answers).toFixed(1)} %`;
    const warning =
      `training did not help: ${was.answers === null ? 'signal to noise' : 'right answers'} ${text(was)} before, ` +
      `${text(is)} after, on ${judged.length} samples; the model is the one before`;
    const { core, object } = before.handle;
    const copy = call(core, () => object.copy(warning));
    trained.dispose();
    return new QuantizedModel(core, copy);
  } finally {
    float.dispose();
  }
}

// Measures what every layer of a model costs at every width on this device, for latency budgets.

import { Breather } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { median } from '../base/median.js';
import { checkOptions } from '../base/options.js';
import type { Feeds } from '../engine/tensors.js';
import { Model } from '../model/model.js';
import type { OperatorConfig } from '../quantize/config.js';
import { calibrate } from '../quantize/calibrate.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession } from '../session/session.js';
import { Measured } from '../tune/contest.js';
import type { Width } from './analysis.js';

/** Options of {@link measureLatencies}. */
export interface LatencyOptions {
  /**
   * Inputs of the shapes to measure, preferably one of the calibration samples, so that integers are typical.
   */
  feeds: Feeds;
  /** Widths to measure. Default 8, 4, 2 and 32 (float). */
  widths?: readonly Width[];
  /** Config of the activations that the model will be quantized with. Default 8 bits. */
  activations?: OperatorConfig['activations'];
  /** Counted runs of every width, behind two that do not count; the median is taken. Default 15. */
  rounds?: number;
  /** Steps: making the models, then rounds. */
  onProgress?: (progress: { done: number; total: number }) => void;
  signal?: AbortSignal;
}

/** Milliseconds by layer and width, as {@link MixedPrecisionOptions.latencies} takes them. */
export type Latencies = Record<string, Partial<Record<Width, number>>>;

const WIDTHS: readonly Width[] = [8, 4, 2, 32];
const WARM = 2;

/**
 * Runs a float model with the weights of all its layers in 8, 4 and 2 bits and in float, in turns. Returns
 * how long every layer took at each width on this device: median milliseconds, including the activation and
 * addition that it computes.
 *
 * @throws RequantError INVALID_ARGUMENT for a bad option, ABORTED, or what {@link quantize} throws.
 * @example
 * const latencies = await measureLatencies(model, { feeds });
 * const { operators } = mixedPrecision(analysis, { maxMs: 4, latencies });
 */
export async function measureLatencies(model: Model, options: LatencyOptions): Promise<Latencies> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`this needs a Model, not ${show(model)}`, 'model', 'Use loadModel().');
  }
  checkOptions(
    options,
    {
      feeds: 'object',
      widths: 'any',
      activations: 'object',
      rounds: 'integer',
      onProgress: 'function',
      signal: 'signal',
    },
    'options',
  );
  const { feeds, widths = WIDTHS, activations, rounds = 15, onProgress, signal } = options;
  if (feeds === undefined) throw invalidArgument('feeds are missing', 'options.feeds');
  if (rounds < 1) throw invalidArgument(`rounds is ${rounds}`, 'options.rounds', 'At least 1.');
  if (!Array.isArray(widths) || !widths.every((width) => WIDTHS.includes(width as Width))) {
    throw invalidArgument(`widths are ${show(widths)}`, 'options.widths', 'Use 2, 4, 8 and 32.');
  }
  const breather = new Breather(signal);
  const total = widths.length + WARM + rounds;
  let done = 0;
  const step = async () => {
    onProgress?.({ done: ++done, total });
    await breather.breathe(true);
  };
  const sessions: { width: Width; measured: Measured; times: Map<string, number[]> }[] = [];
  try {
    for (const width of widths as readonly Width[]) {
      const bits = width === 32 ? 8 : width;
      const config = { recover: [], weights: { bits }, ...(activations ? { activations } : {}) };
      const quantized = await calibrate(model, {
        calibration: [feeds],
        config,
        ...(signal ? { signal } : {}),
      });
      const session = await openAt(quantized, width);
      quantized.dispose();
      sessions.push({ width, measured: new Measured(session), times: new Map() });
      await step();
    }
    for (let round = 0; round < WARM + rounds; round++) {
      // The order rotates, since the first session finds the machine colder.
      for (let turn = 0; turn < sessions.length; turn++) {
        const { measured, times } = sessions[(turn + round) % sessions.length]!;
        const { steps } = await measured.run(feeds);
        if (round < WARM) continue;
        measured.steps.forEach(({ name }, index) => {
          const list = times.get(name) ?? [];
          list.push(steps[index]!);
          times.set(name, list);
        });
      }
      await step();
    }
  } finally {
    for (const { measured } of sessions) await measured.session.release();
  }
  const latencies: Latencies = {};
  for (const { width, times } of sessions) {
    for (const [name, list] of times) (latencies[name] ??= {})[width] = median(list);
  }
  return latencies;
}

async function openAt(quantized: QuantizedModel, width: Width): Promise<InferenceSession> {
  if (width !== 32) return InferenceSession.create(quantized, { profile: true });
  // The optimized float graph, whose operators have the names of the analysis.
  const float = quantized.floatModel();
  try {
    return await InferenceSession.create(float, { profile: true });
  } finally {
    float.dispose();
  }
}

// Shows samples to the calibrator, then makes the quantized model.

import { Breather, checkIterable, items, lengthOf, throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkMaxSamples, checkOptions } from '../base/options.js';
import type { CoreCalibrator } from '../core.js';
import { type Handle } from '../engine/heap.js';
import { type Feeds, withNumbers } from '../engine/tensors.js';
import { arrived, loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { type QuantizeProgress, createCalibrator, finishCalibrator } from './calibrator.js';
import type { QuantizeConfig } from './config.js';
import { QuantizedModel } from './quantized_model.js';

/** Calibration samples: feeds for one run of the float model each. */
export type Samples = Iterable<Feeds> | AsyncIterable<Feeds>;

/** What every quantization takes. */
export interface CalibrateOptions {
  /**
   * Typical inputs. The iterable is consumed once; when a second pass over the samples is needed (for
   * histograms), they are kept in memory until then. With a `length` (as arrays have), progress has a total.
   */
  calibration: Samples;
  /** The largest number of samples to use. Default all. */
  maxSamples?: number;
  onProgress?: (progress: QuantizeProgress) => void;
  signal?: AbortSignal;
  config?: QuantizeConfig;
  /** Whether to find out what every operator costs: `quantized.config.analysis`. Default false. */
  analyze?: boolean;
}

/** @internal An error that names the calibration sample in which it happened. */
export function ofSample(error: unknown, index: number): unknown {
  if (!(error instanceof RequantError)) return error;
  const { code, node, value, hint, message } = error;
  return new RequantError(code, `calibration sample ${index}: ${message}`, {
    cause: error,
    ...(node ? { node } : {}),
    ...(value ? { value } : {}),
    ...(hint ? { hint } : {}),
  });
}

function add(calibrator: Handle<CoreCalibrator>, pass: number, feeds: Feeds, index: number): void {
  try {
    withNumbers(calibrator.core, feeds, (coreFeeds) =>
      calibrator.call((object) => object.add(pass, ...coreFeeds)),
    );
  } catch (error) {
    throw ofSample(error, index);
  }
}

/** @internal The kinds of the members of {@link CalibrateOptions}. */
export const calibrateKinds = {
  calibration: 'any',
  maxSamples: 'number',
  onProgress: 'function',
  signal: 'signal',
  config: 'object',
  analyze: 'boolean',
} as const;

/** @internal Throws INVALID_ARGUMENT for a value that is no model. */
export function checkModel(model: unknown): void {
  if (model instanceof Model) return;
  throw invalidArgument(`quantize needs a Model, not ${show(model)}`, 'model', 'Use loadModel().');
}

/**
 * @internal Quantizes a float model with one config.
 *
 * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value in the config, for empty calibration
 * data and for NaN or infinity in it; ABORTED.
 */
export async function calibrate(
  given: Model | PromiseLike<Model>,
  options: CalibrateOptions,
): Promise<QuantizedModel> {
  const model = await arrived(given);
  checkModel(model);
  checkOptions(options, calibrateKinds, 'options');
  const { calibration, maxSamples, onProgress, signal } = options;
  checkIterable(calibration, 'options.calibration');
  checkMaxSamples(maxSamples);
  throwIfAborted(signal);

  await loadToolsFor(model);
  const calibrator = createCalibrator(model, options);
  try {
    const passes = calibrator.call((object) => object.passes());
    const given = options.config?.scales !== undefined;
    const breather = new Breather(signal);
    const kept: Feeds[] = [];
    const limit = maxSamples ?? Infinity;
    let count = 0;
    const known = lengthOf(calibration);
    const length = known === undefined ? undefined : Math.min(known, limit);
    const report = (done: number, samples: number | undefined) =>
      onProgress?.({
        phase: 'calibrate',
        done,
        ...(samples === undefined ? {} : { total: samples * passes }),
      });

    report(0, length);
    for await (const feeds of items(calibration, signal)) {
      add(calibrator, 0, feeds, count);
      count += 1;
      if (passes > 1) kept.push(feeds);
      report(count, length);
      await breather.breathe();
      if (count >= limit) break;
    }
    // With scales from elsewhere nothing may need calibration; the core knows.
    if (count === 0 && !given) {
      throw invalidArgument(
        'there are no calibration samples',
        'options.calibration',
        'Give at least one; 64 to 256 typical inputs are a good number.',
      );
    }
    for (let pass = 1; pass < passes; pass++) {
      for (const [index, feeds] of kept.entries()) {
        add(calibrator, pass, feeds, index);
        report(pass * count + index + 1, count);
        await breather.breathe();
      }
    }

    const { core } = calibrator;
    return new QuantizedModel(core, await finishCalibrator(calibrator, breather, onProgress));
  } finally {
    calibrator.dispose();
  }
}

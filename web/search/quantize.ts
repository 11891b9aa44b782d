// quantize(): one configuration, or a search for one.

import { throwIfAborted } from '../base/abort.js';
import { checkOptions } from '../base/options.js';
import type { SearchReport } from '../base/search_report.js';
import { arrived } from '../model/load_model.js';
import type { Model } from '../model/model.js';
import {
  type CalibrateOptions,
  calibrate,
  calibrateKinds,
  checkModel,
} from '../quantize/calibrate.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { quantizeMeasured } from './measured.js';
import type { Budget, Floor, QuantizeOptions } from './search_options.js';

/** The kinds of the options beside those of {@link CalibrateOptions}. */
const searchKinds = {
  validation: 'any',
  floor: 'object',
  budget: 'object',
  metric: 'any',
  search: 'object',
  onCheckpoint: 'function',
  resume: 'any',
} as const;

/** What {@link quantize} gives for these options: with `floor` or `budget` a model that has `search`. */
export type QuantizedBy<T extends QuantizeOptions> = T extends { floor: Floor } | { budget: Budget }
  ? QuantizedModel & { search: SearchReport }
  : QuantizedModel;

/**
 * Quantizes a float model after training: shows it the calibration samples, chooses scales, and recovers
 * accuracy. The model itself stays as it is. It works on the calling thread in slices of about 30 ms, so that
 * events, progress and `signal` get their turn; {@link createWorker} moves it to another thread. The same
 * model, samples and options make the same file in every browser.
 *
 * With `floor` it is a gate: it tries bits, recovery methods, and single operators of more bits or in float, and
 * returns the cheapest result that is good enough on the `validation` samples. `search` of the result tells what
 * it tried.
 *
 * @param given The model, or a promise of one, during which the engine's tools are fetched:
 * `quantize(loadModel(url), options)`.
 * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value in the config, for empty calibration
 * data and for NaN or infinity in it; FLOOR_NOT_MET where nothing that was tried meets the floor within the
 * budget; ABORTED.
 * @example
 * const quantized = await quantize(model, { calibration: samples });
 * await quantized.save('model.int8.onnx', { format: 'qdq' });
 * // The cheapest configuration that loses at most half a point:
 * const floor = { metric: 'top1', drop: 0.5 } as const;
 * const good = await quantize(model, { calibration: samples, floor, validation: samplesWithLabels });
 * console.log(good.search);
 */
export async function quantize<T extends QuantizeOptions>(
  given: Model | PromiseLike<Model>,
  options: T,
): Promise<QuantizedBy<T>>;
export async function quantize(
  given: Model | PromiseLike<Model>,
  options: QuantizeOptions,
): Promise<QuantizedModel> {
  const model = await arrived(given);
  checkModel(model);
  checkOptions(options, { ...calibrateKinds, ...searchKinds }, 'options');
  const keys = Object.keys(searchKinds) as (keyof typeof searchKinds)[];
  if (keys.every((key) => options[key] === undefined)) {
    return calibrate(model, options as CalibrateOptions);
  }
  throwIfAborted(options.signal);
  return quantizeMeasured(model, options);
}

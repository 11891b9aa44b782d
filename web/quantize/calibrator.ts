// The core's calibrator, on which quantize() and Calibration are built.

import type { Breather } from '../base/abort.js';
import type { CoreCalibrator, CoreQuantized } from '../core.js';
import { Handle, call } from '../engine/heap.js';
import type { Model } from '../model/model.js';
import type { QuantizeConfig } from './config.js';
import { parseConfig, resolveOperators } from './parse_config.js';

/** @internal */
export function createCalibrator(
  model: Model,
  options: { config?: QuantizeConfig; analyze?: boolean },
): Handle<CoreCalibrator> {
  const { core, object } = model.handle;
  const operators = JSON.parse(call(core, () => core.operators())) as { name: string }[];
  const parsed = parseConfig(
    options.config,
    operators.map(({ name }) => name),
  );
  const calibrator = new Handle(
    core,
    call(core, () => core.createCalibrator(object)),
    'calibrator',
  );
  try {
    // The names of operators are known only after optimization.
    const coreOptions =
      parsed.patterns.length === 0
        ? parsed.options
        : resolveOperators(
            parsed,
            calibrator.call((one) => one.nodes()),
          );
    calibrator.call((one) => one.begin({ ...coreOptions, analyze: options.analyze ?? false }));
    return calibrator;
  } catch (error) {
    calibrator.dispose();
    throw error;
  }
}

/** @internal Makes the quantized model, in slices. The calibrator cannot be used afterwards. */
export async function finishCalibrator(
  calibrator: Handle<CoreCalibrator>,
  breather: Breather,
  onProgress?: (progress: QuantizeProgress) => void,
): Promise<CoreQuantized> {
  onProgress?.({ phase: 'finish', done: 0, total: 1 });
  await breather.breathe(true);
  for (let finished = false; !finished;) {
    const step = calibrator.call((object) => object.step());
    finished = step.finished;
    const { method, done, total } = step;
    if (!finished) onProgress?.({ phase: 'finish', method, done, total });
    await breather.breathe();
  }
  const quantized = calibrator.call((object) => object.finish());
  onProgress?.({ phase: 'finish', done: 1, total: 1 });
  return quantized;
}

/** How far the quantization has come. */
export interface QuantizeProgress {
  /** 'calibrate' shows samples to the float model; 'finish' makes the result, accuracy recovery included. */
  phase: 'calibrate' | 'finish';
  /** During 'finish': the recovery method at work, or 'round'. */
  method?: string;
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
}

// Adds to an analysis what each operator costs in the terms of a metric.

import { type Metric } from '../metrics/metric.js';
import type { Model } from '../model/model.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { groupsOf, onlyThese } from './operators.js';
import type { QuantizeOptions } from './search_options.js';
import type { Trials } from './trials.js';

const WIDTHS = [8, 4, 2] as const;

/**
 * Measures the metric on all validation samples: of the float model, of the quantized one, and with each operator
 * alone quantized, those with weights in 8, 4 and 2 bits as well. It changes `quantized.config.analysis`.
 */
export async function addMetric(
  quantized: QuantizedModel,
  model: Model,
  options: QuantizeOptions,
  metric: Metric,
  trials: Trials,
): Promise<void> {
  const analysis = quantized.config.analysis!;
  const quiet = () => {};
  const { name, better, unit } = metric;
  const float = await trials.measure(model, quiet);
  const whole = await trials.measure(quantized, quiet);
  analysis.metric = {
    name,
    better,
    unit,
    samples: float.samples,
    float: float.value,
    quantized: whole.value,
  };
  const base = { ...options.config, recover: [] };
  const members = new Map(groupsOf(quantized.config).map((group) => [group.name, group.members]));
  const operators = analysis.operators.filter((one) => members.has(one.name));
  for (const [done, operator] of operators.entries()) {
    options.onProgress?.({ phase: 'operators', done, total: operators.length });
    const names = members.get(operator.name)!;
    const valueOf = async (bits?: number) => {
      const settings = bits === undefined ? {} : { weights: { bits } };
      const alone = await trials.quantize(onlyThese(base, names, settings), quiet);
      try {
        return (await trials.measure(alone, quiet)).value;
      } finally {
        alone.dispose();
      }
    };
    operator.metric = { alone: await valueOf() };
    if (operator.noise === undefined) continue;
    const weights: Record<string, number> = {};
    for (const bits of WIDTHS) {
      const own = bits === (options.config?.weights?.bits ?? 8);
      weights[bits] = own ? operator.metric.alone : await valueOf(bits);
    }
    operator.metric.weights = weights;
  }
}

// Metrics of the user's own: a function of the outputs for one sample, and how the numbers are put together.

import { invalidArgument, show } from '../base/errors.js';
import { checkOneOf, checkOptions } from '../base/options.js';
import type { Meter, Metric, MetricSample, Outputs } from './metric.js';
import type { MetricUnit } from './unit.js';

const aggregates: Readonly<Record<string, (values: readonly number[]) => number>> = {
  mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
  sum: (values) => values.reduce((sum, value) => sum + value, 0),
  min: (values) => Math.min(...values),
  max: (values) => Math.max(...values),
  median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length / 2;
    return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2;
  },
};

/** How the numbers of all samples become one. */
export type Aggregate = 'mean' | 'sum' | 'min' | 'max' | 'median';

/** A metric of the user's own. */
export interface OwnMetric {
  /** For reports. Default 'own'. */
  name?: string;
  /** The value for one sample. With a third parameter it gets the float model's outputs as well. */
  measure: (outputs: Outputs, sample: MetricSample, float: Outputs) => number | Promise<number>;
  /** Which values are better. */
  better: 'higher' | 'lower';
  /** How the values of the samples become one. Default 'mean'. */
  aggregate?: Aggregate | ((values: readonly number[]) => number | Promise<number>);
  /** 'share': the value is in [0, 1] and drops are in points; 'dB'; 'number' (default). */
  unit?: MetricUnit;
  /** Whether `measure` gets the float model's outputs. Default: whether it has three parameters. */
  needsFloat?: boolean;
}

/** Throws INVALID_ARGUMENT, naming the option. */
export function ownMetric(spec: OwnMetric, option: string): Metric {
  checkOptions(
    spec,
    {
      name: 'string',
      measure: 'function',
      better: 'string',
      aggregate: 'any',
      unit: 'string',
      needsFloat: 'boolean',
    },
    option,
  );
  const { name = 'own', measure, better, aggregate = 'mean', unit = 'number' } = spec;
  checkOneOf(better, ['higher', 'lower'], `${option}.better`);
  checkOneOf(unit, ['share', 'dB', 'number'], `${option}.unit`);
  if (typeof aggregate !== 'function') {
    checkOneOf(aggregate, Object.keys(aggregates), `${option}.aggregate`);
  }
  const joined = typeof aggregate === 'function' ? aggregate : aggregates[aggregate]!;
  const number = (value: unknown, what: string) => {
    if (typeof value === 'number') return value;
    throw invalidArgument(`${what} gave ${show(value)}`, what, 'It must give a number.');
  };
  const meter = (): Meter => {
    const values: number[] = [];
    return {
      async add(outputs, sample, float) {
        values.push(number(await measure(outputs, sample, float!), `${option}.measure`));
      },
      value: async () => number(await joined(values), `${option}.aggregate`),
    };
  };
  return { name, better, unit, needsFloat: spec.needsFloat ?? measure.length > 2, meter };
}

// The metrics of numbers, which compare an output with the float model's, or with the sample's target.

import { invalidArgument } from '../base/errors.js';
import {
  type Meter,
  type MetricSample,
  Mean,
  type Outputs,
  badTarget,
  numbersIn,
  numbersOf,
  outputOf,
} from './metric.js';

/** Where the right numbers come from. */
export type Against = 'float' | 'target';

function pairOf(
  metric: string,
  against: Against,
  output: string | undefined,
  [outputs, sample, float]: [Outputs, MetricSample, Outputs | undefined],
): [ArrayLike<number>, ArrayLike<number>] {
  const tensor = outputOf(outputs, output);
  if (against === 'float') {
    const other = outputOf(float!, output);
    if (other.size === tensor.size) return [numbersOf(tensor), numbersOf(other)];
    throw invalidArgument(
      `the output has ${tensor.size} elements, that of the float model ${other.size}`,
      output,
    );
  }
  const target = typeof sample.target === 'number' ? [sample.target] : numbersIn(sample.target);
  if (target?.length === tensor.size) return [numbersOf(tensor), target];
  throw badTarget(metric, sample, `${tensor.size} numbers, as many as the output has`);
}

/** Mean squared error over all elements of all samples (Bishop, Pattern Recognition, 2006, section 1.5.5). */
export function meanSquaredError(against: Against, output: string | undefined): Meter {
  const mean = new Mean();
  return {
    add(...sample) {
      const [ours, right] = pairOf('mse', against, output, sample);
      for (let at = 0; at < ours.length; at++) mean.add((ours[at]! - right[at]!) ** 2);
    },
    value: () => mean.value(),
  };
}

/**
 * Signal to noise ratio in dB: 10 log10 of the power of the right numbers divided by that of the error, over
 * all samples (Oppenheim, Schafer, Discrete-Time Signal Processing, section 4.8.3). Infinite without an error.
 */
export function signalToNoise(against: Against, output: string | undefined): Meter {
  let [signal, noise] = [0, 0];
  return {
    add(...sample) {
      const [ours, right] = pairOf('snr', against, output, sample);
      for (let at = 0; at < ours.length; at++) {
        signal += right[at]! ** 2;
        noise += (ours[at]! - right[at]!) ** 2;
      }
    },
    value: () => (noise === 0 ? Infinity : 10 * Math.log10(signal / noise)),
  };
}

/**
 * Mean cosine between the output and the right numbers, one for each sample (Manning et al., Introduction to
 * Information Retrieval, 2008, section 6.3.1). Two outputs of zeros have a cosine of 1, one of them 0.
 */
export function meanCosine(against: Against, output: string | undefined): Meter {
  const mean = new Mean();
  return {
    add(...sample) {
      const [ours, right] = pairOf('cosine', against, output, sample);
      let [product, own, other] = [0, 0, 0];
      for (let at = 0; at < ours.length; at++) {
        product += ours[at]! * right[at]!;
        own += ours[at]! ** 2;
        other += right[at]! ** 2;
      }
      if (own === 0 || other === 0) mean.add(own === other ? 1 : 0);
      else mean.add(product / Math.sqrt(own) / Math.sqrt(other));
    },
    value: () => mean.value(),
  };
}

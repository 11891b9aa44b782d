// Which outputs of a model are inputs of its next run, by the names that exporters give them.

import { invalidArgument, show } from '../base/errors.js';
import type { ValueMetadata } from './plan.js';

/** An input, and the output that is its contents in the next run. */
export interface StatePair {
  /** Name of the input. */
  readonly past: string;
  /** Name of the output. */
  readonly present: string;
  /** The axis of the tokens; left out: the only open one behind the first. */
  readonly axis?: number;
  /**
   * Whether the first run computes it for good, as the keys and values of an encoder's result. Default:
   * whether the input's name has `encoder` or `cross` in it.
   */
  readonly once?: boolean;
}

/**
 * @internal The input that goes with the output of that name, as Optimum and onnxruntime-genai name them; undefined
 * if there is none.
 */
export function pastOf(present: string, inputs: readonly ValueMetadata[]): string | undefined {
  const names = [
    present.replace(/^present(_key_values)?/, 'past_key_values'),
    present.replace(/^present/, 'past'),
  ];
  return names.find((past) => past !== present && inputs.some(({ name }) => name === past));
}

/**
 * @internal The pairs of a model: those given, `{ present: past }` or a list, or with 'auto' those that names
 * tell. Throws INVALID_ARGUMENT for names that the model does not have.
 */
export function statePairs(
  given: unknown,
  inputs: readonly ValueMetadata[],
  outputs: readonly string[],
): StatePair[] {
  const isInput = (name: string) => inputs.some((input) => input.name === name);
  let pairs: StatePair[];
  if (given === 'auto' || given === undefined) {
    pairs = outputs.flatMap((present) => {
      const past = pastOf(present, inputs);
      return past === undefined ? [] : [{ past, present }];
    });
  } else if (Array.isArray(given)) {
    pairs = given as StatePair[];
  } else if (typeof given === 'object' && given !== null) {
    pairs = Object.entries(given).map(([present, past]) => ({ past: past as string, present }));
  } else {
    throw invalidArgument(
      `pairs must be 'auto', { present: past } or a list of pairs, not ${show(given)}`,
      'pairs',
    );
  }
  if (pairs.length === 0) {
    throw invalidArgument(
      'no output of the model is the past of its next run',
      'pairs',
      "Name the pairs: { 'present.0.key': 'past_key_values.0.key', ... }.",
    );
  }
  return pairs.map((pair) => {
    const { past, present, axis, once } = pair;
    if (!isInput(past)) {
      throw invalidArgument(`the model has no input ${show(past)}`, 'pairs', 'See inputNames.');
    }
    if (!outputs.includes(present)) {
      throw invalidArgument(
        `the model has no output ${show(present)}`,
        'pairs',
        'See outputNames.',
      );
    }
    return {
      past,
      present,
      once: once ?? /encoder|cross/.test(past),
      ...(axis === undefined ? {} : { axis }),
    };
  });
}

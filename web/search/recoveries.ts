// What a search varies: the bits, and the recovery methods from cheap to dear.

import { invalidArgument, show } from '../base/errors.js';
import type { BitFormat, SearchAttempt } from '../base/search_report.js';
import type { OperatorConfig, QuantizeConfig } from '../quantize/config.js';
import type { RecoveryLevel } from './search_options.js';

/** A set of recovery methods. */
interface Recoveries {
  /** Whether it takes so long that single operators are not varied with it. */
  dear: boolean;
  /** What the caller's config becomes. */
  of: (config: QuantizeConfig) => QuantizeConfig;
}

/** The rows from cheap to dear. 'default' leaves the caller's config as it is. */
export const recoveries: Readonly<Record<RecoveryLevel, Recoveries>> = {
  default: { dear: false, of: (config) => config },
  equalize: {
    dear: false,
    of: (config) => ({
      ...config,
      recover: [
        'equalize',
        'equalize_activations',
        'round_weights',
        'bias_correction',
        'float_sums',
        'float_answers',
      ],
    }),
  },
  auto: {
    dear: false,
    of: ({ recover: _, ...config }) => ({
      ...config,
      activations: { ...config.activations, observer: 'auto' },
      weights: { ...config.weights, observer: 'auto' },
    }),
  },
  adaround: {
    dear: true,
    of: (config) => ({
      ...config,
      recover: [
        'equalize_activations',
        'round_weights',
        'float_sums',
        'adaround',
        'empirical_bias',
      ],
    }),
  },
  block_reconstruction: {
    dear: true,
    of: (config) => ({
      ...config,
      recover: ['equalize_activations', 'round_weights', 'float_sums', 'block_reconstruction'],
    }),
  },
};

/** A configuration to try. */
export type Candidate = Pick<SearchAttempt, 'format' | 'recovery' | 'raised'>;

/** The bits of a format. */
export function bitsOf(format: BitFormat): { weights: number; activations: number } {
  const [, weights, activations] = /^W(\d+)A(\d+)$/.exec(format)!;
  return { weights: Number(weights), activations: Number(activations) };
}

/** Whether a format has more bits than another, and fewer of none. */
export function dominates(a: BitFormat, b: BitFormat): boolean {
  const [more, fewer] = [bitsOf(a), bitsOf(b)];
  return a !== b && more.weights >= fewer.weights && more.activations >= fewer.activations;
}

/**
 * The formats from the dearest to the cheapest one. In a file weights count for most, and while running the
 * activations, which have 16 bits or 8 in memory.
 */
export function byCost(formats: readonly BitFormat[], by: 'bytes' | 'ms'): BitFormat[] {
  const cost = (format: BitFormat) => {
    const { weights, activations } = bitsOf(format);
    return by === 'bytes' ? 100 * weights + activations : weights + 100 * activations;
  };
  return [...new Set(formats)].sort((a, b) => cost(b) - cost(a));
}

const settingsOf = (format: BitFormat): Pick<OperatorConfig, 'activations' | 'weights'> => {
  const { weights, activations } = bitsOf(format);
  return { weights: { bits: weights }, activations: { bits: activations } };
};

/** A pattern of `config.operators` that matches this operator alone, unlike any that a caller would write. */
export const patternOf = (name: string): string =>
  `(?:${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`;

/** The config of a candidate, made of the caller's. */
export function configFor(base: QuantizeConfig, candidate: Candidate): QuantizeConfig {
  const { format, recovery, raised } = candidate;
  const { activations, weights } = settingsOf(format);
  const config = recoveries[recovery as RecoveryLevel].of(base);
  const own = !raised || raised.to === 'float' ? null : settingsOf(raised.to);
  const operators = raised?.operators.map((name) => [patternOf(name), own] as const) ?? [];
  return {
    ...config,
    activations: { ...config.activations, ...activations },
    weights: { ...config.weights, ...weights },
    ...(operators.length > 0
      ? { operators: { ...config.operators, ...Object.fromEntries(operators) } }
      : {}),
  };
}

/**
 * The config with which `quantize()` makes what an attempt of a search measured. `config` is the one that was given to
 * the search. Throws INVALID_ARGUMENT where the attempt names recovery methods that no search has.
 */
export function configOfAttempt(
  attempt: Pick<SearchAttempt, 'format' | 'recovery' | 'raised'>,
  config: QuantizeConfig = {},
): QuantizeConfig {
  if (!Object.hasOwn(recoveries, attempt.recovery)) {
    throw invalidArgument(
      `no search has the recovery ${show(attempt.recovery)}`,
      'recovery',
      `One of ${Object.keys(recoveries).join(', ')}.`,
    );
  }
  return configFor(config, attempt);
}

/** A candidate in words, such as "W8A8, default, 3 operators in float". */
export function describe({ format, recovery, raised }: Candidate): string {
  const count = raised?.operators.length ?? 0;
  if (!raised || count === 0) return `${format}, ${recovery}`;
  const where = raised.to === 'float' ? 'in float' : raised.to;
  return `${format}, ${recovery}, ${count} ${count === 1 ? 'operator' : 'operators'} ${where}`;
}

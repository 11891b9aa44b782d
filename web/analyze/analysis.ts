// Interprets the quantizer's analysis: diagnoses in plain language, and the widths of layers that meet a
// budget at the least loss.

import { invalidArgument, show } from '../base/errors.js';
import { checkKind, checkOptions } from '../base/options.js';
import type { OperatorConfig } from '../quantize/config.js';
import type { Analysis, OperatorAnalysis, ValueAnalysis } from '../quantize/record.js';
import { leastNoise } from './knapsack.js';

/** A problem of an operator, and possible remedies. */
export interface Diagnosis {
  operator: string;
  aloneSnr: number | null;
  problem: string;
  suggestion: string;
}

const least = (snr: number | null) => snr ?? Infinity;

function explain(operator: OperatorAnalysis, values: Map<string, ValueAnalysis>): Diagnosis {
  const output = values.get(operator.value);
  const input = values.get(operator.input);
  const { name, aloneSnr, noise, weightSpread = 1, weightOutliers = 0 } = operator;
  const say = (problem: string, suggestion: string) => ({
    operator: name,
    aloneSnr,
    problem,
    suggestion,
  });
  const percent = (share: number) => `${(100 * share).toPrecision(2)} %`;
  for (const value of [output, input]) {
    if (!value) continue;
    if (value.clipped > 0.005) {
      return say(
        `${percent(value.clipped)} of '${value.name}' lie outside its range ${value.range.map((x) => x.toPrecision(3)).join(' .. ')}`,
        'calibrate on more typical samples, or use the observer minmax or auto',
      );
    }
    if (value.channelSpread > 8 && value.channelOutliers <= Math.max(1, value.channels / 16)) {
      return say(
        `the range of '${value.name}' is dominated by ${value.channelOutliers} of ${value.channels} channels, ${value.channelSpread.toFixed(0)} times the median`,
        'try recover: equalize_activations or channel_split, or the observer mse',
      );
    }
    if (value.zeros > 0.9 && value.max > 20 * value.scale) {
      return say(
        `${percent(value.zeros)} of '${value.name}' become 0: a few large values take the range`,
        'try the observer percentile or mse, or keep more bits for this operator',
      );
    }
  }
  if (weightSpread > 8) {
    return say(
      `its weights are dominated by ${weightOutliers} output channels, ${weightSpread.toFixed(0)} times the median`,
      'try perChannel: true, equalize or channel_split',
    );
  }
  if (noise && (noise['8'] ?? 0) > 1e-3) {
    return say('even 8 bits for its weights cost much at the outputs', 'keep it in float');
  }
  return say(
    'its values need a finer grid than they have',
    noise
      ? 'try adaround or block_reconstruction, more bits for this layer, or float'
      : 'try the observer auto or mse, or float for this operator',
  );
}

function checkAnalysis(analysis: unknown): void {
  const { operators, values } = (analysis ?? {}) as Partial<Analysis>;
  if (Array.isArray(operators) && Array.isArray(values)) return;
  throw invalidArgument(
    `${show(analysis)} is no analysis`,
    'analysis',
    'Give config.analysis of a model that was quantized with analyze: true.',
  );
}

/**
 * The operators with the largest errors of their own, the worst first, each with a reason and a suggestion.
 *
 * @throws RequantError INVALID_ARGUMENT for a value that is no analysis.
 */
export function diagnose(analysis: Analysis, count = 5): Diagnosis[] {
  checkAnalysis(analysis);
  checkKind(count, 'integer', 'count');
  const values = new Map(analysis.values.map((value) => [value.name, value]));
  return [...analysis.operators]
    .filter(({ aloneSnr }) => aloneSnr !== null && aloneSnr < 60)
    .sort((a, b) => least(a.aloneSnr) - least(b.aloneSnr))
    .slice(0, count)
    .map((operator) => explain(operator, values));
}

/** Width of a layer's weights; 32: the whole operator stays in float. */
export type Width = 2 | 4 | 8 | 32;

const allWidths: readonly Width[] = [8, 4, 2, 32];

/** One way to divide the bits. */
export interface FrontierPoint {
  /** Bytes of all layers' weights. */
  bytes: number;
  /** Milliseconds of all layers; 0 without latencies. */
  ms: number;
  /** Expected signal to noise of the outputs in dB. */
  snr: number;
  /** With `metric`: by how much the metric is expected to be worse than that of the float model, in its unit. */
  drop?: number;
  widths: Record<string, Width>;
}

/** Options of {@link mixedPrecision}. */
export interface MixedPrecisionOptions {
  /** Upper bound for the bytes of weights. */
  maxBytes?: number;
  /** Upper bound for the milliseconds spent in layers; needs `latencies`. */
  maxMs?: number;
  /**
   * Whether losses are those of the metric that the analysis was made with; only where two are equal the noise of
   * the outputs decides. Default false: the noise.
   */
  metric?: boolean;
  /** With `metric`: its largest expected drop, in its own unit; the cheapest point within it is chosen. */
  maxDrop?: number;
  /** Widths to choose from. Default 8, 4, 2 and 32 (float). */
  widths?: readonly Width[];
  /** Measured milliseconds by layer and width; a missing width counts as the next larger one. */
  latencies?: Readonly<Record<string, Readonly<Partial<Record<Width, number>>>>>;
}

/** The result of {@link mixedPrecision}. */
export interface MixedPrecision {
  /** Best trade-offs, largest first. */
  frontier: FrontierPoint[];
  /** The point of least noise that meets the budget, on the frontier or beside it. */
  chosen: FrontierPoint;
  /** The widths of `chosen`, for {@link QuantizeConfig.operators}. */
  operators: Record<string, OperatorConfig | null>;
}

interface Choice {
  width: Width;
  noise: number;
  /** By how much the metric is worse; 0 without one. */
  drop: number;
  /** What the choice of bits keeps low. */
  loss: number;
  bytes: number;
  ms: number;
}

/**
 * Chooses bits for every layer, with the least noise within the budget. The frontier starts with the least
 * noise of all and takes bits away where a byte (or, with `maxMs`, a millisecond) costs the least noise. The
 * noises of layers are taken as independent, as they nearly are.
 *
 * @throws RequantError INVALID_ARGUMENT for a value that is no analysis, for a bad option, and for a budget
 * that not even the smallest widths meet; the hint tells what they need.
 */
export function mixedPrecision(
  analysis: Analysis,
  options: MixedPrecisionOptions = {},
): MixedPrecision {
  checkAnalysis(analysis);
  checkOptions(
    options,
    {
      maxBytes: 'number',
      maxMs: 'number',
      metric: 'boolean',
      maxDrop: 'number',
      widths: 'any',
      latencies: 'object',
    },
    'options',
  );
  const { maxBytes, maxMs, metric = false, maxDrop, widths = allWidths, latencies = {} } = options;
  const measured = analysis.metric;
  if (metric && !measured) {
    throw invalidArgument(
      'the analysis was made without a metric',
      'options.metric',
      'Give metric and validation to quantize() beside analyze: true.',
    );
  }
  if (maxDrop !== undefined && !metric) {
    throw invalidArgument('maxDrop is of a metric', 'options.maxDrop', 'Give metric: true.');
  }
  const known = Array.isArray(widths) && widths.every((width) => allWidths.includes(width));
  if (!known || widths.length === 0) {
    throw invalidArgument(
      `options.widths is ${show(widths)}`,
      'options.widths',
      `It must be an array of ${allWidths.join(', ')}.`,
    );
  }
  if (maxMs !== undefined && Object.keys(latencies).length === 0) {
    throw invalidArgument('maxMs needs latencies', 'options.latencies', 'Measure them first.');
  }
  const layers = analysis.operators.filter(({ noise }) => noise !== undefined);
  const latencyOf = (name: string, width: Width) => {
    const own = latencies[name] ?? {};
    const known = ([2, 4, 8, 32] as const).filter((one) => own[one] !== undefined && one >= width);
    return known.length > 0 ? own[known[0]!]! : 0;
  };
  const dropAt = (values: Record<string, number> | undefined, width: Width) => {
    if (!metric || width === 32) return 0;
    const value = values?.[width] ?? NaN;
    const lost = measured!.better === 'higher' ? measured!.float - value : value - measured!.float;
    return Number.isNaN(lost) ? Infinity : Math.max(0, lost);
  };
  const choices = layers.map(({ name, weights = 0, noise = {}, metric: own }) =>
    widths
      .filter((width) => width === 32 || noise[width] !== undefined)
      .map((width): Choice => {
        const noisy = width === 32 ? 0 : noise[width]!;
        const drop = dropAt(own?.weights, width);
        return {
          width,
          noise: noisy,
          drop,
          // Noise is at most about 1, so that it decides among equal drops alone.
          loss: metric ? drop + 1e-9 * Math.min(noisy, 1) : noisy,
          bytes: Math.ceil((weights * width) / 8),
          ms: latencyOf(name, width),
        };
      })
      .sort((a, b) => a.loss - b.loss || a.bytes - b.bytes),
  );
  const without = layers[choices.findIndex((list) => list.length === 0)];
  if (without) {
    const what = `the analysis has none of the widths for "${without.name}"`;
    throw invalidArgument(what, 'options.widths');
  }
  const pointOf = (now: readonly Choice[]): FrontierPoint => {
    const sum = (get: (choice: Choice) => number) =>
      now.reduce((total, choice) => total + get(choice), 0);
    const noise = sum((choice) => choice.noise);
    return {
      bytes: sum((choice) => choice.bytes),
      ms: sum((choice) => choice.ms),
      snr: noise > 0 ? -10 * Math.log10(noise) : Infinity,
      ...(metric ? { drop: sum((choice) => choice.drop) } : {}),
      widths: Object.fromEntries(layers.map(({ name }, index) => [name, now[index]!.width])),
    };
  };
  const cost = (choice: Choice) => (maxMs !== undefined ? choice.ms : choice.bytes);
  const meets = ({ bytes, ms, drop = 0 }: FrontierPoint) =>
    (maxBytes === undefined || bytes <= maxBytes) &&
    (maxMs === undefined || ms <= maxMs) &&
    (maxDrop === undefined || drop <= maxDrop);
  const now = choices.map((list) => list[0]!);
  const frontier = [pointOf(now)];
  for (;;) {
    let best: { layer: number; choice: Choice; slope: number } | undefined;
    choices.forEach((list, layer) => {
      for (const choice of list) {
        const saved = cost(now[layer]!) - cost(choice);
        if (saved <= 0) continue;
        const slope = (choice.loss - now[layer]!.loss) / saved;
        if (!best || slope < best.slope) best = { layer, choice, slope };
      }
    });
    if (!best) break;
    now[best.layer] = best.choice;
    frontier.push(pointOf(now));
  }
  const taken = leastNoise(
    choices.map((list) => list.map((choice) => ({ noise: choice.loss, cost: cost(choice) }))),
    maxMs ?? maxBytes ?? Infinity,
  );
  const beside = taken && pointOf(taken.map((at, layer) => choices[layer]![at]!));
  // With a bound of the drop the cheapest point counts, otherwise the one of least loss.
  const meeting = frontier.filter(meets);
  const on = maxDrop === undefined ? meeting[0] : meeting.at(-1);
  const better = ({ snr, drop = 0 }: FrontierPoint, than: FrontierPoint) =>
    drop < (than.drop ?? 0) || (drop === (than.drop ?? 0) && snr > than.snr);
  // The convex frontier has few points: most budgets leave room for more than one of them.
  const chosen =
    maxDrop === undefined && beside && meets(beside) && !(on && !better(beside, on)) ? beside : on;
  if (!chosen) {
    const last = frontier.at(-1)!;
    const budget = maxMs ?? maxBytes;
    throw invalidArgument(
      `no division of bits meets the ${budget === undefined ? `drop of ${show(maxDrop)}` : `budget of ${show(budget)}`}`,
      maxMs !== undefined
        ? 'options.maxMs'
        : maxBytes !== undefined
          ? 'options.maxBytes'
          : 'options.maxDrop',
      `The smallest needs ${last.bytes} bytes and ${last.ms.toFixed(3)} ms.`,
    );
  }
  const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const operators = Object.fromEntries(
    Object.entries(chosen.widths).map(([name, bits]) => [
      escape(name),
      bits === 32 ? null : { weights: { bits } },
    ]),
  );
  return { frontier, chosen, operators };
}

// The report of compare(): its types, and how it follows from the core's JSON.

import type { MetricUnit } from '../metrics/unit.js';
import type { PlanMemory } from '../session/plan.js';

/** The difference of one output. */
export interface OutputDifference {
  name: string;
  /** Signal to noise ratio in dB; null when there is no difference, -Infinity where the float output is 0. */
  snr: number | null;
  cosine: number;
  maxAbs: number;
  meanAbs: number;
  /** Largest minus smallest value of the float model. */
  range: number;
  /**
   * The operands of the Concat that makes the output, if one does: an error in one with small values would
   * hardly show in the whole.
   */
  parts?: PartDifference[];
}

/** The difference of one operand of the Concat that makes an output. */
export type PartDifference = Omit<OutputDifference, 'parts'>;

/** The difference of one inner value. */
export interface LayerDifference {
  /** Name of the operator. */
  name: string;
  op: string;
  /** Name of the value. */
  value: string;
  /** Signal to noise ratio in dB with everything before it quantized as well; null: no difference. */
  snr: number | null;
  cosine: number;
  maxAbs: number;
  meanAbs: number;
  /** Largest minus smallest value of the float model. */
  range: number;
  /** The ratio when the operator gets exact inputs; missing where it was not measured. */
  aloneSnr?: number | null;
  aloneCosine?: number;
  aloneMaxAbs?: number;
}

/** The values of a metric for both models. */
export interface MetricValues {
  name: string;
  better: 'higher' | 'lower';
  /** Of a 'share' in [0, 1], a difference of 0.01 is one point. */
  unit: MetricUnit;
  float: number;
  candidate: number;
}

/** How a quantized model differs from the float model. */
export interface CompareReport {
  samples: number;
  labelled: number;
  outputs: OutputDifference[];
  /** With the option `metric`: what it says of both models. */
  metric?: MetricValues;
  /** Shares in [0, 1] by the first output; accuracies are null without labels. */
  top1: { float: number | null; candidate: number | null; agreement: number | null };
  /** Layers in the order of the graph, except those with NaN or infinity; empty unless `layerwise`. */
  layers: LayerDifference[];
  /**
   * Bytes of both models as the ONNX files that toOnnx() makes by default; for simulated grids, of the graph
   * that runs.
   */
  size: { floatBytes: number; candidateBytes: number };
  /** Medians of one run; ratio > 1: the candidate is faster. */
  latency: { floatMs: number; candidateMs: number; ratio: number };
  memory: { float: PlanMemory; candidate: PlanMemory };
}

/** @internal Whether no sample had NaN or infinity there, which the core writes as null. */
export function isFinite({ meanAbs }: { meanAbs: number | null }): boolean {
  return meanAbs !== null;
}

/** @internal The core reports counts instead of shares. */
export type CoreReport = Omit<CompareReport, 'top1'> & {
  top1: { float: number; candidate: number; agreement: number; rows: number };
};

interface Difference {
  snr: number | null;
  cosine: number | null;
  maxAbs: number | null;
}

// Replaces null in the core's JSON, which stands for numbers that are not finite: the SNR of no difference,
// and of no signal.
function settled<T extends Difference>(difference: T): T {
  const { snr, cosine, maxAbs } = difference;
  return { ...difference, snr: maxAbs === 0 ? null : (snr ?? -Infinity), cosine: cosine ?? 0 };
}

function settledLayer({ aloneSnr, aloneCosine, aloneMaxAbs, ...layer }: LayerDifference) {
  // The alone error is missing or not finite.
  if (aloneMaxAbs === undefined || aloneMaxAbs === null) return settled(layer);
  const alone = settled({ snr: aloneSnr!, cosine: aloneCosine!, maxAbs: aloneMaxAbs });
  return { ...settled(layer), aloneSnr: alone.snr, aloneCosine: alone.cosine, aloneMaxAbs };
}

/** @internal */
export function withShares(report: CoreReport): CompareReport {
  const { float, candidate, agreement, rows } = report.top1;
  const share = (count: number, of: number) => (of > 0 ? count / of : null);
  return {
    ...report,
    outputs: report.outputs.map((output) => ({
      ...settled(output),
      ...(output.parts ? { parts: output.parts.map(settled) } : {}),
    })),
    layers: report.layers.filter(isFinite).map(settledLayer),
    top1: {
      float: share(float, report.labelled),
      candidate: share(candidate, report.labelled),
      agreement: share(agreement, rows),
    },
  };
}

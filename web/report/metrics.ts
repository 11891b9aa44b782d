// The rows that every form of the report shows.

import type { CompareReport, LayerDifference } from '../analyze/compare_report.js';
import { formatValue } from '../metrics/unit.js';
import { formatBytes, formatDb, formatMs, formatNumber, formatShare } from './format.js';

/**
 * One line of the report: the quantity, the float model's value, the quantized model's, and both together.
 */
export interface MetricRow {
  name: string;
  float: string;
  candidate: string;
  /** Difference, ratio or agreement. */
  both: string;
}

/** The prefix of the names of rows that are parts of the row before. */
export const PART = '  ';

const times = (ratio: number) => (Number.isFinite(ratio) ? `${ratio.toFixed(2)} x` : '-');

/** The task's own measure, if one was asked for. */
function taskRows({ metric }: CompareReport): MetricRow[] {
  if (!metric) return [];
  const { name, unit, float, candidate } = metric;
  const change = candidate - float;
  const sign = change >= 0 ? '+' : '';
  const both = !Number.isFinite(change)
    ? ''
    : unit === 'share'
      ? `${sign}${(100 * change).toFixed(2)} points`
      : `${sign}${formatValue(change, unit)}`;
  return [{ name, float: formatValue(float, unit), candidate: formatValue(candidate, unit), both }];
}

/** Accuracy, size, latency and memory of both models side by side. */
export function metricRows(report: CompareReport): MetricRow[] {
  const { top1, size, latency, memory } = report;
  const difference =
    top1.float === null || top1.candidate === null
      ? ''
      : `${top1.candidate >= top1.float ? '+' : ''}${((top1.candidate - top1.float) * 100).toFixed(2)} points`;
  return [
    ...(report.labelled > 0
      ? [
          {
            name: 'top-1 accuracy',
            float: formatShare(top1.float),
            candidate: formatShare(top1.candidate),
            both: difference,
          },
        ]
      : []),
    ...taskRows(report),
    { name: 'same top-1', float: '', candidate: '', both: formatShare(top1.agreement) },
    {
      name: 'size as ONNX',
      float: formatBytes(size.floatBytes),
      candidate: formatBytes(size.candidateBytes),
      both: `${times(size.floatBytes / size.candidateBytes)} smaller`,
    },
    {
      name: 'latency (median)',
      float: formatMs(latency.floatMs),
      candidate: formatMs(latency.candidateMs),
      both: `${times(latency.ratio)} as fast`,
    },
    {
      name: 'peak memory',
      float: formatBytes(memory.float.arena),
      candidate: formatBytes(memory.candidate.arena),
      both: `${times(memory.float.arena / memory.candidate.arena)} smaller`,
    },
    {
      name: `${PART}lower bound`,
      float: formatBytes(memory.float.lowerBound),
      candidate: formatBytes(memory.candidate.lowerBound),
      both: '',
    },
    {
      name: 'packed weights',
      float: formatBytes(memory.float.packedWeights),
      candidate: formatBytes(memory.candidate.packedWeights),
      both: '',
    },
  ];
}

/** The difference of every output: name, SNR, cosine, largest and mean error, range. */
export function outputRows(report: CompareReport): string[][] {
  const rows = report.outputs.flatMap((output) => [
    output,
    ...(output.parts ?? []).map((part) => ({ ...part, name: `${PART}${part.name}` })),
  ]);
  return rows.map(({ name, snr, cosine, maxAbs, meanAbs, range }) => [
    name,
    formatDb(snr),
    cosine.toFixed(6),
    formatNumber(maxAbs),
    formatNumber(meanAbs),
    formatNumber(range),
  ]);
}

/** Header of {@link outputRows}. */
export const outputHeader = ['output', 'SNR', 'cosine', 'max error', 'mean error', 'range'];

/** Layers, the worst first; those without any error last. */
export function worstLayers(report: CompareReport, count = Infinity): LayerDifference[] {
  const noise = ({ snr }: LayerDifference) => snr ?? Infinity;
  const sorted = [...report.layers].sort((a, b) =>
    noise(a) < noise(b) ? -1 : noise(a) > noise(b) ? 1 : 0,
  );
  return count === Infinity ? sorted : sorted.slice(0, count);
}

/** One layer as cells under {@link layerHeader}. */
export function layerRow(layer: LayerDifference): string[] {
  return [
    layer.name,
    layer.op,
    formatDb(layer.snr),
    formatDb(layer.aloneSnr),
    layer.cosine.toFixed(5),
    formatNumber(layer.maxAbs),
    formatNumber(layer.range),
  ];
}

/** Header of {@link layerRow}. */
export const layerHeader = [
  'layer',
  'operator',
  'SNR',
  'SNR alone',
  'cosine',
  'max error',
  'range',
];

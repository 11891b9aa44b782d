// `requant optimize --substitute`: replaces operators by cheaper ones and reports costs and gains.

import {
  type SubstitutionPass,
  type SubstitutionReport,
  substitute,
  substitutions,
} from '../analyze/substitute.js';
import { openDataset } from '../dataset/node.js';
import { take } from '../dataset/sample.js';
import type { Model } from '../model/model.js';
import { shorten } from '../report/format.js';
import { formatMs, formatNumber, formatShare, table } from '../report/index.js';
import { UsageError, type Values, integer, openOptions, required, words } from './args.js';
import { Progress, type Streams } from './output.js';

function decibels(snr: number | null | undefined): string {
  if (snr === undefined) return '';
  return snr === null ? 'exact' : `${snr.toFixed(1)} dB`;
}

/** The report for a terminal. */
export function formatSubstitution(report: SubstitutionReport): string {
  const { operators, outputs, top1, latency } = report;
  const rows = operators.map((operator) => [
    shorten(operator.name, 36),
    operator.before,
    operator.after,
    decibels(operator.aloneSnr),
    operator.aloneMaxAbs === undefined ? '' : formatNumber(operator.aloneMaxAbs),
    decibels(operator.snr),
    formatNumber(operator.maxAbs),
    formatMs(operator.beforeMs),
    formatMs(operator.afterMs),
  ]);
  const header = ['operator', 'before', 'after', 'SNR alone', 'max', 'SNR', 'max', 'time', 'now'];
  const share = (value: number | null) => (value === null ? 'no labels' : formatShare(value));
  return [
    ...(rows.length > 0
      ? [table(header, rows, [0, 1, 2])]
      : ['nothing in this network to substitute']),
    table(
      ['output', 'SNR', 'max', 'cosine'],
      outputs.map(({ name, snr, maxAbs, cosine }) => [
        name,
        decibels(snr),
        formatNumber(maxAbs),
        cosine.toFixed(6),
      ]),
      [0],
    ),
    `top-1 on ${report.samples} samples: before ${share(top1.before)}, after ${share(top1.after)}, the same ${share(top1.agreement)}`,
    `time of a run: ${formatMs(latency.beforeMs)} before, ${formatMs(latency.afterMs)} after (${latency.ratio.toFixed(2)} times as fast)`,
  ].join('\n\n');
}

/** Runs --substitute; the caller disposes of the model that it returns. */
export async function runSubstitute(
  values: Values,
  model: Model,
  streams: Streams,
): Promise<{ model: Model; report: SubstitutionReport }> {
  const passes = words(values, 'substitute') ?? [];
  const unknown = passes.find((pass) => !(substitutions as readonly string[]).includes(pass));
  if (unknown !== undefined || passes.length === 0) {
    throw new UsageError(
      `--substitute takes ${substitutions.join(', ')}${unknown === undefined ? '' : `, not ${unknown}`}`,
    );
  }
  const data = await openDataset(required(values, 'data'), model.info.inputs, openOptions(values));
  const progress = new Progress(streams);
  try {
    return await substitute(model, {
      passes: passes as SubstitutionPass[],
      dataset: take(data, integer(values, 'max-samples') ?? 32),
      onProgress: ({ phase, done, total }) =>
        progress.show(phase === 'compare' ? 'comparing' : 'timing', done, total),
    });
  } finally {
    progress.clear();
  }
}

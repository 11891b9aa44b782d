// `requant optimize --legalize`: writes a quantized model in plain integer operators.

import type { LegalizedModel, Model } from '../model/model.js';
import { shorten } from '../report/format.js';
import { table } from '../report/index.js';
import { UsageError, type Values, oneOf } from './args.js';

/** The report for a terminal. */
export function formatLegalized({ legalized, left }: LegalizedModel): string {
  const counts = new Map<string, number>();
  for (const { type } of legalized) counts.set(type, (counts.get(type) ?? 0) + 1);
  const rows = [...counts].map(([type, count]) => [type, String(count)]);
  const stay = left.map(({ name, type, reason }) => [shorten(name, 36), type, reason]);
  return [
    ...(rows.length > 0 ? [table(['in plain integer operators', 'count'], rows, [0])] : []),
    ...(stay.length > 0 ? [table(['stays', 'operator', 'why'], stay, [0, 1, 2])] : []),
  ].join('\n\n');
}

/** Runs --legalize; the caller disposes of the model that it returns. */
export function runLegalize(values: Values, model: Model): Promise<LegalizedModel> {
  const unused = ['passes', 'disable', 'dump-passes', 'dump', 'substitute'].find(
    (name) => values[name] !== undefined,
  );
  if (unused !== undefined) throw new UsageError(`--${unused} has no effect with --legalize`);
  const decomposition = oneOf(values, 'legalize', ['subtract_first', 'four_terms'] as const);
  return model.legalize(decomposition === undefined ? {} : { decomposition });
}

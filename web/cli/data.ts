// The samples and the metrics of a command line.

import { readFile } from 'node:fs/promises';
import { RequantError } from '../base/errors.js';
import { openDataset } from '../dataset/node.js';
import { type Dataset, take, withTargets } from '../dataset/sample.js';
import type { MetricSpec } from '../metrics/table.js';
import type { Model } from '../model/model.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  integer,
  openOptions,
  required,
  text,
} from './args.js';

/** The options of commands that measure by a metric. */
export const metricOptions: CommandSpec['options'] = {
  metric: {
    type: 'string',
    value: 'M',
    help: 'a measure of the task: top1, top5, agreement, ...; or JSON, such as {"name":"topk","k":3}',
  },
  targets: {
    type: 'string',
    value: 'FILE',
    help: 'JSON: an array with what is right for each sample, in the form that the metric takes',
  },
};

/** A JSON file. */
export async function readJson(file: string): Promise<unknown> {
  let content: string;
  try {
    content = await readFile(file, 'utf8');
  } catch (error) {
    throw new RequantError('LOAD_FAILED', `cannot read ${file}: ${(error as Error).message}`, {
      value: file,
      cause: error,
    });
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    throw new RequantError('INVALID_ARGUMENT', `${file} is no JSON: ${(error as Error).message}`, {
      value: file,
      cause: error,
    });
  }
}

/** A metric by its name, with a number behind some names ("top3", "recall@5"), or as JSON. */
export function parseMetric(given: string, option: string): MetricSpec {
  if (given.startsWith('{')) {
    try {
      return JSON.parse(given) as MetricSpec;
    } catch (error) {
      throw new UsageError(`--${option} is no JSON: ${(error as Error).message}`);
    }
  }
  const [, top, recall] = /^(?:top(\d+)|recall@(\d+))$/.exec(given) ?? [];
  if (top !== undefined && !['1', '5'].includes(top)) return { name: 'topk', k: Number(top) };
  if (recall !== undefined) return { name: 'recall', k: Number(recall) };
  return given as MetricSpec;
}

/** The value of --metric as an option. */
export function metricFrom(values: Values): { metric?: MetricSpec } {
  const given = text(values, 'metric');
  return given === undefined ? {} : { metric: parseMetric(given, 'metric') };
}

/** A dataset with the targets of --targets, if they are given. */
export async function withTargetsFrom(values: Values, dataset: Dataset): Promise<Dataset> {
  const file = text(values, 'targets');
  if (file === undefined) return dataset;
  const targets = await readJson(file);
  if (Array.isArray(targets)) return withTargets(dataset, targets);
  throw new RequantError('INVALID_ARGUMENT', `${file} is no array`, {
    value: file,
    hint: 'It must have one target for each sample.',
  });
}

/** The samples of --data, as far as --max-samples says, with labels and targets. */
export async function openData(
  values: Values,
  model: Model,
  { targets = true }: { targets?: boolean } = {},
): Promise<Dataset> {
  const { inputs } = model.info;
  const data = await openDataset(required(values, 'data'), inputs, openOptions(values));
  const all = targets ? await withTargetsFrom(values, data) : data;
  const most = integer(values, 'max-samples');
  return most === undefined ? all : take(all, most);
}

// The options of the command `quantize` that make it a gate, and what it writes about the search.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { RequantError } from '../base/errors.js';
import type { BitFormat, SearchReport } from '../base/search_report.js';
import { openDataset } from '../dataset/node.js';
import type { Dataset } from '../dataset/sample.js';
import type { MetricSpec } from '../metrics/table.js';
import type { Model } from '../model/model.js';
import { formatSearch, searchHtml } from '../report/index.js';
import {
  type Floor,
  type QuantizeOptions,
  type RecoveryLevel,
  recoveryLevels,
} from '../search/search_options.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  integer,
  oneOf,
  openOptions,
  real,
  text,
  words,
} from './args.js';
import { metricFrom, metricOptions, parseMetric, withTargetsFrom } from './data.js';
import { write } from './models.js';
import type { Streams } from './output.js';

/** Options of the samples that measure. */
export const validationOptions: CommandSpec['options'] = {
  ...metricOptions,
  validation: {
    type: 'string',
    value: 'PATH',
    help: 'samples that measure, in the form of --data; default: those of --data',
  },
  'validation-labels': { type: 'string', value: 'FILE', help: 'their labels, as --labels' },
};

/** Options of the gate. */
export const gateOptions: CommandSpec['options'] = {
  floor: {
    type: 'string',
    value: 'BOUND',
    help: 'find the cheapest that is good enough: top1:0.5 (points below float), top1>=0.7, mse<=0.1',
  },
  ...validationOptions,
  'max-ms': { type: 'string', value: 'MS', help: 'of a search: a run takes no longer' },
  cheapest: { type: 'string', value: 'BY', help: 'of a search: bytes (default) or ms' },
  formats: { type: 'string', value: 'A,B', help: 'bits to try; default W8A8,W4A8,W8A16' },
  recoveries: {
    type: 'string',
    value: 'A,B',
    help: `recovery to try: ${recoveryLevels.join(', ')}; default all`,
  },
  'no-float': { type: 'boolean', help: 'of a search: no single operators in float' },
  'max-attempts': { type: 'string', value: 'N', help: 'try at most N configurations' },
  'max-seconds': { type: 'string', value: 'S', help: 'begin no further one after S seconds' },
  html: { type: 'string', value: 'FILE', help: 'write the search as an HTML page' },
  state: {
    type: 'string',
    value: 'FILE',
    help: 'write the state of the search behind every step, and go on with it if it exists',
  },
};

/** The value of --floor: "top1:0.5", "top1>=0.7", "mse<=0.1"; without a name the metric is that of --metric. */
export function parseFloor(given: string, metric: MetricSpec | undefined): Floor {
  const parts = /^(.*?)(:|>=|<=)\s*([-+.\deE]+)$/.exec(given.trim());
  const bound = Number(parts?.[3]);
  if (!parts || !Number.isFinite(bound)) {
    throw new UsageError(
      `--floor is "${given}", it must be such as top1:0.5, top1>=0.7 or mse<=0.1`,
    );
  }
  const name = parts[1]!.trim();
  if ((name !== '') === (metric !== undefined)) {
    throw new UsageError(
      name === '' ? `--floor "${given}" names no metric` : 'give the metric in --floor or --metric',
    );
  }
  const key = { ':': 'drop', '>=': 'atLeast', '<=': 'atMost' }[parts[2]!] as 'drop';
  return { metric: name === '' ? metric! : parseMetric(name, 'floor'), [key]: bound };
}

/** The samples that measure: those of --validation, or of --data. */
export async function openValidation(
  values: Values,
  model: Model,
  data: Dataset,
  streams: Streams,
): Promise<Dataset> {
  const place = text(values, 'validation');
  const labels = text(values, 'validation-labels');
  if (place === undefined) {
    if (labels !== undefined) throw new UsageError('--validation-labels is of --validation');
    streams.err('warning: the calibration samples measure as well; --validation names others\n');
    return withTargetsFrom(values, data);
  }
  const options = openOptions({ ...values, labels });
  return withTargetsFrom(values, await openDataset(place, model.info.inputs, options));
}

const ofSearch = Object.keys(gateOptions).filter((name) => !['floor', 'metric'].includes(name));

/** The options of a search; undefined without --floor and --metric. */
export async function gateOf(
  values: Values,
  model: Model,
  data: Dataset,
  streams: Streams,
): Promise<Partial<QuantizeOptions> | undefined> {
  const { metric } = metricFrom(values);
  const given = text(values, 'floor');
  const bytes = integer(values, 'budget', 1);
  const ms = real(values, 'max-ms', 1e-6, 1e9);
  if (given === undefined && metric === undefined) {
    const stray = ofSearch.find((name) => values[name] !== undefined);
    if (stray !== undefined) throw new UsageError(`--${stray} needs --floor or --metric`);
    return undefined;
  }
  if (given === undefined && bytes === undefined && ms === undefined) {
    throw new UsageError('--metric needs --floor, --budget or --max-ms');
  }
  const formats = words(values, 'formats') as BitFormat[] | undefined;
  const recoveries = words(values, 'recoveries') as RecoveryLevel[] | undefined;
  const by = oneOf(values, 'cheapest', ['bytes', 'ms'] as const);
  const maxAttempts = integer(values, 'max-attempts');
  const maxSeconds = real(values, 'max-seconds', 1e-3, 1e9);
  const state = text(values, 'state');
  return {
    validation: await openValidation(values, model, data, streams),
    ...(given === undefined ? { metric: metric! } : { floor: parseFloor(given, metric) }),
    ...(bytes === undefined && ms === undefined
      ? {}
      : {
          budget: {
            ...(bytes === undefined ? {} : { bytes }),
            ...(ms === undefined ? {} : { ms }),
          },
        }),
    search: {
      ...(formats ? { formats } : {}),
      ...(recoveries ? { recoveries } : {}),
      ...(by ? { by } : {}),
      ...(values['no-float'] ? { float: false } : {}),
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
      ...(maxSeconds === undefined ? {} : { maxSeconds }),
    },
    ...(state === undefined ? {} : await stateIn(state, streams)),
  };
}

async function stateIn(file: string, streams: Streams): Promise<Partial<QuantizeOptions>> {
  return {
    onCheckpoint: (bytes) => write(file, bytes, streams),
    ...(existsSync(file) ? { resume: await readFile(file) } : {}),
  };
}

/** Writes the report of a search, which found something or not. */
export async function writeSearch(
  values: Values,
  report: SearchReport,
  model: string,
  streams: Streams,
): Promise<void> {
  const html = text(values, 'html');
  if (html !== undefined) {
    await write(html, searchHtml(report, { subtitle: path.basename(model) }), streams);
  }
  if (!values['json']) streams.out(`${formatSearch(report)}\n\n`);
}

/** Does `work`; if nothing was good enough, it writes what was tried. */
export async function reportingSearch<T>(
  values: Values,
  model: string,
  streams: Streams,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RequantError && error.search) {
      await writeSearch(values, error.search, model, streams);
      if (values['json']) streams.out(`${JSON.stringify({ search: error.search }, null, 2)}\n`);
    }
    throw error;
  }
}

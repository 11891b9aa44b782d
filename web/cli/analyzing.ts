// The command `analyze`: the costs of quantization, operator by operator, and the widths that meet a budget.

import path from 'node:path';
import { diagnose, mixedPrecision } from '../analyze/analysis.js';
import { type Latencies, measureLatencies } from '../analyze/latencies.js';
import { type Dataset, feedsOf, take } from '../dataset/sample.js';
import type { Model } from '../model/model.js';
import type { QuantizeConfig } from '../quantize/config.js';
import { oneLine } from '../report/format.js';
import { analysisHtml, formatAnalysis, formatBytes } from '../report/index.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  numbers,
  required,
  text,
  threadsOption,
} from './args.js';
import { metricFrom, openData } from './data.js';
import { openValidation, validationOptions } from './gating.js';
import { loadFloat, write } from './models.js';
import { Progress, type Streams } from './output.js';
import { quantizeWithProgress, readConfig } from './quantizing.js';

export const analyzeSpec: CommandSpec = {
  name: 'analyze',
  summary: 'Tell what quantization costs where, why, and what may help.',
  positionals: ['MODEL'],
  options: {
    config: { type: 'string', short: 'c', value: 'FILE', help: 'JSON with a QuantizeConfig' },
    bits: { type: 'string', value: 'N', help: 'of the weights, 1 to 32' },
    'activation-bits': { type: 'string', value: 'N', help: 'of the activations, 1 to 32' },
    budget: { type: 'string', value: 'BYTES', help: 'choose bits so that weights take no more' },
    'max-ms': {
      type: 'string',
      value: 'MS',
      help: 'choose bits so that layers take no longer on this machine, which is measured',
    },
    ...validationOptions,
    html: { type: 'string', value: 'FILE', help: 'write the report as an HTML page' },
    layers: { type: 'string', value: 'N', help: 'operators to list, worst first; default 8' },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
};

/** Measures latencies with the first sample, at all widths. */
async function latenciesOf(
  model: Model,
  data: Dataset,
  config: QuantizeConfig,
  streams: Streams,
): Promise<Latencies> {
  const progress = new Progress(streams);
  try {
    for await (const feeds of feedsOf(take(data, 1))) {
      return await measureLatencies(model, {
        feeds,
        ...(config.activations ? { activations: config.activations } : {}),
        onProgress: ({ done, total }) => progress.show('measuring layers', done, total),
      });
    }
    return {};
  } finally {
    progress.clear();
  }
}

export async function runAnalyze(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  required(values, 'data');
  const config = await readConfig(values);
  const layers = integer(values, 'layers', 0) ?? 8;
  const maxBytes = integer(values, 'budget', 1);
  const maxMs = numbers(values, 'max-ms')?.[0];
  const stray = Object.keys(validationOptions).find((name) => values[name] !== undefined);
  if (stray !== undefined && values['metric'] === undefined) {
    throw new UsageError(`--${stray} needs --metric`);
  }
  const chooses = maxBytes !== undefined || maxMs !== undefined;
  const html = text(values, 'html');
  using model = await loadFloat(file!, streams);
  const data = await openData(values, model, { targets: false });
  const metric = metricFrom(values);
  const measured =
    metric.metric === undefined
      ? {}
      : { ...metric, validation: await openValidation(values, model, data, streams) };
  using quantized = await quantizeWithProgress(model, data, config, streams, {
    analyze: true,
    ...measured,
  });
  const analysis = quantized.config.analysis!;
  const calibrationSamples = data.length;
  const latencies =
    maxMs === undefined ? undefined : await latenciesOf(model, data, config, streams);
  const mixed = mixedPrecision(analysis, {
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(maxMs === undefined ? {} : { maxMs, latencies: latencies! }),
    ...(metric.metric === undefined ? {} : { metric: true }),
  });
  if (html !== undefined) {
    const { frontier, chosen } = mixed;
    const marked = chooses ? { chosen } : {};
    await write(
      html,
      analysisHtml(analysis, {
        subtitle: path.basename(file!),
        frontier,
        calibrationSamples,
        by: maxMs === undefined ? 'bytes' : 'ms',
        ...marked,
      }),
      streams,
    );
  }
  if (values['json']) {
    const json = {
      calibrationSamples,
      analysis,
      diagnoses: diagnose(analysis),
      ...mixed,
      ...(latencies ? { latencies } : {}),
    };
    streams.out(`${JSON.stringify(json, null, 2)}\n`);
    return;
  }
  streams.out(`${formatAnalysis(analysis, { layers, calibrationSamples })}\n`);
  if (chooses) {
    const { bytes, ms, snr, widths } = mixed.chosen;
    const time = latencies ? `, ${ms.toFixed(2)} ms of layers` : '';
    streams.out(`\n${formatBytes(bytes)} of weights${time}, about ${snr.toFixed(1)} dB:\n`);
    for (const [name, width] of Object.entries(widths)) {
      streams.out(`  ${oneLine(name)}: ${width === 32 ? 'float' : `${width} bits`}\n`);
    }
  }
  if (html !== undefined) streams.out(`\nwrote ${html}\n`);
}

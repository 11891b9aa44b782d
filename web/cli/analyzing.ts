// The command `analyze`: what quantization costs where, and which widths meet a budget.

import { diagnose, mixedPrecision } from '../analysis.js';
import { analysisHtml, formatAnalysis, formatBytes } from '../report/index.js';
import {
  type CommandSpec,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  required,
  text,
  threadsOption,
} from './args.js';
import { load, write } from './models.js';
import type { Streams } from './output.js';
import { openData, quantizeWithProgress, readConfig } from './quantizing.js';

export const analyzeSpec: CommandSpec = {
  name: 'analyze',
  summary: 'Tell what quantization costs where, why, and what may help.',
  positionals: ['MODEL'],
  options: {
    config: { type: 'string', short: 'c', value: 'FILE', help: 'JSON with a QuantizeConfig' },
    bits: { type: 'string', value: 'N', help: 'of the weights, 2 to 32' },
    'activation-bits': { type: 'string', value: 'N', help: 'of the activations, 2 to 32' },
    budget: { type: 'string', value: 'BYTES', help: 'choose bits so that weights take no more' },
    html: { type: 'string', value: 'FILE', help: 'write the report as an HTML page' },
    layers: { type: 'string', value: 'N', help: 'operators to list, worst first; default 8' },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
};

export async function runAnalyze(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  required(values, 'data');
  const config = await readConfig(values);
  const layers = integer(values, 'layers', 0) ?? 8;
  const maxBytes = integer(values, 'budget', 1);
  const html = text(values, 'html');
  using model = await load(file!, streams);
  const data = await openData(values, model);
  using quantized = await quantizeWithProgress(model, data, config, streams, true);
  const analysis = quantized.config.analysis!;
  const mixed = mixedPrecision(analysis, maxBytes === undefined ? {} : { maxBytes });
  if (html !== undefined) {
    const { frontier, chosen } = mixed;
    const marked = maxBytes === undefined ? {} : { chosen };
    await write(html, analysisHtml(analysis, { subtitle: file!, frontier, ...marked }));
  }
  if (values['json']) {
    const json = { analysis, diagnoses: diagnose(analysis), ...mixed };
    streams.out(`${JSON.stringify(json, null, 2)}\n`);
    return;
  }
  streams.out(`${formatAnalysis(analysis, { layers })}\n`);
  if (maxBytes !== undefined) {
    const { bytes, snr, widths } = mixed.chosen;
    streams.out(`\n${formatBytes(bytes)} of weights, about ${snr.toFixed(1)} dB:\n`);
    for (const [name, width] of Object.entries(widths)) {
      streams.out(`  ${name}: ${width === 32 ? 'float' : `${width} bits`}\n`);
    }
  }
  if (html !== undefined) streams.out(`\nwrote ${html}\n`);
}

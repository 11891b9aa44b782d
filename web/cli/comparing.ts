// The command `compare`, and how other commands compare.

import path from 'node:path';
import { compare } from '../analyze/compare.js';
import type { CompareReport } from '../analyze/compare_report.js';
import type { Model } from '../model/model.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { formatReport, formatShare, htmlReport } from '../report/index.js';
import {
  CheckFailed,
  type CommandSpec,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  real,
  required,
  text,
  threadsOption,
} from './args.js';
import { metricFrom, metricOptions, openData } from './data.js';
import { load, loadFloat, requantizeOption, sessionOptions, write } from './models.js';
import { Progress, type Streams } from './output.js';

export async function compareWithProgress(
  model: Model,
  candidate: Model | QuantizedModel,
  options: Parameters<typeof compare>[2],
  streams: Streams,
): Promise<CompareReport> {
  const progress = new Progress(streams);
  try {
    return await compare(model, candidate, {
      ...options,
      onProgress: ({ done, total }) => progress.show('comparing', done, total),
    });
  } finally {
    progress.clear();
  }
}

/** The option of commands that tell how similar two models are; {@link checkAgreement} reads it. */
export const agreementOption: CommandSpec['options'] = {
  'min-agreement': {
    type: 'string',
    value: 'SHARE',
    help: 'exit code 1 where fewer answers are the same, 0 to 1; default 0.5 for outputs below 10 dB',
  },
};

/**
 * Throws CheckFailed for models that hardly come from one network: the share of equal answers is below
 * --min-agreement, or, without that option, below a half with outputs that are mostly noise.
 */
export function checkAgreement(values: Values, { top1, outputs }: CompareReport): void {
  const asked = real(values, 'min-agreement', 0, 1);
  const { agreement } = top1;
  if (agreement === null) return;
  const noisy = outputs.some(({ snr }) => snr !== null && snr < 10);
  if (asked === undefined ? agreement >= 0.5 || !noisy : agreement >= asked) return;
  const share = formatShare(agreement);
  throw new CheckFailed(
    asked === undefined
      ? `only ${share} of the answers are the same, and the outputs are mostly noise: are these the same network, and the samples what it expects?`
      : `${share} of the answers are the same, --min-agreement asks for ${formatShare(asked)}`,
  );
}

export const compareSpec: CommandSpec = {
  name: 'compare',
  summary: 'Hold a quantized model against the float model it came from.',
  positionals: ['FLOAT', 'QUANTIZED'],
  options: {
    html: { type: 'string', value: 'FILE', help: 'write the report as an HTML page' },
    layers: { type: 'string', value: 'N', help: 'layers to list, worst first; default 8, 0: none' },
    alone: { type: 'string', value: 'N', help: 'samples for layers alone; default 2, 0: none' },
    requantize: requantizeOption,
    ...metricOptions,
    ...agreementOption,
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
};

export async function runCompare(
  values: Values,
  [floatFile, quantizedFile]: string[],
  streams: Streams,
): Promise<void> {
  required(values, 'data');
  const layers = integer(values, 'layers', 0) ?? 8;
  const html = text(values, 'html');
  const aloneSamples = integer(values, 'alone', 0);
  const layerwise = layers > 0 || html !== undefined;
  using model = await loadFloat(floatFile!, streams);
  using candidate = await load(quantizedFile!, streams);
  const dataset = await openData(values, model);
  const report = await compareWithProgress(
    model,
    candidate,
    {
      dataset,
      layerwise,
      ...sessionOptions(values),
      ...metricFrom(values),
      ...(aloneSamples === undefined || !layerwise ? {} : { aloneSamples }),
    },
    streams,
  );
  if (html !== undefined) {
    const subtitle = `${path.basename(quantizedFile!)} against ${path.basename(floatFile!)}`;
    await write(html, htmlReport(report, { subtitle }), streams);
  }
  if (values['json']) streams.out(`${JSON.stringify(report, null, 2)}\n`);
  else {
    streams.out(`${formatReport(report, { layers })}\n`);
    if (html !== undefined) streams.out(`\nwrote ${html}\n`);
  }
  checkAgreement(values, report);
}

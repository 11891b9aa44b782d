// The commands about quantization: quantize, compare.

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { mixedPrecision } from '../analyze/analysis.js';
import { type CompareReport, compare } from '../analyze/compare.js';
import { RequantError } from '../base/errors.js';
import { checkKind } from '../base/options.js';
import { openDataset } from '../dataset/node.js';
import { type Dataset, feedsOf, take } from '../dataset/sample.js';
import type { Model } from '../model/model.js';
import { type QuantizeConfig, type Recovery, type Target, targets } from '../quantize/config.js';
import { quantize } from '../quantize/quantize.js';
import type { ExportOptions, OnnxFormat, QuantizedModel } from '../quantize/quantized_model.js';
import { type QuantizationRecord, configOf } from '../quantize/record.js';
import { oneLine } from '../report/format.js';
import { formatBytes, formatReport, formatShare, htmlReport } from '../report/index.js';
import {
  CheckFailed,
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  oneOf,
  openOptions,
  real,
  required,
  text,
  threadsOption,
  words,
} from './args.js';
import { load, requantizeOption, sessionOptions, write } from './models.js';
import { Progress, type Streams } from './output.js';

/** Options for writing the quantized file. */
export const outputOptions: CommandSpec['options'] = {
  output: { type: 'string', short: 'o', value: 'FILE', help: 'the quantized ONNX file' },
  format: { type: 'string', value: 'F', help: 'qdq (default), qoperator or qonnx' },
  int4: { type: 'boolean', help: 'of qdq: what has 4 bits as int4 and uint4 (opset 21)' },
  int2: { type: 'boolean', help: 'the same, and what has 2 bits as int2 and uint2 (opset 25)' },
};

/** Options for quantizing. */
export const configOptions: CommandSpec['options'] = {
  config: {
    type: 'string',
    short: 'c',
    value: 'FILE',
    help: "JSON: a QuantizeConfig, a --record, or another tool's scales",
  },
  target: { type: 'string', value: 'T', help: 'settings that a runtime expects, such as tflite' },
  recover: { type: 'string', value: 'A,B', help: 'recovery methods; none: without' },
  bits: { type: 'string', value: 'N', help: 'of the weights, 1 to 32' },
  'activation-bits': { type: 'string', value: 'N', help: 'of the activations, 1 to 32' },
};

export const quantizeSpec: CommandSpec = {
  name: 'quantize',
  summary: 'Quantize a float model, calibrated on sample inputs.',
  positionals: ['MODEL'],
  options: {
    ...outputOptions,
    ...configOptions,
    budget: {
      type: 'string',
      value: 'BYTES',
      help: "bits of every layer chosen so that all layers' weights take no more, packed",
    },
    record: { type: 'string', value: 'FILE', help: 'write every decision as JSON' },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
  notes:
    'With --labels the accuracy of both models on the calibration samples is shown as a first check;\n' +
    'measure with `requant compare` on other samples.',
};

/** Reads a QuantizeConfig, a record of ours, or the scales of another tool by value name. */
function asConfig(file: object): QuantizeConfig {
  if (Array.isArray((file as QuantizationRecord).operators)) {
    return configOf(file as QuantizationRecord);
  }
  const values = Object.values(file) as unknown[];
  const isScale = (value: unknown) =>
    typeof value === 'object' && value !== null && 'scale' in value;
  if (values.length > 0 && values.every(isScale)) {
    return { scales: file as NonNullable<QuantizeConfig['scales']> };
  }
  return file as QuantizeConfig;
}

function parsed(content: string, file: string): QuantizeConfig {
  const refuse = (what: string, error: unknown) =>
    new RequantError('INVALID_ARGUMENT', `${file} is ${what}: ${(error as Error).message}`, {
      value: file,
      cause: error,
    });
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch (error) {
    throw refuse('no JSON', error);
  }
  try {
    checkKind(json, 'object', 'it');
  } catch (error) {
    throw refuse('no config', error);
  }
  try {
    return asConfig(json as object);
  } catch (error) {
    throw refuse('no record of a quantization', error);
  }
}

export async function readConfig(values: Values): Promise<QuantizeConfig> {
  const file = text(values, 'config');
  let config: QuantizeConfig = {};
  if (file !== undefined) {
    let content: string;
    try {
      content = await readFile(file, 'utf8');
    } catch (error) {
      throw new RequantError('LOAD_FAILED', `cannot read ${file}: ${(error as Error).message}`, {
        value: file,
        cause: error,
      });
    }
    config = parsed(content, file);
  }
  const bits = integer(values, 'bits', 1, 32);
  const activationBits = integer(values, 'activation-bits', 1, 32);
  const target = oneOf(values, 'target', Object.keys(targets) as Target[]);
  const recover = words(values, 'recover');
  return {
    ...config,
    ...(target === undefined ? {} : { target }),
    ...(recover === undefined
      ? {}
      : { recover: recover.filter((method) => method !== 'none') as Recovery[] }),
    ...(bits === undefined ? {} : { weights: { ...config.weights, bits } }),
    ...(activationBits === undefined
      ? {}
      : { activations: { ...config.activations, bits: activationBits } }),
  };
}

export async function openData(values: Values, model: Model): Promise<Dataset> {
  const data = await openDataset(required(values, 'data'), model.info.inputs, openOptions(values));
  const most = integer(values, 'max-samples');
  return most === undefined ? data : take(data, most);
}

/** Quantizes and shows progress. */
export async function quantizeWithProgress(
  model: Model,
  data: Dataset,
  config: QuantizeConfig,
  streams: Streams,
  analyze = false,
): Promise<QuantizedModel> {
  const progress = new Progress(streams);
  try {
    return await quantize(model, {
      calibration: feedsOf(data),
      config,
      analyze,
      onProgress: ({ phase, method, done, total }) => {
        if (phase === 'calibrate') progress.show('calibrating', done, total);
        else progress.show(method ?? 'finishing', done, total);
      },
    });
  } finally {
    progress.clear();
  }
}

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

/** The values of {@link outputOptions}. */
export function exportOptions(values: Values): ExportOptions & { format: OnnxFormat } {
  const format = oneOf<OnnxFormat>(values, 'format', ['qdq', 'qoperator', 'qonnx']) ?? 'qdq';
  const int4 = values['int4'] === true;
  const int2 = values['int2'] === true;
  if (format !== 'qdq' && (int4 || int2)) {
    throw new UsageError(`--${int2 ? 'int2' : 'int4'} goes with --format qdq only`);
  }
  return { format, int4, int2 };
}

export async function runQuantize(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  const output = required(values, 'output');
  const exporting = exportOptions(values);
  required(values, 'data');
  let config = await readConfig(values);
  const budget = integer(values, 'budget', 1);
  using model = await load(file!, streams);
  const data = await openData(values, model);
  const start = performance.now();
  if (budget !== undefined) {
    using probe = await quantizeWithProgress(
      model,
      data,
      { ...config, recover: [] },
      streams,
      true,
    );
    const { operators } = mixedPrecision(probe.config.analysis!, { maxBytes: budget });
    config = { ...config, operators: { ...operators, ...config.operators } };
  }
  using quantized = await quantizeWithProgress(model, data, config, streams);
  const seconds = (performance.now() - start) / 1000;
  const bytes = quantized.toOnnx(exporting);
  const { format } = exporting;
  await write(output, bytes, streams);
  const recordFile = text(values, 'record');
  const record = quantized.config;
  if (recordFile !== undefined)
    await write(recordFile, `${JSON.stringify(record, null, 2)}\n`, streams);
  const floatBytes = model.toOnnx().length;
  const count = record.operators.filter((operator) => operator.quantized).length;
  const check =
    text(values, 'labels') === undefined
      ? undefined
      : await compareWithProgress(model, quantized, { dataset: data }, streams);
  if (values['json']) {
    const json = {
      output,
      format,
      samples: data.length,
      seconds,
      bytes: bytes.length,
      floatBytes,
      operators: record.operators.length,
      quantizedOperators: count,
      warnings: record.warnings,
      ...(check ? { calibrationTop1: check.top1 } : {}),
    };
    streams.out(`${JSON.stringify(json, null, 2)}\n`);
    return;
  }
  for (const warning of record.warnings) streams.err(`warning: ${oneLine(warning)}\n`);
  for (const { method, beforeDb, afterDb, detail } of record.recovery) {
    const gain =
      beforeDb === null || afterDb === null
        ? ''
        : `${beforeDb.toFixed(1)} -> ${afterDb.toFixed(1)} dB, `;
    streams.out(`${oneLine(`${method}: ${gain}${detail}`)}\n`);
  }
  const float = record.operators.filter((operator) => !operator.quantized && operator.reason);
  streams.out(
    `${count} of ${record.operators.length} operators quantized on ${data.length} samples in ${seconds.toFixed(1)} s\n`,
  );
  for (const { name, type, reason } of float)
    streams.out(`  float: ${oneLine(`${name} (${type}): ${reason}`)}\n`);
  if (check) {
    const { float: before, candidate, agreement } = check.top1;
    streams.out(
      `top-1 on the calibration samples: float ${formatShare(before)}, quantized ${formatShare(candidate)}, the same ${formatShare(agreement)}\n`,
    );
  }
  streams.out(
    `wrote ${output}: ${formatBytes(bytes.length)} instead of ${formatBytes(floatBytes)} (${format})\n`,
  );
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
  using model = await load(floatFile!, streams);
  using candidate = await load(quantizedFile!, streams);
  const dataset = await openData(values, model);
  const report = await compareWithProgress(
    model,
    candidate,
    {
      dataset,
      layerwise,
      ...sessionOptions(values),
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

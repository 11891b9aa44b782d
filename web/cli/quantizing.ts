// The command `quantize`, and how other commands quantize.

import { mixedPrecision } from '../analyze/analysis.js';
import { RequantError } from '../base/errors.js';
import { checkKind } from '../base/options.js';
import { type Dataset, feedsOf } from '../dataset/sample.js';
import type { Model } from '../model/model.js';
import { type QuantizeConfig, type Recovery, type Target, targets } from '../quantize/config.js';
import type { ExportOptions, OnnxFormat, QuantizedModel } from '../quantize/quantized_model.js';
import { type QuantizationRecord, configOf } from '../quantize/record.js';
import { oneLine } from '../report/format.js';
import { formatBytes, formatShare } from '../report/index.js';
import { quantize } from '../search/quantize.js';
import type { QuantizeOptions } from '../search/search_options.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  oneOf,
  required,
  text,
  threadsOption,
  words,
} from './args.js';
import { compareWithProgress } from './comparing.js';
import { openData, readJson } from './data.js';
import { gateOf, gateOptions, reportingSearch, writeSearch } from './gating.js';
import { loadFloat, write } from './models.js';
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
      help: "bits of every layer chosen so that all layers' weights take no more, packed; of a search: the file",
    },
    ...gateOptions,
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

function parsed(json: unknown, file: string): QuantizeConfig {
  const refuse = (what: string, error: unknown) =>
    new RequantError('INVALID_ARGUMENT', `${file} is ${what}: ${(error as Error).message}`, {
      value: file,
      cause: error,
    });
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
  const config = file === undefined ? {} : parsed(await readJson(file), file);
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

/** Quantizes and shows progress. */
export async function quantizeWithProgress(
  model: Model,
  data: Dataset,
  config: QuantizeConfig,
  streams: Streams,
  more: Partial<QuantizeOptions> = {},
): Promise<QuantizedModel> {
  const progress = new Progress(streams);
  try {
    return await quantize(model, {
      calibration: feedsOf(data),
      config,
      ...more,
      onProgress: ({ phase, method, done, total, configuration, attempt }) => {
        const what = {
          calibrate: 'calibrating',
          finish: method ?? 'finishing',
          measure: 'measuring',
          operators: 'operators one by one',
          attempt: 'tried',
        }[phase];
        if (!attempt)
          progress.show(configuration ? `${configuration}: ${what}` : what, done, total);
      },
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
  using model = await loadFloat(file!, streams);
  const data = await openData(values, model, { targets: false });
  const gate = await gateOf(values, model, data, streams);
  const start = performance.now();
  if (budget !== undefined && !gate) {
    using probe = await quantizeWithProgress(model, data, { ...config, recover: [] }, streams, {
      analyze: true,
    });
    const { operators } = mixedPrecision(probe.config.analysis!, { maxBytes: budget });
    config = { ...config, operators: { ...operators, ...config.operators } };
  }
  using quantized = await reportingSearch(values, file!, streams, () =>
    quantizeWithProgress(model, data, config, streams, gate),
  );
  const { search } = quantized;
  if (search) await writeSearch(values, search, file!, streams);
  const seconds = (performance.now() - start) / 1000;
  const bytes = quantized.toOnnx(exporting);
  const { format } = exporting;
  await write(output, bytes, streams);
  const packed = search?.attempts[search.best]!.bytes;
  if (packed !== undefined && bytes.length > 1.02 * packed) {
    const hint = format === 'qdq' ? '--int4 or --int2 packs them' : 'the format has whole bytes';
    streams.err(
      `warning: the file has ${formatBytes(bytes.length)}, and ${formatBytes(packed)} with packed bits: ${hint}\n`,
    );
  }
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
      ...(search ? { search } : {}),
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

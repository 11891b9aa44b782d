// The command `generate`: writes a model as C, as JSON, as a plan or for LiteRT.

import path from 'node:path';
import { generateC, generateJson } from '../export/generate.js';
import type { Model } from '../model/model.js';
import type { TfliteFile, TfliteOptions, TfliteReport } from '../model/tflite.js';
import { readQuantized } from '../quantize/read_quantized.js';
import { oneLine } from '../report/format.js';
import { formatBytes } from '../report/index.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  oneOf,
  required,
} from './args.js';
import { dimOption, openDims } from './bench.js';
import { load, requantizeOption, sessionOptions, write } from './models.js';
import type { Streams } from './output.js';

export const generateSpec: CommandSpec = {
  name: 'generate',
  summary: 'Write a model as C, as JSON, as a plan or as a TFLite file.',
  positionals: ['MODEL'],
  options: {
    output: {
      type: 'string',
      short: 'o',
      value: 'FILE',
      help: 'NAME.c (and NAME.h), NAME.json, NAME.plan or NAME.tflite',
    },
    dim: dimOption,
    layout: {
      type: 'string',
      value: 'L',
      help: 'of images in .tflite: channels-last (default) or onnx',
    },
    codes: { type: 'boolean', help: 'of .tflite: int8 inputs and outputs, not floats' },
    requantize: requantizeOption,
    ...commonOptions,
  },
  notes:
    'C is C99 without any library but the standard one, and computes the same integers. JSON is the graph. ' +
    'A plan is what sessions of this very version load without parsing, planning and packing. ' +
    'A .tflite file is for LiteRT; --json prints its report.',
};

/** Shapes of all inputs; open dimensions are as --dim says, or else 1. */
export function shapesOf(model: Model, values: Values): Record<string, number[]> {
  const { inputs } = model.info;
  const open = openDims(values, inputs);
  return Object.fromEntries(
    inputs.map(({ name, dims }) => [
      name,
      dims.map((dim) => (typeof dim === 'number' ? dim : dim === null ? 1 : (open[dim] ?? 1))),
    ]),
  );
}

/** Files of integer operators are read as pairs of QuantizeLinear and DequantizeLinear first. */
async function tfliteOf(model: Model, options: TfliteOptions): Promise<TfliteFile> {
  const { quantized, nodes } = model.info;
  if (!quantized || nodes.some(({ op }) => op === 'DequantizeLinear')) {
    return model.toTflite(options);
  }
  using read = await readQuantized(model);
  return read.toTflite(options);
}

export async function runGenerate(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  const output = required(values, 'output');
  const form = path.extname(output);
  if (!['.c', '.json', '.plan', '.tflite'].includes(form)) {
    throw new UsageError(`--output ${output} is no .c, .json, .plan or .tflite`);
  }
  for (const name of ['layout', 'codes']) {
    if (values[name] === undefined || form === '.tflite') continue;
    throw new UsageError(`--${name} goes with a .tflite file`);
  }
  using model = await load(file!, streams);
  const shapes = shapesOf(model, values);
  let written: Record<string, number>;
  let report: TfliteReport | undefined;
  if (form === '.c') {
    const name = path.basename(output, form).replace(/\W/g, '_').replace(/^\d/, 'model_$&');
    const header = `${output.slice(0, -form.length)}.h`;
    const made = await generateC(model, { name, shapes, ...sessionOptions(values) });
    // The source includes the header by the function's name, so the include is renamed.
    const source = made.source.replace(
      `#include "${name}.h"`,
      `#include "${path.basename(header)}"`,
    );
    await write(output, source, streams);
    await write(header, made.header, streams);
    written = { constantBytes: made.constantBytes, workspaceBytes: made.workspaceBytes };
  } else if (form === '.json') {
    const text = await generateJson(model);
    await write(output, `${text}\n`, streams);
    written = { bytes: text.length + 1 };
  } else if (form === '.tflite') {
    const layout = oneOf<'channels-last' | 'onnx'>(values, 'layout', ['channels-last', 'onnx']);
    const ends = values['codes'] ? 'codes' : 'float32';
    const made = await tfliteOf(model, { shapes, ends, ...(layout ? { layout } : {}) });
    ({ report } = made);
    await write(output, made.bytes, streams);
    written = { bytes: made.bytes.length };
  } else {
    const plan = await model.toPlan({ shapes, ...sessionOptions(values) });
    await write(output, plan, streams);
    written = { bytes: plan.length };
  }
  const sizes = Object.entries(written).map(
    ([name, bytes]) => `${formatBytes(bytes)}${name === 'bytes' ? '' : ` of ${name.slice(0, -5)}`}`,
  );
  streams.out(
    values['json']
      ? `${JSON.stringify({ output, ...written, ...(report ? { report } : {}) }, null, 2)}\n`
      : `wrote ${output} (${sizes.join(', ')})\n`,
  );
  if (!report || values['json']) return;
  for (const { name, dims, layout, type } of [...report.inputs, ...report.outputs]) {
    streams.out(`  ${oneLine(name)}: ${type}[${dims.join(', ')}] ${layout}\n`);
  }
  if (report.floats.length > 0) {
    streams.out(`  on floats: ${report.floats.map(oneLine).join(', ')}\n`);
  }
  for (const note of report.notes) streams.err(`warning: ${oneLine(note)}\n`);
}

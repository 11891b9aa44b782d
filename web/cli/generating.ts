// The command `generate`: writes a model as C, as JSON or as a plan.

import path from 'node:path';
import { generateC, generateJson } from '../export/generate.js';
import type { Model } from '../model/model.js';
import { formatBytes } from '../report/index.js';
import { type CommandSpec, UsageError, type Values, commonOptions, required } from './args.js';
import { dimOption, openDims } from './bench.js';
import { load, requantizeOption, sessionOptions, write } from './models.js';
import type { Streams } from './output.js';

export const generateSpec: CommandSpec = {
  name: 'generate',
  summary: 'Write a model as C, as JSON or as a plan.',
  positionals: ['MODEL'],
  options: {
    output: {
      type: 'string',
      short: 'o',
      value: 'FILE',
      help: 'NAME.c (and NAME.h), NAME.json or NAME.plan',
    },
    dim: dimOption,
    requantize: requantizeOption,
    ...commonOptions,
  },
  notes:
    'C is C99 without any library but the standard one, and computes the same integers. JSON is the graph. ' +
    'A plan is what sessions of this very version load without parsing, planning and packing.',
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

export async function runGenerate(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  const output = required(values, 'output');
  const form = path.extname(output);
  if (!['.c', '.json', '.plan'].includes(form)) {
    throw new UsageError(`--output ${output} is no .c, .json or .plan`);
  }
  using model = await load(file!, streams);
  const shapes = shapesOf(model, values);
  let written: Record<string, number>;
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
      ? `${JSON.stringify({ output, ...written }, null, 2)}\n`
      : `wrote ${output} (${sizes.join(', ')})\n`,
  );
}

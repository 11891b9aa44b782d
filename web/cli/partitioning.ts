// The commands `partition`, which divides a model among engines, and `extract`, which cuts a part out.

import path from 'node:path';
import type { Backend, Part } from '../export/backend.js';
import { extract } from '../export/extract.js';
import { partition } from '../export/partition.js';
import { parsePattern } from '../export/patterns.js';
import { shorten } from '../report/format.js';
import { formatBytes, formatNumber, table } from '../report/index.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  integer,
  required,
  text,
  words,
} from './args.js';
import { dimOption } from './bench.js';
import { shapesOf } from './generating.js';
import { load, write } from './models.js';
import type { Streams } from './output.js';

export const partitionSpec: CommandSpec = {
  name: 'partition',
  summary: 'Divide a model among engines.',
  positionals: ['MODEL'],
  options: {
    backend: {
      type: 'string',
      short: 'b',
      multiple: true,
      value: 'NAME=A,B+C,..',
      help: 'an engine and what it takes: operators, and patterns that it runs as one',
    },
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the parts as one file' },
    models: { type: 'string', value: 'DIR', help: 'write every part as an ONNX file' },
    'max-operators': { type: 'string', value: 'N', help: 'the most operators of a part' },
    'min-macs': {
      type: 'string',
      value: 'N',
      help: 'the least multiply-adds of a part of another engine',
    },
    separate: {
      type: 'boolean',
      help: 'each pattern and each operator of an engine is a part of its own',
    },
    dim: dimOption,
    ...commonOptions,
  },
  notes:
    'Patterns are operators between +, with alternatives between | and ? behind what may be missing:\n' +
    "--backend 'npu=Conv+Add?+Relu|Clip?,MaxPool'. NAME=c alone takes what `generate` has C for.",
};

/** Reads `NAME=A,B+C?`. */
function readBackend(given: string, values: Values): Backend {
  const at = given.indexOf('=');
  const items = given
    .slice(at + 1)
    .split(',')
    .map((item) => item.trim());
  if (at < 1 || items.includes('')) {
    throw new UsageError(`--backend ${given} is no NAME=A,B+C: an engine and its operators`);
  }
  const single = items.filter((item) => !/[+|?]/.test(item));
  const patterns = items.filter((item) => /[+|?]/.test(item)).map(parsePattern);
  const inC = items.length === 1 && items[0] === 'c';
  return {
    name: given.slice(0, at),
    operators: inC ? 'c' : single,
    patterns,
    maxOperators: integer(values, 'max-operators', 1) ?? 0,
    minMacs: integer(values, 'min-macs', 0) ?? 0,
    join: values['separate'] !== true,
  };
}

const jsonOf = ({ name, backend, macs, model, composites }: Part, file: string | undefined) => ({
  name,
  backend,
  macs,
  operators: model.info.nodes.length,
  inputs: model.info.inputs.map((value) => value.name),
  outputs: model.info.outputs.map((value) => value.name),
  composites: composites.map(({ pattern, nodes }) => ({
    pattern,
    nodes: nodes.map((node) => node.name),
  })),
  ...(file === undefined ? {} : { file }),
});

/** "2 Conv+Relu, 1 Gemm": how often each pattern was found. */
function foundIn({ composites }: Part): string {
  const counts = new Map<string, number>();
  for (const { pattern } of composites) counts.set(pattern, (counts.get(pattern) ?? 0) + 1);
  return [...counts].map(([pattern, count]) => `${count} ${pattern}`).join(', ');
}

export async function runPartition(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  const given = (values['backend'] ?? []) as string[];
  if (given.length === 0) throw new UsageError('--backend is missing');
  const backends = given.map((one) => readBackend(one, values));
  const output = text(values, 'output');
  const folder = text(values, 'models');
  using model = await load(file!, streams);
  const fixed = values['dim'] !== undefined || backends.some(({ operators }) => operators === 'c');
  using parts = await partition(model, {
    backends,
    ...(fixed ? { shapes: shapesOf(model, values) } : {}),
  });
  const files = new Map<string, string>();
  for (const part of folder === undefined ? [] : parts.parts) {
    const name = path.join(folder!, `${part.name}.${part.backend ?? 'requant'}.onnx`);
    await write(name, part.model.toOnnx(), streams);
    files.set(part.name, name);
  }
  let bytes: number | undefined;
  if (output !== undefined) {
    const saved = await parts.save();
    await write(output, saved, streams);
    bytes = saved.length;
  }
  if (values['json']) {
    const list = parts.parts.map((part) => jsonOf(part, files.get(part.name)));
    streams.out(`${JSON.stringify({ output, bytes, parts: list }, null, 2)}\n`);
    return;
  }
  const rows = parts.parts.map((part) => [
    part.name,
    part.backend ?? '',
    shorten(foundIn(part), 40),
    String(part.model.info.nodes.length),
    formatNumber(part.macs / 1e6),
  ]);
  streams.out(`${table(['part', 'engine', 'patterns', 'operators', 'MMACs'], rows, [0, 1, 2])}\n`);
  const written = [
    ...(output === undefined ? [] : [`${output} (${formatBytes(bytes!)})`]),
    ...files.values(),
  ];
  if (written.length > 0) streams.out(`wrote ${written.join(', ')}\n`);
}

export const extractSpec: CommandSpec = {
  name: 'extract',
  summary: 'Cut a part out of a model.',
  positionals: ['MODEL'],
  options: {
    from: {
      type: 'string',
      value: 'A,B,..',
      help: 'values or operators where the part begins; default the inputs',
    },
    to: { type: 'string', value: 'A,B,..', help: 'values or operators where it ends' },
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the ONNX file of the part' },
    dim: dimOption,
    ...commonOptions,
  },
  notes:
    'An operator stands for what it reads (--from) or computes (--to); `inspect --nodes` lists all names.\n' +
    'Open dimensions stay open unless --dim is there.',
};

export async function runExtract(
  values: Values,
  [file]: string[],
  streams: Streams,
): Promise<void> {
  required(values, 'to');
  const to = words(values, 'to')!;
  const output = required(values, 'output');
  const from = words(values, 'from');
  using model = await load(file!, streams);
  using part = await extract(model, {
    to,
    ...(from ? { from } : {}),
    ...(values['dim'] === undefined ? {} : { shapes: shapesOf(model, values) }),
  });
  const bytes = part.toOnnx();
  await write(output, bytes, streams);
  const { inputs, outputs, nodes } = part.info;
  streams.out(
    values['json']
      ? `${JSON.stringify({ output, bytes: bytes.length, operators: nodes.length, inputs, outputs }, null, 2)}\n`
      : `${part.summary()}\nwrote ${output} (${formatBytes(bytes.length)})\n`,
  );
}

// The commands about models: inspect, optimize, run.

import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { saveFailed, writeToDisk } from '../base/save.js';
import { isSmallFloat } from '../base/half.js';
import type { Tensor, TensorDataMap } from '../base/tensor.js';
import { readTensor } from '../dataset/node.js';
import { writeNpy } from '../dataset/npy.js';
import { engineInfo } from '../engine/engine_info.js';
import { loadModel } from '../model/load_model.js';
import { sizeOfOnnx } from '../model/onnx_files.js';
import type { LoadOptions } from '../model/load_options.js';
import type { Model } from '../model/model.js';
import { oneLine, shorten } from '../report/format.js';
import { formatBytes, formatMs, formatNumber, table } from '../report/index.js';
import { InferenceSession } from '../session/session.js';
import type { SessionOptions } from '../session/session_options.js';
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
import { formatLegalized, runLegalize } from './legalizing.js';
import { Progress, type Streams } from './output.js';
import { formatSubstitution, runSubstitute } from './substituting.js';

export const requantizeOption = {
  type: 'string',
  value: 'MODE',
  help: 'arithmetic of integer operators: fixed, float, nearest, gemmlowp',
} as const;

/** Session options from the command line. */
export function sessionOptions(values: Values): Pick<SessionOptions, 'requantize'> {
  const requantize = oneOf(values, 'requantize', ['fixed', 'float', 'nearest', 'gemmlowp']);
  return requantize ? { requantize } : {};
}

/** Loads a model that a command quantizes or trains: layers of dynamic range compute in float. */
export const loadFloat = (file: string, streams: Streams): Promise<Model> =>
  load(file, streams, 'float');

/** Loads a model and shows progress. */
export async function load(
  file: string,
  streams: Streams,
  dynamicRange: LoadOptions['dynamicRange'] = 'integer',
): Promise<Model> {
  const progress = new Progress(streams);
  try {
    return await loadModel(file, {
      dynamicRange,
      onProgress: ({ phase, done, total }) => {
        if (phase !== 'parse') progress.show('reading', done, total);
      },
    });
  } finally {
    progress.clear();
  }
}

/** Makes the missing folders for a file, and reports them. */
export async function makeFolderOf(file: string, streams: Streams): Promise<void> {
  const folder = path.dirname(file);
  if (existsSync(folder)) return;
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw saveFailed(file, error);
  });
  streams.err(`made the folder ${folder}\n`);
}

/** Writes a file, after making missing folders, which it reports; errors name the file. */
export async function write(
  file: string,
  content: string | Uint8Array,
  streams: Streams,
): Promise<void> {
  await makeFolderOf(file, streams);
  await writeToDisk(file, content);
}

/**
 * Writes a model and returns the number of bytes. Where one file would exceed the 2 GB of ONNX, the weights get a second
 * one, which a message names.
 */
export async function writeOnnx(file: string, model: Model, streams: Streams): Promise<number> {
  await makeFolderOf(file, streams);
  const { bytes, files } = sizeOfOnnx(model.handle);
  if (files === 1) {
    await model.save(file);
  } else {
    const externalData = `${path.basename(file)}.data`;
    streams.err(
      `${file} would exceed 2 GB, so that its weights are in ${externalData} beside it\n`,
    );
    await model.save(file, { externalData });
  }
  return bytes;
}

export const inspectSpec: CommandSpec = {
  name: 'inspect',
  summary: 'Show what a model consists of.',
  positionals: ['MODEL'],
  options: {
    nodes: { type: 'boolean', help: 'list every operator' },
    text: { type: 'boolean', help: "write the graph in the engine's text form" },
    dot: { type: 'boolean', help: "write the graph in Graphviz's language" },
    ...commonOptions,
  },
};

export async function inspect(values: Values, [file]: string[], streams: Streams): Promise<void> {
  using model = await load(file!, streams);
  const forms = {
    ...(values['text'] ? { text: model.toText() } : {}),
    ...(values['dot'] ? { dot: model.toDot() } : {}),
  };
  const asked = Object.values(forms);
  if (values['json']) {
    streams.out(`${JSON.stringify(asked.length > 0 ? forms : model.info, null, 2)}\n`);
  } else if (asked.length > 0) {
    streams.out(`${asked.join('\n')}\n`);
  } else {
    streams.out(`${model.summary()}\n`);
    if (values['nodes']) {
      // --json has the full names.
      const rows = model.info.nodes.map(({ name, op, domain, inputs, outputs }) => [
        shorten(name, 36),
        shorten(domain ? `${domain}::${op}` : op, 24),
        shorten(inputs.join(', '), 40),
        shorten(outputs.join(', '), 28),
      ]);
      streams.out(`\n${table(['node', 'operator', 'inputs', 'outputs'], rows, [0, 1, 2, 3])}\n`);
    }
  }
}

export const optimizeSpec: CommandSpec = {
  name: 'optimize',
  summary: 'Simplify a graph: the same outputs by fewer operators.',
  positionals: ['MODEL'],
  options: {
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the optimized ONNX file' },
    passes: { type: 'string', value: 'A,B,..', help: 'run only these passes' },
    disable: { type: 'string', value: 'A,B,..', help: 'leave these passes out' },
    substitute: {
      type: 'string',
      value: 'A,B,..',
      help: 'put cheaper operators in place; measured on --data',
    },
    legalize: {
      type: 'string',
      value: 'HOW',
      help: 'write a quantized model in plain integer operators: subtract_first or four_terms',
    },
    list: { type: 'boolean', help: 'show all passes and what they may change' },
    'dump-passes': {
      type: 'string',
      value: 'DIR',
      help: 'write the graph after each pass that changed it, as text and DOT',
    },
    dump: { type: 'string', value: 'DIR', help: 'short for --dump-passes' },
    ...dataOptions,
    ...commonOptions,
  },
};

/** Lists all passes: which run by default, and how far they may change an output. */
async function listPasses(values: Values, streams: Streams): Promise<void> {
  const { passes } = await engineInfo();
  if (values['json']) {
    streams.out(`${JSON.stringify(passes, null, 2)}\n`);
    return;
  }
  const rows = passes.map(({ name, summary, bound, optional }) => [
    name,
    optional ? 'by name' : 'default',
    bound === 0 ? 'exact' : String(Number(bound.toPrecision(2))),
    summary,
  ]);
  streams.out(`${table(['pass', 'runs', 'bound', 'what it does'], rows, [0, 1, 3])}\n`);
}

export async function optimize(values: Values, [file]: string[], streams: Streams): Promise<void> {
  if (values['list']) {
    await listPasses(values, streams);
    return;
  }
  const output = required(values, 'output');
  const unused = Object.keys(dataOptions).find((name) => values[name] !== undefined);
  if (unused !== undefined && values['substitute'] === undefined) {
    throw new UsageError(`--${unused} is for --substitute, which measures`);
  }
  const passes = words(values, 'passes');
  const disable = words(values, 'disable');
  const dump = text(values, 'dump-passes') ?? text(values, 'dump');
  using model = await load(file!, streams);
  if (values['substitute'] !== undefined) {
    const { model: made, report } = await runSubstitute(values, model, streams);
    using result = made;
    const bytes = await writeOnnx(output, result, streams);
    streams.out(
      values['json']
        ? `${JSON.stringify({ output, bytes, ...report }, null, 2)}\n`
        : `${formatSubstitution(report)}\n\nwrote ${output} (${formatBytes(bytes)}); ${file} stays what it is\n`,
    );
    return;
  }
  if (values['legalize'] !== undefined) {
    const made = await runLegalize(values, model);
    using result = made.model;
    const bytes = await writeOnnx(output, result, streams);
    const { legalized, left } = made;
    const json = { output, bytes, legalized, left };
    streams.out(
      values['json']
        ? `${JSON.stringify(json, null, 2)}\n`
        : `${formatLegalized(made)}\n\nwrote ${output} (${formatBytes(bytes)})\n`,
    );
    return;
  }
  const before = model.info.nodes.length;
  const report = model.optimize({
    ...(passes ? { passes } : {}),
    ...(disable ? { disable } : {}),
    ...(dump === undefined ? {} : { dump: true }),
  });
  if (dump !== undefined) {
    for (const [index, step] of (report.dumps ?? []).entries()) {
      const name = path.join(dump, `${String(index).padStart(2, '0')}_${step.pass}`);
      await write(`${name}.txt`, step.text, streams);
      await write(`${name}.dot`, step.dot, streams);
    }
  }
  const bytes = await writeOnnx(output, model, streams);
  if (values['json']) {
    const { rounds, passes: ran } = report;
    const after = model.info.nodes.length;
    const json = { output, bytes, nodesBefore: before, nodesAfter: after, rounds };
    streams.out(`${JSON.stringify({ ...json, passes: ran }, null, 2)}\n`);
    return;
  }
  const changed = report.passes.filter((pass) => pass.changed);
  if (changed.length > 0) {
    const rows = changed.map(({ name, nodesBefore, nodesAfter, milliseconds }) => [
      name,
      String(nodesBefore),
      String(nodesAfter),
      formatMs(milliseconds),
    ]);
    streams.out(`${table(['pass', 'before', 'after', 'time'], rows)}\n\n`);
  }
  streams.out(
    `${before} operators became ${model.info.nodes.length}; wrote ${output} (${formatBytes(bytes)})\n`,
  );
}

export const runSpec: CommandSpec = {
  name: 'run',
  summary: 'Run a model once and show its outputs.',
  positionals: ['MODEL'],
  options: {
    input: {
      type: 'string',
      short: 'i',
      multiple: true,
      value: 'N=FILE',
      help: 'an input by name (the name may be left out if it is the only one)',
    },
    output: { type: 'string', short: 'o', value: 'DIR', help: 'write every output as .npy' },
    top: {
      type: 'string',
      value: 'K',
      help: 'show the K largest elements of an output; default 5',
    },
    profile: { type: 'boolean', help: 'show what every operator cost' },
    requantize: requantizeOption,
    ...threadsOption,
    ...commonOptions,
  },
  notes: 'Files of inputs: .npy, .npz, .pb (ONNX TensorProto), or raw little-endian numbers.',
};

function stats(tensor: Tensor, top: number) {
  const data = Array.from(
    isSmallFloat(tensor.type) ? tensor.toFloat32() : (tensor.data as TensorDataMap['int64']),
    Number,
  );
  let [min, max, sum] = [Infinity, -Infinity, 0];
  for (const value of data) {
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
  }
  const order = data.map((_, index) => index).sort((a, b) => data[b]! - data[a]!);
  return {
    type: tensor.type,
    dims: tensor.dims,
    min,
    max,
    mean: sum / data.length,
    top: order.slice(0, top).map((index) => ({ index, value: data[index]! })),
  };
}

export async function runOnce(values: Values, [file]: string[], streams: Streams): Promise<void> {
  const top = integer(values, 'top', 0) ?? 5;
  const given = (values['input'] ?? []) as string[];
  using model = await load(file!, streams);
  const { inputs } = model.info;
  const feeds: Record<string, Tensor> = {};
  for (const pair of given) {
    const named = inputs.find(({ name }) => pair.startsWith(`${name}=`));
    const input = named ?? (inputs.length === 1 ? inputs[0] : undefined);
    if (!input || (!named && pair.includes('='))) {
      throw new UsageError(
        `--input ${pair} names no input; there are: ${inputs.map(({ name }) => name).join(', ')}`,
      );
    }
    feeds[input.name] = await readTensor(named ? pair.slice(input.name.length + 1) : pair, input);
  }
  const missing = inputs.filter(({ name }) => !(name in feeds)).map(({ name }) => name);
  if (missing.length > 0) {
    throw new UsageError(`no --input for ${missing.join(', ')}`);
  }
  const profile = values['profile'] === true;
  const session = await InferenceSession.create(model, { ...sessionOptions(values), profile });
  try {
    const start = performance.now();
    const outputs = await session.run(feeds);
    const milliseconds = performance.now() - start;
    const directory = text(values, 'output');
    if (directory !== undefined) {
      for (const [name, tensor] of Object.entries(outputs)) {
        const safe = name.replace(/[^\w.-]+/g, '_');
        await write(path.join(directory, `${safe}.npy`), writeNpy(tensor), streams);
      }
    }
    const shown = Object.fromEntries(
      Object.entries(outputs).map(([name, tensor]) => [name, stats(tensor, top)]),
    );
    const steps = profile ? session.profile() : [];
    if (values['json']) {
      const json = { milliseconds, outputs: shown, ...(profile ? { profile: steps } : {}) };
      streams.out(`${JSON.stringify(json, null, 2)}\n`);
      return;
    }
    for (const [name, { type, dims, min, max, mean, top: best }] of Object.entries(shown)) {
      streams.out(
        `${oneLine(name)}: ${type}[${dims.join(', ')}]  min ${formatNumber(min)}  max ${formatNumber(max)}  mean ${formatNumber(mean)}\n`,
      );
      for (const { index, value } of best) {
        streams.out(`  ${String(index).padStart(6)}  ${formatNumber(value)}\n`);
      }
    }
    if (profile) {
      const rows = steps.map(({ name, op, kernel, milliseconds: ms, macs }) => [
        name,
        op,
        kernel,
        formatMs(ms),
        macs > 0 ? `${(macs / ms / 1e6).toFixed(2)} GMAC/s` : '',
      ]);
      streams.out(`\n${table(['node', 'operator', 'kernel', 'time', 'rate'], rows, [0, 1, 2])}\n`);
    }
    streams.out(`${formatMs(milliseconds)}\n`);
  } finally {
    session.dispose();
  }
}

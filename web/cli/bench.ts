// The command `bench`: runs float and 8-bit sessions of one model in turns in one process, so that other load
// on the machine affects both alike.

import { median } from '../base/median.js';
import { suggest } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import { openDataset } from '../dataset/node.js';
import { type Dataset, makeDataset, take } from '../dataset/sample.js';
import { engineInfo } from '../engine/engine_info.js';
import type { Model } from '../model/model.js';
import type { ValueInfo } from '../model/model_info.js';
import { readTuning } from '../model/tuning.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { formatBytes, formatMs, table } from '../report/index.js';
import type { PlanMemory } from '../session/plan.js';
import { InferenceSession } from '../session/session.js';
import { toChromeTrace } from '../session/trace.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  openOptions,
  text,
  threadsOption,
} from './args.js';
import { load, requantizeOption, sessionOptions, write } from './models.js';
import { Progress, type Streams } from './output.js';
import { quantizeWithProgress } from './quantizing.js';

export const dimOption = {
  type: 'string',
  multiple: true,
  value: 'NAME=N',
  help: 'an open dimension by name; default 1',
} as const;

export const benchSpec: CommandSpec = {
  name: 'bench',
  summary: 'Time a model in float and quantized to 8 bits, interleaved in one process.',
  positionals: ['MODEL'],
  options: {
    runs: { type: 'string', short: 'n', value: 'N', help: 'timed runs of each; default 30' },
    dim: dimOption,
    tuning: { type: 'string', value: 'FILE', help: 'records of `requant tune`' },
    compact: { type: 'boolean', help: 'less memory for models of few bits, at some cost in time' },
    trace: {
      type: 'string',
      value: 'FILE',
      help: 'what every operator costs, as a file for trace viewers such as ui.perfetto.dev',
    },
    requantize: requantizeOption,
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
  notes:
    'Without --data, calibration and runs use random numbers. A quantized MODEL is timed alone.',
};

/** A fixed sequence of numbers in [0, 1): Park and Miller's generator, CACM 31 (1988), p. 1192. */
function randomNumbers(): () => number {
  let state = 20201;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

/** Samples of random numbers for these inputs. */
export function randomSamples(
  inputs: readonly ValueInfo[],
  count: number,
  open: Readonly<Record<string, number>> = {},
): Dataset {
  const random = randomNumbers();
  const samples = Array.from({ length: count }, () => {
    const feeds: Record<string, Tensor> = {};
    for (const { name, type, dims } of inputs) {
      const shape = dims.map((dim) => {
        if (typeof dim === 'number') return dim > 0 ? dim : 1;
        return (dim === null ? undefined : open[dim]) ?? 1;
      });
      const size = shape.reduce((a, b) => a * b, 1);
      if (type === 'float32' || type === 'float64') {
        const values = Array.from({ length: size }, () => random() * 2 - 1);
        feeds[name] = new Tensor(type, values, shape);
      } else if (type === 'uint8') {
        const values = Array.from({ length: size }, () => Math.floor(random() * 256));
        feeds[name] = new Tensor(type, values, shape);
      } else {
        feeds[name] = new Tensor(type, new Array<number>(size).fill(0), shape);
      }
    }
    return { feeds };
  });
  return makeDataset(count, (index) => samples[index]!);
}

interface Row {
  name: string;
  session: InferenceSession;
  times: number[];
}

async function measure(
  sessions: readonly Row[],
  data: Dataset,
  runs: number,
  progress: Progress,
): Promise<void> {
  const samples: Record<string, Tensor>[] = [];
  for await (const { feeds } of take(data, 8)) samples.push(feeds);
  // The first runs make plans, and the JavaScript engine recompiles the module with optimizations.
  const warmUp = 3;
  for (let run = -warmUp; run < runs; run++) {
    const feeds = samples[(run + warmUp) % samples.length]!;
    for (const { session, times } of sessions) {
      const start = performance.now();
      await session.run(feeds);
      if (run >= 0) times.push(performance.now() - start);
    }
    progress.show('running', Math.max(run, 0) + 1, runs);
  }
}

/** The sizes that --dim gives for dimensions of these inputs. */
export function openDims(values: Values, inputs: readonly ValueInfo[]): Record<string, number> {
  const dims: Record<string, number> = {};
  const named = inputs.flatMap((input) => input.dims).filter((dim) => typeof dim === 'string');
  for (const pair of (values['dim'] ?? []) as string[]) {
    const match = /^(.+)=([1-9]\d*)$/.exec(pair);
    if (!match) throw new UsageError(`--dim ${pair} is not NAME=N`);
    const [, name, number] = match as unknown as [string, string, string];
    if (!named.includes(name)) {
      const known = named.length > 0 ? suggest(name, [...new Set(named)]) : 'There are none.';
      throw new UsageError(`--dim ${pair} is no open dimension of an input. ${known}`);
    }
    dims[name] = Number(number);
  }
  return dims;
}

async function samplesFor(values: Values, model: Model): Promise<Dataset> {
  const place = text(values, 'data');
  const most = integer(values, 'max-samples') ?? 16;
  const { inputs } = model.info;
  const open = openDims(values, inputs);
  return place === undefined
    ? randomSamples(inputs, most, open)
    : take(await openDataset(place, inputs, openOptions(values)), most);
}

export async function runBench(values: Values, [file]: string[], streams: Streams): Promise<void> {
  const runs = integer(values, 'runs') ?? 30;
  using model = await load(file!, streams);
  const data = await samplesFor(values, model);
  const rows: Row[] = [];
  // Measuring operators costs time itself, so sessions of their own do it.
  const profiled: Row[] = [];
  const trace = text(values, 'trace');
  const progress = new Progress(streams);
  try {
    const records = text(values, 'tuning');
    const options = {
      ...sessionOptions(values),
      compact: values['compact'] === true,
      ...(records === undefined ? {} : { tuning: await readTuning(records) }),
    };
    const open = async (name: string, source: Model | QuantizedModel) => {
      rows.push({ name, session: await InferenceSession.create(source, options), times: [] });
      if (trace === undefined) return;
      const session = await InferenceSession.create(source, { ...options, profile: true });
      profiled.push({ name, session, times: [] });
    };
    await open(model.info.quantized ? 'int8' : 'float', model);
    if (!model.info.quantized) {
      using quantized = await quantizeWithProgress(model, data, {}, streams);
      await open('int8', quantized);
    }
    await measure(rows, data, runs, progress);
    progress.clear();
    if (trace !== undefined) {
      await measure(profiled, data, runs, progress);
      progress.clear();
      const profiles = profiled.map(({ name, session }) => [name, session.profile()] as const);
      await write(trace, JSON.stringify(toChromeTrace(Object.fromEntries(profiles))), streams);
    }
    const results = rows.map(({ name, session, times }) => ({
      name,
      median: median(times),
      min: Math.min(...times),
      max: Math.max(...times),
      memory: session.plan()?.memory as PlanMemory,
    }));
    const [first, second] = results;
    // Time of int8 divided by time of float: below 1, int8 is faster.
    const ratio = second ? second.median / first!.median : undefined;
    const { variant, threads } = await engineInfo();
    if (values['json']) {
      const json = {
        model: file,
        engine: variant,
        threads,
        runs,
        results,
        ...(ratio ? { ratio } : {}),
      };
      streams.out(`${JSON.stringify(json, null, 2)}\n`);
      return;
    }
    const cells = results.map(({ name, median: middle, min, max, memory }) => [
      name,
      formatMs(middle),
      formatMs(min),
      formatMs(max),
      formatBytes(memory.arena),
      formatBytes(memory.lowerBound),
      formatBytes(memory.packedWeights),
    ]);
    const header = ['', 'median', 'min', 'max', 'arena peak', 'lower bound', 'packed weights'];
    const engine = `${variant}${threads > 1 ? `, ${threads} threads` : ''}`;
    streams.out(`${runs} runs each, engine ${engine}\n\n${table(header, cells)}\n`);
    if (ratio !== undefined) {
      streams.out(
        `\nint8 : float = ${ratio.toFixed(3)} (int8 is ${(1 / ratio).toFixed(2)} x as fast)\n`,
      );
    }
  } finally {
    progress.clear();
    for (const { session } of [...rows, ...profiled]) session.dispose();
  }
}

// The command `tune`: finds the fastest kernels of this machine.

import { take } from '../dataset/sample.js';
import { shorten } from '../report/format.js';
import { table } from '../report/index.js';
import { type TunedStep, isChanged, tune } from '../tune/tune.js';
import {
  type CommandSpec,
  type Values,
  commonOptions,
  integer,
  required,
  threadsOption,
} from './args.js';
import { dimOption, openDims, randomSamples } from './bench.js';
import { load, makeFolderOf, requantizeOption, sessionOptions } from './models.js';
import { Progress, type Streams } from './output.js';

export const tuneSpec: CommandSpec = {
  name: 'tune',
  summary: 'Measure which kernels are the fastest for a model on this machine.',
  positionals: ['MODEL'],
  options: {
    output: {
      type: 'string',
      short: 'o',
      value: 'FILE',
      help: 'records, JSON; what is there for this machine is kept and not measured again',
    },
    budget: { type: 'string', value: 'MS', help: 'how long to measure, about; default 3000' },
    dim: dimOption,
    requantize: requantizeOption,
    ...threadsOption,
    ...commonOptions,
  },
  notes: 'Sessions take the records by their option `tuning`, `requant bench` by --tuning.',
};

/** A record in words. */
function describe({ kernel, threads, panel, output }: TunedStep): string {
  const more = [
    threads === undefined ? [] : [`threads ${threads}`],
    panel === undefined ? [] : [`panels of ${panel}`],
    output === undefined ? [] : [`outputs ${output}`],
  ];
  return [kernel, ...more.flat()].join(', ');
}

export async function runTune(values: Values, [file]: string[], streams: Streams): Promise<void> {
  const output = required(values, 'output');
  const budget = integer(values, 'budget');
  using model = await load(file!, streams);
  await makeFolderOf(output, streams);
  const progress = new Progress(streams);
  try {
    const { inputs } = model.info;
    for await (const { feeds } of take(randomSamples(inputs, 1, openDims(values, inputs)), 1)) {
      const { steps, faster } = await tune(model, {
        ...sessionOptions(values),
        feeds,
        cache: output,
        ...(budget === undefined ? {} : { budget }),
        onProgress: ({ done, total }) => progress.show('measuring', Math.round(done), total),
      });
      progress.clear();
      if (values['json']) {
        streams.out(`${JSON.stringify({ model: file, steps, faster }, null, 2)}\n`);
        return;
      }
      const changed = steps.filter(isChanged);
      if (changed.length > 0) {
        const rows = changed.map((step) => [
          shorten(step.tuning, 90),
          step.before,
          describe(step),
          `${step.faster.toFixed(2)} x`,
        ]);
        streams.out(
          `${table(['operator', 'usual kernel', 'faster', 'times'], rows, [0, 1, 2])}\n\n`,
        );
      }
      streams.out(
        `${steps.length} shapes measured, ${changed.length} with something faster; the model is ` +
          `${faster.toFixed(2)} x as fast\n`,
      );
    }
  } finally {
    progress.clear();
  }
}

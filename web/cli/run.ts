// Selects the command and the exit code: 0 for success, 1 for failure, 2 for a wrong command line.

import { suggest } from '../base/options.js';
import { version } from '../base/version.js';
import { env } from '../engine/env.js';
import { analyzeSpec, runAnalyze } from './analyzing.js';
import {
  type CommandSpec,
  UsageError,
  type Values,
  commandHelp,
  describeError,
  integer,
  oneOf,
  readArgs,
  text,
} from './args.js';
import { benchSpec, runBench } from './bench.js';
import { compareSpec, runCompare } from './comparing.js';
import { fingerprintSpec, runFingerprint } from './fingerprinting.js';
import { generateSpec, runGenerate } from './generating.js';
import { inspect, inspectSpec, optimize, optimizeSpec, runOnce, runSpec } from './models.js';
import { type Streams, printableStreams, processStreams } from './output.js';
import { packSpec, runPack } from './packing.js';
import { extractSpec, partitionSpec, runExtract, runPartition } from './partitioning.js';
import { loadPlugin } from './plugins.js';
import { quantizeSpec, runQuantize } from './quantizing.js';
import { initSpec, runInit } from './starting.js';
import { runTrain, trainSpec } from './training.js';
import { runTune, tuneSpec } from './tuning.js';
import { runVerify, verifySpec } from './verifying.js';
import { runWeights, weightsSpec } from './weighing.js';

export interface Command {
  spec: CommandSpec;
  action: (values: Values, positionals: string[], streams: Streams) => Promise<void>;
}

/** Every command of the command line. */
export const commands: readonly Command[] = [
  { spec: inspectSpec, action: inspect },
  { spec: optimizeSpec, action: optimize },
  { spec: quantizeSpec, action: runQuantize },
  { spec: weightsSpec, action: runWeights },
  { spec: trainSpec, action: runTrain },
  { spec: packSpec, action: runPack },
  { spec: generateSpec, action: runGenerate },
  { spec: partitionSpec, action: runPartition },
  { spec: extractSpec, action: runExtract },
  { spec: analyzeSpec, action: runAnalyze },
  { spec: runSpec, action: runOnce },
  { spec: compareSpec, action: runCompare },
  { spec: verifySpec, action: runVerify },
  { spec: tuneSpec, action: runTune },
  { spec: benchSpec, action: runBench },
  { spec: fingerprintSpec, action: runFingerprint },
  { spec: initSpec, action: runInit },
];

function help(): string {
  return [
    'Usage: requant COMMAND ...',
    '',
    'Quantizes ONNX models and runs them in WebAssembly.',
    '',
    'Commands:',
    ...commands.map(
      ({ spec }) => `  ${`${spec.name} ${spec.positionals.join(' ')}`.padEnd(28)}${spec.summary}`,
    ),
    '',
    'requant COMMAND --help shows the options of a command.',
  ].join('\n');
}

/** Runs the command line and returns the exit code. */
export async function runCli(
  args: readonly string[],
  given: Streams = processStreams,
): Promise<number> {
  const streams = printableStreams(given);
  const [name, ...rest] = args;
  if (name === '--help' || name === '-h' || name === 'help') {
    streams.out(`${help()}\n`);
    return 0;
  }
  if (name === '--version') {
    streams.out(`${version}\n`);
    return 0;
  }
  const command = commands.find(({ spec }) => spec.name === name);
  try {
    if (!command) {
      const names = commands.map(({ spec }) => spec.name);
      throw new UsageError(
        name === undefined
          ? 'a command is missing'
          : `there is no command "${name}". ${suggest(name, names)}`,
      );
    }
    const { values, positionals } = readArgs(command.spec, rest);
    if (values['help']) {
      streams.out(`${commandHelp(command.spec)}\n`);
      return 0;
    }
    const simd = oneOf(values, 'simd', ['auto', 'relaxed', 'simd128']);
    if (simd) env.wasm.simd = simd;
    const threads = values['threads'] === 'auto' ? 'auto' : integer(values, 'threads', 1, 16);
    if (threads !== undefined) env.wasm.numThreads = threads;
    const plugin = text(values, 'plugin');
    if (plugin !== undefined) await loadPlugin(plugin);
    await command.action(values, positionals, streams);
    return 0;
  } catch (error) {
    streams.err(`requant: ${describeError(error)}\n`);
    if (!(error instanceof UsageError)) return 1;
    streams.err(`Try: requant ${command ? `${command.spec.name} ` : ''}--help\n`);
    return 2;
  }
}

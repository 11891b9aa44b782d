// The command `verify`: compares a quantized model in two engines with each other and with its float
// original.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { type OnnxRuntime, onnxRuntime } from '../analyze/onnx_runtime.js';
import type { EngineRun } from '../analyze/verification.js';
import { verify } from '../analyze/verify.js';
import { formatShare, formatVerification } from '../report/index.js';
import {
  CheckFailed,
  type CommandSpec,
  UsageError,
  type Values,
  commonOptions,
  dataOptions,
  integer,
  real,
  required,
  text,
  threadsOption,
} from './args.js';
import { load, loadFloat, requantizeOption, sessionOptions } from './models.js';
import { Progress, type Streams } from './output.js';
import { openData } from './data.js';

export const verifySpec: CommandSpec = {
  name: 'verify',
  summary: 'Hold a quantized model here against the same file in another engine.',
  positionals: ['FLOAT', 'QUANTIZED'],
  options: {
    engine: {
      type: 'string',
      value: 'MODULE',
      help: 'package or script of the other engine; default onnxruntime-web',
    },
    worst: { type: 'string', value: 'N', help: 'samples to list, worst first; default 10' },
    'min-agreement': {
      type: 'string',
      value: 'SHARE',
      help: 'exit code 1 where the engines give fewer answers alike, 0 to 1; default 0.9',
    },
    requantize: { ...requantizeOption, help: `${requantizeOption.help}; default float` },
    ...dataOptions,
    ...threadsOption,
    ...commonOptions,
  },
  notes:
    'MODULE is a package of the folder that the command runs in, with the interface of onnxruntime-web, ' +
    'or a script whose default export takes the bytes of QUANTIZED and returns a function from feeds to ' +
    'outputs by name: { data, dims }. Both may be async.',
};

/** The address of a module: a script, or a package that the current folder or this package can import. */
function resolveModule(name: string): string {
  if (name.startsWith('.') || path.isAbsolute(name)) return pathToFileURL(path.resolve(name)).href;
  const here = createRequire(path.join(process.cwd(), 'index.js'));
  try {
    return pathToFileURL(here.resolve(name)).href;
  } catch {
    return name;
  }
}

async function loadEngine(name: string, file: string): Promise<EngineRun> {
  let loaded: Record<string, unknown>;
  try {
    loaded = (await import(resolveModule(name))) as Record<string, unknown>;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(
      `--engine ${name} cannot be loaded: ${message}. Install it where you run this: npm install ${name}`,
    );
  }
  const bytes = new Uint8Array(await readFile(file));
  // A CommonJS package has its exports in `default`.
  const [ort] = [loaded, loaded['default']].filter(
    (one) => typeof one === 'object' && one !== null && 'InferenceSession' in one,
  ) as (OnnxRuntime & { env?: { logLevel?: string; wasm?: { numThreads?: number } } })[];
  if (ort) {
    if (ort.env) {
      ort.env.logLevel = 'error';
      if (ort.env.wasm) ort.env.wasm.numThreads = 1;
    }
    return onnxRuntime(ort, bytes);
  }
  const make = loaded['default'];
  if (typeof make !== 'function') {
    throw new UsageError(
      `--engine ${name} has no InferenceSession, and no function as its default export`,
    );
  }
  const run: unknown = await (make as (bytes: Uint8Array) => unknown)(bytes);
  if (typeof run === 'function') return run as EngineRun;
  throw new UsageError(`the default export of --engine ${name} returns no function`);
}

export async function runVerify(
  values: Values,
  [floatFile, quantizedFile]: string[],
  streams: Streams,
): Promise<void> {
  required(values, 'data');
  const name = text(values, 'engine') ?? 'onnxruntime-web';
  const worst = integer(values, 'worst', 0);
  const least = real(values, 'min-agreement', 0, 1) ?? 0.9;
  using model = await loadFloat(floatFile!, streams);
  using quantized = await load(quantizedFile!, streams);
  const dataset = await openData(values, model);
  const engine = await loadEngine(name, quantizedFile!);
  const progress = new Progress(streams);
  const report = await verify(model, quantized, {
    dataset,
    engine,
    ...sessionOptions(values),
    ...(worst === undefined ? {} : { worst }),
    onProgress: ({ done, total }) => progress.show('verifying', done, total),
  }).finally(() => progress.clear());
  const label = path.basename(name, path.extname(name));
  streams.out(
    values['json']
      ? `${JSON.stringify(report, null, 2)}\n`
      : `${formatVerification(report, label)}\n`,
  );
  const { sameTop1 } = report.engines;
  if (sameTop1 >= least) return;
  throw new CheckFailed(
    `${formatShare(sameTop1)} of the answers are the same in both engines, --min-agreement asks for ${formatShare(least)}`,
  );
}

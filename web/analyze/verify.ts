// Compares a quantized model in two engines with each other and with its float original.

import {
  Breather,
  abortable,
  checkIterable,
  items,
  lengthOf,
  throwIfAborted,
} from '../base/abort.js';
import { RequantError, invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkMaxSamples, checkOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import { Model } from '../model/model.js';
import { type RequantizeMode, checkRequantize } from '../model/planning.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession, checkSameCore } from '../session/session.js';
import { type CompareSample, ofSample, sampleKinds } from './compare.js';
import { type EngineRun, Verification, type VerifyReport } from './verification.js';

/** How far {@link verify} has come. */
export interface VerifyProgress {
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
}

/** Options of {@link verify}. */
export interface VerifyOptions {
  /** Inputs; labels are not read. */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** The other engine, with the quantized model loaded; {@link onnxRuntime} makes one of ONNX Runtime. */
  engine: EngineRun;
  /** The largest number of samples to use. Default all. */
  maxSamples?: number;
  /** How many samples `worst` lists. Default 10. */
  worst?: number;
  /** As in {@link SessionOptions.requantize}. Default 'float', which is how ONNX Runtime rounds. */
  requantize?: RequantizeMode;
  onProgress?: (progress: VerifyProgress) => void;
  signal?: AbortSignal;
}

/** Operators that do not round: they move or select values, or have one right result in float32. */
const EXACT = new Set([
  ...[
    'ToChannelsLast',
    'ToChannelsFirst',
    'Transpose',
    'Reshape',
    'Flatten',
    'Squeeze',
    'Unsqueeze',
  ],
  ...[
    'Identity',
    'Concat',
    'Split',
    'Slice',
    'Gather',
    'GatherND',
    'GatherElements',
    'Pad',
    'Expand',
  ],
  ...[
    'Tile',
    'DepthToSpace',
    'SpaceToDepth',
    'Where',
    'Relu',
    'Clip',
    'Min',
    'Max',
    'MaxPool',
    'Neg',
  ],
  ...['Abs', 'ReduceMax', 'ReduceMin', 'GlobalMaxPool', 'DequantizeLinear'],
]);

/** Operators of a plan that compute in float and precede integer operators. */
export function floatOperators(session: InferenceSession): string[] {
  const steps = session.plan()?.steps ?? [];
  const has =
    (...types: string[]) =>
    (type: string | undefined) =>
      types.includes(type ?? '');
  const isFloat = has('float32', 'float64');
  const isCode = has('uint8', 'int8', 'uint16', 'int16');
  const last = steps.map(({ output }) => isCode(output?.type)).lastIndexOf(true);
  return steps
    .slice(0, Math.max(last, 0))
    .filter(({ op, output }) => isFloat(output?.type) && !EXACT.has(op))
    .map(({ name }) => name);
}

/**
 * Compares a quantized model here with the same model in another engine, and both with the float model.
 *
 * @param model The float model.
 * @param quantized The result of {@link quantize}, or a Model of the file that the other engine runs.
 * @throws RequantError INVALID_ARGUMENT for a bad option, no samples, or outputs that the engine does not
 * give; SHAPE_MISMATCH for outputs of other shapes; UNSUPPORTED, with its cause, where the engine throws;
 * what {@link InferenceSession.run} throws for feeds, with the number of the sample; ABORTED.
 * @example
 * const engine = await onnxRuntime(ort, quantized.toOnnx());
 * const report = await verify(model, quantized, { dataset: [{ feeds }], engine });
 * console.log(report.sameSamples, report.worst);
 */
export async function verify(
  model: Model,
  quantized: Model | QuantizedModel,
  options: VerifyOptions,
): Promise<VerifyReport> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`verify needs a Model, not ${show(model)}`, 'model');
  }
  if (!(quantized instanceof Model || quantized instanceof QuantizedModel)) {
    throw invalidArgument(`verify needs a quantized model, not ${show(quantized)}`, 'quantized');
  }
  checkOptions(
    options,
    {
      dataset: 'any',
      engine: 'function',
      maxSamples: 'number',
      worst: 'integer',
      requantize: 'string',
      onProgress: 'function',
      signal: 'signal',
    },
    'options',
  );
  const { dataset, engine, maxSamples, worst = 10, requantize = 'float' } = options;
  const { onProgress, signal } = options;
  if (engine === undefined) {
    throw invalidArgument(
      'options.engine is missing',
      'options.engine',
      'Give a function that runs feeds in the other engine, such as onnxRuntime(ort, bytes) makes.',
    );
  }
  checkIterable(dataset, 'options.dataset');
  checkMaxSamples(maxSamples);
  checkInteger(worst, 0, MOST_INT, 'options.worst');
  checkRequantize(requantize, 'options.requantize');
  throwIfAborted(signal);

  const other = quantized instanceof QuantizedModel ? quantized.integerModel : quantized;
  checkSameCore(model, other);
  const verification = new Verification(worst);
  const float = await InferenceSession.create(model);
  let here: InferenceSession | undefined;
  try {
    here = await InferenceSession.create(other, { requantize });
    const limit = maxSamples ?? Infinity;
    const known = lengthOf(dataset);
    const total = known === undefined ? {} : { total: Math.min(known, limit) };
    const breather = new Breather(signal);
    let done = 0;
    for await (const sample of items(dataset, signal)) {
      checkOptions(sample, sampleKinds, `sample ${done}`);
      const feeds = sample.feeds as Readonly<Record<string, Tensor>>;
      const [right, ours] = await Promise.all([float.run(feeds), here.run(feeds)]).catch(
        (error: unknown) =>
          ofSample(done, () => {
            throw error;
          }),
      );
      const theirs = await abortable(runEngine(engine, feeds, done), signal);
      ofSample(done, () => verification.add(right, ours, theirs));
      done += 1;
      onProgress?.({ done, ...total });
      await breather.breathe();
      if (done >= limit) break;
    }
    if (done === 0) throw invalidArgument('there are no samples to verify on', 'options.dataset');
    return verification.report(floatOperators(here));
  } finally {
    float.dispose();
    here?.dispose();
  }
}

async function runEngine(engine: EngineRun, feeds: Readonly<Record<string, Tensor>>, at: number) {
  try {
    return await engine(feeds);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new RequantError('UNSUPPORTED', `sample ${at}: the other engine failed: ${message}`, {
      cause,
      hint: 'It must run the file with these inputs.',
    });
  }
}

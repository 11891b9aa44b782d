import { Breather, checkIterable, items, lengthOf, throwIfAborted } from '../base/abort.js';
import { RequantError, invalidArgument, show } from '../base/errors.js';
import {
  MOST_INT,
  checkInteger,
  checkKind,
  checkMaxSamples,
  checkOptions,
  withoutUndefined,
} from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import type { CoreComparer } from '../core.js';
import { Handle, call } from '../engine/heap.js';
import { type Feeds, ownFeeds, withNumbers } from '../engine/tensors.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { sizeOfOnnx } from '../model/onnx_files.js';
import { type RequantizeMode, checkRequantize } from '../model/planning.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import type { MetricSpec } from '../metrics/table.js';
import { InferenceSession, checkSameCore } from '../session/session.js';
import { type CompareReport, type CoreReport, isFinite, withShares } from './compare_report.js';
import { Measurement } from './measure.js';

/** One input for the comparison. */
export interface CompareSample {
  feeds: Feeds;
  /** Index of the right class in the first output, if known; not for batches of more than one. */
  label?: number;
  /** The right result for a `metric`, in the form that it takes, where that is not the label. */
  target?: unknown;
}

/** The answers of both models for one sample. */
export interface SampleResult {
  /** Index of the largest element of the first output. */
  floatTop1: number;
  candidateTop1: number;
  floatMs: number;
  candidateMs: number;
}

/** How far the comparison has come. */
export interface CompareProgress {
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
  /** The sample that was finished last. */
  sample: SampleResult;
}

/** Options of {@link compare}. */
export interface CompareOptions {
  /** Inputs, with labels where known. */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** The largest number of samples to use. Default all. */
  maxSamples?: number;
  /** A measure of the task, such as 'top5': `report.metric`. Both models run once more for it. */
  metric?: MetricSpec;
  /** Whether to compare inner values, operator by operator, as well. Default false. */
  layerwise?: boolean;
  /**
   * On how many samples to compute every operator also from exact inputs, which separates its own error from
   * inherited error. Slow. Default 2 with `layerwise`.
   */
  aloneSamples?: number;
  /** As in {@link SessionOptions.requantize}. */
  requantize?: RequantizeMode;
  onProgress?: (progress: CompareProgress) => void;
  signal?: AbortSignal;
}

/** Bytes of the file that toOnnx() makes by default; where there is none, of the graph that runs. */
function candidateSize(candidate: Model | QuantizedModel): number {
  if (candidate instanceof Model) return sizeOfOnnx(candidate.handle).bytes;
  try {
    return candidate.toOnnx().length;
  } catch (error) {
    // A simulated operator cannot be written.
    if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
    return sizeOfOnnx(candidate.integerModel.handle).bytes;
  }
}

/** The number of classes in the first output, where its shape tells. */
function classesOf(model: Model): number | undefined {
  const dims = model.info.outputs[0]?.dims ?? [];
  const counted = dims.length > 1 ? dims.slice(1) : dims;
  if (counted.length === 0 || !counted.every((dim) => typeof dim === 'number')) return undefined;
  return counted.reduce((product, dim) => product * dim, 1);
}

/** @internal The members of a sample. */
export const sampleKinds = { feeds: 'any', label: 'any', target: 'any' } as const;

/** @internal */
export function checkLabel(label: unknown, classes: number | undefined): void {
  if (label === undefined) return;
  checkKind(label, 'integer', 'label');
  if ((label as number) < 0)
    throw invalidArgument(`label is ${show(label)}`, 'label', 'Leave out unknown labels.');
  if (classes !== undefined && (label as number) >= classes)
    throw invalidArgument(`label is ${show(label)} of ${classes} classes`, 'label');
}

/** @internal Runs `work`; its errors name the sample. */
export function ofSample<T>(index: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RequantError)) throw error;
    const { code, node, value, hint, message } = error;
    throw new RequantError(
      code,
      `sample ${index}: ${message}`,
      withoutUndefined({ node, value, hint, cause: error }) as object,
    );
  }
}

function addSample(
  comparer: Handle<CoreComparer>,
  sample: unknown,
  classes: number | undefined,
  index: number,
): SampleResult {
  return ofSample(index, () => {
    checkOptions(sample, sampleKinds, 'the sample');
    const { feeds, label } = sample as CompareSample;
    checkLabel(label, classes);
    const result = withNumbers(comparer.core, feeds, (coreFeeds) =>
      comparer.call((object) => object.add(...coreFeeds, label ?? -1)),
    );
    if (label !== undefined && result.floatTop1 < 0) {
      throw invalidArgument('a label needs a first output of one row', 'label');
    }
    return result;
  });
}

/** After every so many samples the report, which costs as much as a run, is checked for NaN. */
const CHECK_EVERY = 16;

// A copy, since the caller may fill the same tensors again.
function copyOf(feeds: Feeds): Feeds {
  return Object.fromEntries(
    Object.entries(ownFeeds(feeds)).map(([name, { type, data, dims }]) => [
      name,
      new Tensor(type, data.slice(), dims),
    ]),
  );
}

const notFiniteErrors = new WeakSet<object>();

/** @internal Whether compare() failed because an output was NaN or infinite. */
export const isNotFinite = (error: unknown): boolean => notFiniteErrors.has(error as object);

/**
 * The error for samples whose outputs are NaN or infinite in a model; `first` is the index of the first
 * sample.
 */
async function notFinite(
  first: number,
  samples: readonly Feeds[],
  names: readonly string[],
  requantize: RequantizeMode,
  models: Readonly<Record<string, Model>>,
): Promise<RequantError> {
  const refuse = (what: string, name: string) => {
    const error = invalidArgument(what, name, 'Remove the sample or repair the model.');
    notFiniteErrors.add(error);
    return error;
  };
  for (const [which, model] of Object.entries(models)) {
    const session = await InferenceSession.create(model, { requantize });
    try {
      for (const [index, feeds] of samples.entries()) {
        const outputs = await session.run(feeds, names);
        for (const name of names) {
          const data = Array.from(outputs[name]!.data as ArrayLike<number>);
          const at = data.findIndex((value) => !Number.isFinite(value));
          if (at < 0) continue;
          const what = Number.isNaN(data[at]) ? 'NaN' : 'infinite';
          const place = `output "${name}" of the ${which} is ${what} at index ${at}`;
          return refuse(`sample ${first + index}: ${place}`, name);
        }
      }
    } finally {
      session.dispose();
    }
  }
  return refuse(`output "${names[0]}" is NaN or infinite`, names[0]!);
}

/**
 * Compares a quantized model with the float model it came from: outputs, accuracy, size, latency, and, layer
 * by layer, where the error comes from.
 *
 * @param model The float model.
 * @param candidate The result of {@link quantize}, or any other model with the same inputs and outputs.
 * @throws RequantError INVALID_ARGUMENT for a bad option, no samples, models with other outputs or in another
 * engine, and a sample whose outputs have NaN or infinity; SHAPE_MISMATCH for outputs that differ in shape;
 * what {@link InferenceSession.run} throws for feeds, with the number of the sample; ABORTED.
 * @example
 * const report = await compare(model, quantized, { dataset: [{ feeds, label: 3 }], layerwise: true });
 * console.log(report.top1.agreement);
 */
export async function compare(
  model: Model,
  candidate: Model | QuantizedModel,
  options: CompareOptions,
): Promise<CompareReport> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`compare needs a Model, not ${show(model)}`, 'model');
  }
  if (!(candidate instanceof Model || candidate instanceof QuantizedModel)) {
    throw invalidArgument(`compare needs a quantized model, not ${show(candidate)}`, 'candidate');
  }
  checkOptions(
    options,
    {
      dataset: 'any',
      maxSamples: 'number',
      metric: 'any',
      layerwise: 'boolean',
      aloneSamples: 'integer',
      requantize: 'string',
      onProgress: 'function',
      signal: 'signal',
    },
    'options',
  );
  const { dataset, maxSamples, layerwise = false, aloneSamples, onProgress, signal } = options;
  checkIterable(dataset, 'options.dataset');
  checkMaxSamples(maxSamples);
  checkRequantize(options.requantize, 'options.requantize');
  checkInteger(aloneSamples, 0, MOST_INT, 'options.aloneSamples');
  throwIfAborted(signal);

  const other = candidate instanceof QuantizedModel ? candidate.integerModel : candidate;
  checkSameCore(model, other);
  const { core, object } = model.handle;
  const requantize = options.requantize ?? other.requantize;
  await loadToolsFor(model, other);
  const comparer = new Handle(
    core,
    call(core, () =>
      core.createComparer(object, other.handle.object, {
        requantize,
        layerwise,
        floatBytes: sizeOfOnnx(model.handle).bytes,
        candidateBytes: candidateSize(candidate),
        ...(layerwise && aloneSamples !== undefined ? { aloneSamples } : {}),
      }),
    ),
    'comparer',
  );
  let measurement: Measurement | undefined;
  try {
    const { metric } = options;
    if (metric !== undefined) {
      measurement = await Measurement.create(metric, model, other, requantize);
    }
    const limit = maxSamples ?? Infinity;
    const known = lengthOf(dataset);
    const total = known === undefined ? {} : { total: Math.min(known, limit) };
    const classes = classesOf(model);
    let recent: Feeds[] = [];
    // Once an output is not finite, all later numbers are lost.
    const check = async (end: number) => {
      const { outputs } = comparer.json<CoreReport>((handle) => handle.report());
      const lost = outputs.filter((output) => !isFinite(output)).map(({ name }) => name);
      if (lost.length > 0)
        throw await notFinite(end - recent.length, recent, lost, requantize, {
          model,
          candidate: other,
        });
      recent = [];
    };
    const breather = new Breather(signal);
    let done = 0;
    for await (const sample of items(dataset, signal)) {
      const result = addSample(comparer, sample, classes, done);
      await measurement?.add(sample, done);
      recent.push(copyOf(sample.feeds));
      if (recent.length === CHECK_EVERY) await check(done + 1);
      done += 1;
      onProgress?.({ done, ...total, sample: result });
      await breather.breathe();
      if (done >= limit) break;
    }
    if (done === 0) throw invalidArgument('there are no samples to compare on', 'options.dataset');
    await check(done);
    const report = withShares(comparer.json<CoreReport>((handle) => handle.report()));
    return measurement ? { ...report, metric: await measurement.values() } : report;
  } finally {
    measurement?.dispose();
    comparer.dispose();
  }
}

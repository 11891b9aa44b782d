import { Breather, checkIterable, items, lengthOf, throwIfAborted } from './abort.js';
import { checkMaxSamples } from './config.js';
import type { CoreComparer } from './core.js';
import { RequantError, invalidArgument, show } from './errors.js';
import { type Feeds, Handle, call, withFeeds } from './heap.js';
import { Model, type RequantizeMode, loadToolsFor } from './model.js';
import { MOST_INT, checkInteger, checkKind, checkOptions, withoutUndefined } from './options.js';
import { QuantizedModel } from './quantize.js';
import { type PlanMemory, checkSameCore } from './session.js';
import { checkRequantize } from './session_options.js';

/** One input to compare on. */
export interface CompareSample {
  feeds: Feeds;
  /** Index of the right class, if known. Ignored when the batch is of more than one. */
  label?: number;
}

/** What both models said to one sample. */
export interface SampleResult {
  /** Index of the largest element of the first output. */
  floatTop1: number;
  candidateTop1: number;
  floatMs: number;
  candidateMs: number;
}

/** How far the comparison is. */
export interface CompareProgress {
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
  /** The sample just finished. */
  sample: SampleResult;
}

/** Options of {@link compare}. */
export interface CompareOptions {
  /** Inputs, with labels where known. */
  dataset: Iterable<CompareSample> | AsyncIterable<CompareSample>;
  /** Use at most so many samples. Default all. */
  maxSamples?: number;
  /** Compare inner values operator by operator as well. Default false. */
  layerwise?: boolean;
  /**
   * On so many samples, also compute every operator alone from exact inputs, which tells its own
   * error from what it inherits. Slow. Default 2 with `layerwise`.
   */
  aloneSamples?: number;
  /** As in {@link SessionOptions.requantize}. */
  requantize?: RequantizeMode;
  onProgress?: (progress: CompareProgress) => void;
  signal?: AbortSignal;
}

/** The difference of one output. */
export interface OutputDifference {
  name: string;
  /** Signal to noise ratio in dB; null when there is no difference. */
  snr: number | null;
  cosine: number;
  maxAbs: number;
  meanAbs: number;
  /** Largest minus smallest value of the float model. */
  range: number;
}

/** The difference of one inner value. */
export interface LayerDifference {
  /** Name of the operator. */
  name: string;
  op: string;
  /** Name of the value. */
  value: string;
  /** Signal to noise ratio in dB with everything before it quantized as well; null: no difference. */
  snr: number | null;
  cosine: number;
  maxAbs: number;
  meanAbs: number;
  /** Largest minus smallest value of the float model. */
  range: number;
  /** The same when the operator gets the exact inputs; missing where it was not measured. */
  aloneSnr?: number | null;
  aloneCosine?: number;
  aloneMaxAbs?: number;
}

/** How a quantized model differs from the float model. */
export interface CompareReport {
  samples: number;
  labelled: number;
  outputs: OutputDifference[];
  /** Shares in [0, 1] by the first output; accuracies are null without labels. */
  top1: { float: number | null; candidate: number | null; agreement: number | null };
  /** In the order of the graph; empty unless `layerwise`. */
  layers: LayerDifference[];
  size: { floatBytes: number; candidateBytes: number };
  /** Medians of one run; ratio > 1: the candidate is faster. */
  latency: { floatMs: number; candidateMs: number; ratio: number };
  memory: { float: PlanMemory; candidate: PlanMemory };
}

/** The core counts. */
type CoreReport = Omit<CompareReport, 'top1'> & {
  top1: { float: number; candidate: number; agreement: number; rows: number };
};

function withShares(report: CoreReport): CompareReport {
  const { float, candidate, agreement, rows } = report.top1;
  const share = (count: number, of: number) => (of > 0 ? count / of : null);
  return {
    ...report,
    top1: {
      float: share(float, report.labelled),
      candidate: share(candidate, report.labelled),
      agreement: share(agreement, rows),
    },
  };
}

function onnxSize(model: Model): number {
  const blob = model.handle.call((object) => object.onnx());
  try {
    return blob.size;
  } finally {
    blob.free();
    blob.delete();
  }
}

/** Bytes of the candidate as a file that other engines read; where there is none, of what runs here. */
function candidateSize(candidate: Model | QuantizedModel): number {
  if (candidate instanceof Model) return onnxSize(candidate);
  try {
    return candidate.toOnnx({ format: 'qoperator' }).length;
  } catch (error) {
    // Simulated operators.
    if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
    return onnxSize(candidate.integerModel);
  }
}

function addSample(comparer: Handle<CoreComparer>, sample: unknown, index: number): SampleResult {
  try {
    checkKind(sample, 'object', 'the sample');
    const { feeds, label } = sample as CompareSample;
    if (label !== undefined) {
      checkKind(label, 'integer', 'label');
      if (label < 0)
        throw invalidArgument(`label is ${label}`, 'label', 'Leave out unknown labels.');
    }
    return withFeeds(comparer.core, feeds, (coreFeeds) =>
      comparer.call((object) => object.add(...coreFeeds, label ?? -1)),
    );
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

/**
 * Holds a quantized model against the float model it came from: outputs, accuracy, size, latency,
 * and layer by layer where the error comes from.
 *
 * @param model The float model.
 * @param candidate What {@link quantize} made, or any other model with the same inputs and outputs.
 * @throws RequantError INVALID_ARGUMENT for a bad option, no samples, and models of other outputs or of
 * another engine; what {@link InferenceSession.run} throws for feeds, with the number of the sample;
 * SHAPE_MISMATCH for outputs that differ in shape; ABORTED.
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
      layerwise: 'boolean',
      aloneSamples: 'integer',
      requantize: 'string',
      onProgress: 'function',
      signal: 'object',
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
  await loadToolsFor(model, other);
  const comparer = new Handle(
    core,
    call(core, () =>
      core.createComparer(object, other.handle.object, {
        requantize: options.requantize ?? other.requantize,
        layerwise,
        floatBytes: onnxSize(model),
        candidateBytes: candidateSize(candidate),
        ...(layerwise && aloneSamples !== undefined ? { aloneSamples } : {}),
      }),
    ),
    'comparer',
  );
  try {
    const limit = maxSamples ?? Infinity;
    const known = lengthOf(dataset);
    const total = known === undefined ? {} : { total: Math.min(known, limit) };
    const breather = new Breather(signal);
    let done = 0;
    for await (const sample of items(dataset, signal)) {
      const result = addSample(comparer, sample, done);
      done += 1;
      onProgress?.({ done, ...total, sample: result });
      await breather.breathe();
      if (done >= limit) break;
    }
    if (done === 0) throw invalidArgument('there are no samples to compare on', 'options.dataset');
    return withShares(comparer.json<CoreReport>((handle) => handle.report()));
  } finally {
    comparer.dispose();
  }
}

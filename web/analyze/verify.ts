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
import { MOST_INT, checkInteger, checkOptions } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import { Model, type RequantizeMode } from '../model/model.js';
import { checkRequantize } from '../model/session_options.js';
import { checkMaxSamples } from '../quantize/config.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession, checkSameCore } from '../session/session.js';
import { type CompareSample, ofSample } from './compare.js';

/** A tensor of any engine: elements and dimensions. */
export interface EngineTensor {
  /** The element type, where the array does not tell it: 'float16' for half floats in a Uint16Array. */
  readonly type?: string;
  readonly data: ArrayLike<number | bigint>;
  readonly dims: readonly number[];
}

/** Runs the file that another engine has loaded: feeds in, outputs by name out. */
export type EngineRun = (
  feeds: Readonly<Record<string, Tensor>>,
) => Readonly<Record<string, EngineTensor>> | Promise<Readonly<Record<string, EngineTensor>>>;

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

/** How similar two of the three results are. */
export interface Likeness {
  /** Signal to noise ratio in dB; null: no difference; -Infinity: a difference from zeros. */
  snr: number | null;
  /** Largest difference of an element. */
  maxAbs: number;
  /** Share of samples, in [0, 1], whose first output has its largest element at the same index. */
  sameTop1: number;
}

/** One output in both engines. */
export interface VerifiedOutput {
  name: string;
  /** Number of elements over all samples. */
  elements: number;
  /** Number of elements that are equal in both engines. */
  same: number;
  /** Signal to noise ratio in dB of one engine against the other; null: no difference. */
  snr: number | null;
  maxAbs: number;
}

/** The element of a sample on which the engines differ most. */
export interface WorstSample {
  /** Number of the sample, from 0. */
  sample: number;
  output: string;
  /** Index of the element, in row-major order. */
  index: number;
  /** The element in the float model, in the quantized model here, and in that of the other engine. */
  float: number;
  requant: number;
  engine: number;
  /** Indices of the largest elements of the first output, in the same order. */
  top1: [number, number, number];
}

/** A quantized model in two engines, beside its float original. */
export interface VerifyReport {
  samples: number;
  /** Number of samples whose outputs are all equal, element by element, in both engines. */
  sameSamples: number;
  outputs: VerifiedOutput[];
  /** Over all outputs: the engines against each other, and each against the float model here. */
  engines: Likeness;
  requant: Likeness;
  engine: Likeness;
  /** Samples with differences, the largest first. */
  worst: WorstSample[];
  /**
   * Operators that compute in float here and precede integer operators. The last bit of such a float may
   * differ between engines, which moves a code by one where the value lies between two codes.
   */
  floatOperators: string[];
}

/** The difference between two sequences of numbers, the first of which is the reference. */
class Difference {
  #signal = 0;
  #noise = 0;
  #same = 0;
  #samples = 0;
  maxAbs = 0;

  add(right: number, other: number): void {
    if (Object.is(right, other) || right === other) {
      if (Number.isFinite(right)) this.#signal += right * right;
      return;
    }
    const difference = Math.abs(right - other);
    this.maxAbs = Math.max(this.maxAbs, Number.isNaN(difference) ? Infinity : difference);
    this.#signal += Number.isFinite(right) ? right * right : 0;
    this.#noise += Number.isNaN(difference) ? Infinity : difference * difference;
  }

  addTop1(same: boolean): void {
    this.#samples += 1;
    this.#same += Number(same);
  }

  get snr(): number | null {
    if (this.#noise === 0) return null;
    return this.#signal === 0 ? -Infinity : 10 * Math.log10(this.#signal / this.#noise);
  }

  likeness(): Likeness {
    return { snr: this.snr, maxAbs: this.maxAbs, sameTop1: this.#same / this.#samples };
  }
}

interface OutputDifference {
  name: string;
  elements: number;
  same: number;
  difference: Difference;
}

/** Index of the largest element: the first of several, -1 without elements. */
function top1(values: ArrayLike<number>): number {
  let best = -1;
  for (let i = 0; i < values.length; ++i) {
    if (best < 0 || values[i]! > values[best]!) best = i;
  }
  return best;
}

/** The number that an IEEE 754 half float with these bits represents. */
function fromHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size =
    exponent === 31
      ? fraction === 0
        ? Infinity
        : NaN
      : exponent === 0
        ? fraction * 2 ** -24
        : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}

function numbersOf({ type, data }: EngineTensor): number[] {
  return type === 'float16' && data instanceof Uint16Array
    ? Array.from(data, fromHalf)
    : Array.from(data, Number);
}

/** The engine's values of an output; throws INVALID_ARGUMENT for one that is missing or has other dims. */
function engineValues(
  outputs: Readonly<Record<string, EngineTensor>>,
  name: string,
  expected: Tensor,
): ArrayLike<number> {
  const given = outputs?.[name];
  if (typeof given !== 'object' || given === null || !('data' in given)) {
    const names = typeof outputs === 'object' && outputs !== null ? Object.keys(outputs) : [];
    throw invalidArgument(
      `the engine gave ${show(given)} as output "${name}"`,
      name,
      `It gave: ${names.join(', ') || 'nothing'}. It must run the same file.`,
    );
  }
  const { data, dims } = given;
  const same =
    dims.length === expected.dims.length && dims.every((dim, i) => dim === expected.dims[i]);
  if (!same || data.length !== expected.data.length) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `output "${name}" is [${expected.dims.join(', ')}] here and [${dims.join(', ')}] with ${data.length} elements in the engine`,
      { value: name },
    );
  }
  return numbersOf(given);
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
function floatOperators(session: InferenceSession): string[] {
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

class Verification {
  readonly #outputs = new Map<string, OutputDifference>();
  readonly #engines = new Difference();
  readonly #requant = new Difference();
  readonly #engine = new Difference();
  readonly #worst: (WorstSample & { difference: number })[] = [];
  #samples = 0;
  #sameSamples = 0;

  constructor(private readonly most: number) {}

  add(
    float: Readonly<Record<string, Tensor>>,
    here: Readonly<Record<string, Tensor>>,
    there: Readonly<Record<string, EngineTensor>>,
  ): void {
    let worst: (WorstSample & { difference: number }) | undefined;
    let best: [number, number, number] | undefined;
    for (const [name, tensor] of Object.entries(here)) {
      const right = float[name];
      if (!right || right.data.length !== tensor.data.length) {
        throw new RequantError(
          'SHAPE_MISMATCH',
          `output "${name}" of the quantized model is ${right ? `[${right.dims.join(', ')}]` : 'none'} in the float model, not [${tensor.dims.join(', ')}]`,
          { value: name },
        );
      }
      const a = numbersOf(right);
      const b = numbersOf(tensor);
      const c = engineValues(there, name, tensor);
      best ??= [top1(a), top1(b), top1(c)];
      const output = this.#outputs.get(name) ?? {
        name,
        elements: 0,
        same: 0,
        difference: new Difference(),
      };
      this.#outputs.set(name, output);
      for (let i = 0; i < b.length; ++i) {
        this.#requant.add(a[i]!, b[i]!);
        this.#engine.add(a[i]!, c[i]!);
        this.#engines.add(c[i]!, b[i]!);
        output.difference.add(c[i]!, b[i]!);
        output.elements += 1;
        if (Object.is(b[i], c[i]) || b[i] === c[i]) {
          output.same += 1;
          continue;
        }
        const difference = Math.abs(b[i]! - c[i]!);
        const size = Number.isNaN(difference) ? Infinity : difference;
        if (worst !== undefined && size <= worst.difference) continue;
        const values = { float: a[i]!, requant: b[i]!, engine: c[i]! };
        worst = {
          sample: this.#samples,
          output: name,
          index: i,
          ...values,
          top1: best,
          difference: size,
        };
      }
    }
    const [a, b, c] = best ?? [-1, -1, -1];
    this.#requant.addTop1(a === b);
    this.#engine.addTop1(a === c);
    this.#engines.addTop1(b === c);
    this.#samples += 1;
    if (worst === undefined) {
      this.#sameSamples += 1;
      return;
    }
    this.#worst.push(worst);
    this.#worst.sort((x, y) => (x.difference === y.difference ? 0 : y.difference - x.difference));
    this.#worst.length = Math.min(this.#worst.length, this.most);
  }

  report(floatOperators: string[]): VerifyReport {
    return {
      samples: this.#samples,
      sameSamples: this.#sameSamples,
      outputs: Array.from(this.#outputs.values(), ({ name, elements, same, difference }) => ({
        name,
        elements,
        same,
        snr: difference.snr,
        maxAbs: difference.maxAbs,
      })),
      engines: this.#engines.likeness(),
      requant: this.#requant.likeness(),
      engine: this.#engine.likeness(),
      worst: this.#worst.map(({ difference: _, ...sample }) => sample),
      floatOperators,
    };
  }
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
      checkOptions(sample, { feeds: 'any', label: 'any' }, `sample ${done}`);
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

/** The part of the packages onnxruntime-web and onnxruntime-node that {@link onnxRuntime} uses. */
export interface OnnxRuntime {
  InferenceSession: {
    create(bytes: Uint8Array, options?: object): Promise<OnnxRuntimeSession>;
  };
  Tensor: new (type: never, data: never, dims: readonly number[]) => unknown;
}

/** A session of ONNX Runtime. */
export interface OnnxRuntimeSession {
  run(feeds: never): Promise<Readonly<Record<string, unknown>>>;
}

/**
 * Makes an {@link EngineRun} that runs a file in ONNX Runtime.
 *
 * @param ort The module: `import * as ort from 'onnxruntime-web'`.
 * @param bytes The file, such as {@link QuantizedModel.toOnnx} makes.
 * @param options Options of its InferenceSession.create().
 * @throws RequantError INVALID_ARGUMENT for a value that is no such module; UNSUPPORTED for a file that it
 * refuses.
 */
export async function onnxRuntime(
  ort: OnnxRuntime,
  bytes: Uint8Array,
  options: object = {},
): Promise<EngineRun> {
  if (typeof ort?.InferenceSession?.create !== 'function' || typeof ort.Tensor !== 'function') {
    throw invalidArgument(
      `${show(ort)} is no module of ONNX Runtime`,
      'ort',
      "Give what import * as ort from 'onnxruntime-web' names.",
    );
  }
  let session: OnnxRuntimeSession;
  try {
    session = await ort.InferenceSession.create(bytes, options);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new RequantError('UNSUPPORTED', `ONNX Runtime refuses the file: ${message}`, { cause });
  }
  return async (feeds) => {
    const theirs = Object.fromEntries(
      Object.entries(feeds).map(([name, { type, data, dims }]) => [
        name,
        new ort.Tensor(type as never, data as never, dims),
      ]),
    );
    return (await session.run(theirs as never)) as Readonly<Record<string, EngineTensor>>;
  };
}

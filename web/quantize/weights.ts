// Quantizes only weights, or activations while the model runs.

import { Breather, checkIterable, items, lengthOf, throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import {
  MOST_INT,
  checkInteger,
  checkMaxSamples,
  checkOneOf,
  checkOptions,
} from '../base/options.js';
import type {
  Core,
  CoreModel,
  CoreWeights,
  CoreWeightQuantizer,
  CoreWeightsCalibrator,
  CoreWeightsOptions,
  Failure,
} from '../core.js';
import { Handle, call } from '../engine/heap.js';
import { type Feeds, withNumbers } from '../engine/tensors.js';
import { loadTools } from '../engine/load_core.js';
import { arrived } from '../model/load_model.js';
import { type FloatOperator, Model, type WeightLayer } from '../model/model.js';
import { type Samples, ofSample } from './calibrate.js';

/** How {@link quantizeWeights} rounds with calibration. */
export type WeightsMethod = 'gptq' | 'awq' | 'awq_gptq';

/** Which inputs of products {@link quantizeWeights} rotates. */
export type WeightsRotation = 'auto' | 'always';

/** Options of {@link quantizeWeights}. */
export interface WeightsOptions {
  /** 2, 3, 4 (default) or 8. */
  bits?: 2 | 3 | 4 | 8;
  /** How many weights share a scale, along the summed dimension; a power of two from 16 on. Default 32. */
  blockSize?: number;
  /**
   * `'qdq'` (default): a blocked DequantizeLinear, opset 21, in which 2 and 3 bits are stored in 4.
   * `'matmulnbits'`: ONNX Runtime's com.microsoft.MatMulNBits, which computes from the packed weights; of 2 and
   * 3 bits it has an operator in newer versions only, and this engine unpacks them when it plans.
   */
  format?: 'qdq' | 'matmulnbits';
  /**
   * For `'matmulnbits'`: whether engines may quantize activations to 8 bits, 32 values with a scale of their own
   * (`accuracy_level` 4), which is faster. Default true up to 4 bits, where it costs far less accuracy than the
   * weights did; false for 8 bits, which lose about 2 dB by it.
   */
  int8Activations?: boolean;
  /**
   * Bits of tables of which the network gathers rows (embeddings of tokens, positions), if they have 4096
   * numbers or more. 8 (default): a scale for each row, in operators of every engine. 4, for the format
   * `'matmulnbits'`: com.microsoft.GatherBlockQuantized with blocks of `blockSize`. false: float.
   */
  embeddings?: 4 | 8 | false;
  /** Default true. With false every block has a zero point too, which pays with 3 bits and fewer. */
  symmetric?: boolean;
  /**
   * Typical inputs: feeds for one run of the float model each. Scales and integers are then chosen so that the
   * outputs of products change least, not the weights. They are kept in memory if sums of products of all
   * layers' inputs (4 k^2 bytes for k rows of weights) exceed 256 MB, since the samples then run several times.
   */
  calibration?: Samples;
  /**
   * `'gptq'` (default): every weight makes up for the errors of those before it (arXiv 2210.17323). `'awq'`:
   * input channels of large magnitude get finer steps, by factors that the operator before divides by
   * (arXiv 2306.00978). `'awq_gptq'`: both. Only with `calibration`.
   */
  method?: WeightsMethod;
  /**
   * Multiplies the input of products by an orthogonal block-diagonal Hadamard matrix and the weights by its inverse
   * (QuaRot, arXiv 2404.00456; QuIP#, arXiv 2402.04396), which spreads large channels over their block. The operators
   * before take the rotation where only a normalization by the mean square, sums or moves lie between (the residual
   * stream of a Llama, values of attention); elsewhere Reshape and MatMul rotate at run time. `'auto'`: where the
   * error of the products' outputs (of their weights, without `calibration`) falls by 5 %, at run time by 10.
   * `'always'`: wherever it is possible. `weightLayers` says what was done. Left out: nowhere.
   */
  rotate?: WeightsRotation;
  /** The largest block of a rotation, a power of two from 2 to 1024; smaller where it does not divide. Default 128. */
  rotateSize?: number;
  /** The largest number of samples to use. Default all. */
  maxSamples?: number;
  /** Samples that were shown, with `calibration`; then layers that were made. */
  onProgress?: (progress: WeightsProgress) => void;
  signal?: AbortSignal;
}

/** Options of {@link quantizeDynamic}. */
export interface DynamicOptions {
  /**
   * Whether tables of which the network gathers rows (embeddings of tokens, positions) have 8 bits with a scale
   * for each row. Default true; tables with fewer than 4096 numbers stay in float.
   */
  embeddings?: boolean;
  /**
   * Whether every row of activations (a token) has its own scale and zero point, so that a token with large values
   * costs the others no accuracy, and none depends on those beside it. Default true: the file has ReduceMin, ReduceMax
   * and other operators of ONNX, which this engine runs as one. With false it has DynamicQuantizeLinear, with one
   * scale for the whole tensor.
   */
  perToken?: boolean;
  /**
   * The bits of products' weights, 8 (default) or 7. Weights of 7 bits are codes from -63 to 63 in the same bytes: this
   * engine multiplies them faster on processors that do not multiply whole bytes (x86 without AVX-VNNI), and loses some
   * accuracy.
   */
  weightBits?: 7 | 8;
  /**
   * Whether attention may code its operands in 8 bits when it runs, with one scale for each token. Default true: the
   * model's metadata say so, and sessions follow unless they have another {@link PlanningOptions.accuracyLevel}.
   * Other engines compute attention in floats.
   */
  int8Attention?: boolean;
}

/** How far {@link quantizeWeights} has come. */
export interface WeightsProgress {
  /** 'calibrate' shows samples to the float model; 'round' makes the integers of layers. */
  phase: 'calibrate' | 'round';
  done: number;
  /** Missing while the number of samples is not known. */
  total?: number;
}

async function coreOf(model: Model): Promise<Core> {
  if (!(model instanceof Model)) {
    throw invalidArgument(`this needs a Model, not ${show(model)}`, 'model', 'Use loadModel().');
  }
  const { core } = model.handle;
  await loadTools(core);
  return core;
}

async function withoutSamples(
  given: Model | PromiseLike<Model>,
  body: (core: Core, object: CoreModel) => CoreWeights | Failure | Promise<CoreWeights>,
): Promise<Model> {
  const model = await arrived(given);
  const core = await coreOf(model);
  const result = await body(core, model.handle.object);
  const { model: made, left, layers } = call(core, () => result);
  const { operators, summary } = JSON.parse(left) as {
    operators: FloatOperator[];
    summary: string;
  };
  const warnings = summary === '' ? [] : [summary];
  const weightLayers = layers === undefined ? [] : (JSON.parse(layers) as WeightLayer[]);
  return new Model(core, made, 'float', operators, warnings, weightLayers);
}

function checkWeightsOptions(options: WeightsOptions): CoreWeightsOptions {
  checkOptions(
    options,
    {
      bits: 'integer',
      blockSize: 'integer',
      format: 'string',
      int8Activations: 'boolean',
      embeddings: 'any',
      symmetric: 'boolean',
      calibration: 'any',
      method: 'string',
      rotate: 'string',
      rotateSize: 'integer',
      maxSamples: 'number',
      onProgress: 'function',
      signal: 'signal',
    },
    'options',
  );
  const { bits = 4, blockSize = 32, format = 'qdq', int8Activations = bits < 8 } = options;
  const { symmetric = true, calibration, method = 'gptq', maxSamples } = options;
  const { rotate, rotateSize = 128 } = options;
  checkOneOf(format, ['qdq', 'matmulnbits'], 'options.format');
  checkOneOf(method, ['gptq', 'awq', 'awq_gptq'], 'options.method');
  if (rotate !== undefined) {
    checkOneOf(rotate, ['auto', 'always'], 'options.rotate');
  } else if (options.rotateSize !== undefined) {
    throw invalidArgument(
      'rotateSize has no effect without rotate',
      'options.rotateSize',
      "Give rotate: 'auto', or leave rotateSize out.",
    );
  }
  checkInteger(rotateSize, 1, MOST_INT, 'options.rotateSize');
  // The core decides which of these values exist.
  checkInteger(bits, 1, MOST_INT, 'options.bits');
  checkInteger(blockSize, 1, MOST_INT, 'options.blockSize');
  checkMaxSamples(maxSamples);
  const { embeddings = 8 } = options;
  if (![4, 8, false].includes(embeddings)) {
    const name = 'options.embeddings';
    throw invalidArgument(`${name} is ${show(embeddings)}`, name, 'Use 8, 4 or false.');
  }
  if (calibration !== undefined) {
    checkIterable(calibration, 'options.calibration');
  } else if (options.method !== undefined) {
    throw invalidArgument(
      `the method ${method} needs calibration samples`,
      'options.method',
      'Give `calibration`, or leave `method` out to round to nearest.',
    );
  }
  return {
    bits,
    block: blockSize,
    matMulNBits: format === 'matmulnbits',
    int8Activations,
    embeddings: embeddings || 0,
    symmetric,
    feedback: method !== 'awq',
    scale: method !== 'gptq',
    rotate: rotate ?? '',
    rotateSize,
  };
}

function showSample(
  calibrator: Handle<CoreWeightsCalibrator>,
  pass: number,
  feeds: Feeds,
  at: number,
) {
  try {
    withNumbers(calibrator.core, feeds, (coreFeeds) =>
      calibrator.call((object) => object.add(pass, ...coreFeeds)),
    );
  } catch (error) {
    throw ofSample(error, at);
  }
}

/** Makes the integers of one layer after another. */
async function rounded(
  quantizer: Handle<CoreWeightQuantizer | CoreWeightsCalibrator>,
  { onProgress }: WeightsOptions,
  breather: Breather,
): Promise<void> {
  for (let more = true; more;) {
    const step = quantizer.call((one) => one.step());
    more = step.more;
    onProgress?.({ phase: 'round', done: step.done, total: step.total });
    await breather.breathe();
  }
}

async function toNearest(
  core: Core,
  object: CoreModel,
  coreOptions: CoreWeightsOptions,
  options: WeightsOptions,
): Promise<CoreWeights> {
  const quantizer = new Handle(
    core,
    call(core, () => core.createWeightQuantizer(object, coreOptions)),
    'weight quantizer',
  );
  try {
    await rounded(quantizer, options, new Breather(options.signal));
    return quantizer.call((one) => one.finish());
  } finally {
    quantizer.dispose();
  }
}

/** Shows samples and makes the integers, pass by pass. */
async function calibrated(
  core: Core,
  object: CoreModel,
  coreOptions: CoreWeightsOptions,
  options: WeightsOptions,
): Promise<CoreWeights> {
  const { calibration, maxSamples = Infinity, onProgress, signal } = options;
  const calibrator = new Handle(
    core,
    call(core, () => core.createWeightsCalibrator(object, coreOptions)),
    'weights calibrator',
  );
  try {
    const breather = new Breather(signal);
    const passesNow = () => calibrator.call((one) => one.passes());
    let passes = passesNow();
    const known = lengthOf(calibration!);
    let samples = known === undefined ? undefined : Math.min(known, maxSamples);
    const shown = (done: number) =>
      onProgress?.({
        phase: 'calibrate',
        done,
        ...(samples === undefined ? {} : { total: samples * Math.max(1, passes) }),
      });
    const kept: Feeds[] = [];
    let count = 0;
    shown(0);
    if (passes > 0) {
      for await (const feeds of items(calibration!, signal)) {
        showSample(calibrator, 0, feeds, count);
        count += 1;
        if (passes > 1) kept.push(feeds);
        shown(count);
        await breather.breathe();
        if (count >= maxSamples) break;
      }
      if (count === 0) {
        throw invalidArgument(
          'there are no calibration samples',
          'options.calibration',
          'Give at least one; some dozen texts of the usual length are a good number.',
        );
      }
      samples = count;
    }
    for (let pass = 0; pass < passes; pass++) {
      for (const [index, feeds] of pass > 0 ? kept.entries() : []) {
        showSample(calibrator, pass, feeds, index);
        shown(pass * count + index + 1);
        await breather.breathe();
      }
      await rounded(calibrator, options, breather);
      passes = passesNow();
    }
    return calibrator.call((one) => one.finish());
  } finally {
    calibrator.dispose();
  }
}

/**
 * Quantizes the weights of matrix products (MatMul, Gemm) and recurrent layers (LSTM, GRU, RNN) to integers
 * in blocks and keeps activations in float: small files, bodies of If, Loop and Scan included.
 * Tables of embeddings have 8 bits unless `embeddings` says otherwise. `floatOperators` and `warnings` of the result list what stays float. Without `calibration` weights round to
 * nearest. With it, `weightLayers` of the result lists what was chosen for every product and its error before and
 * after (with `rotate` it lists the products without samples, too); products in bodies and recurrent layers still round to nearest. The caller disposes of the result.
 *
 * @throws RequantError INVALID_ARGUMENT for options out of range, for `calibration` without samples and for NaN
 * or infinity in what products read; ABORTED.
 */
export async function quantizeWeights(
  model: Model | PromiseLike<Model>,
  options: WeightsOptions = {},
): Promise<Model> {
  const coreOptions = checkWeightsOptions(options);
  throwIfAborted(options.signal);
  return withoutSamples(model, (core, object) =>
    options.calibration === undefined
      ? toNearest(core, object, coreOptions, options)
      : calibrated(core, object, coreOptions, options),
  );
}

/**
 * Quantizes matrix products (MatMul, Gemm) to 8 bits with ranges measured at run time, without calibration:
 * MatMulInteger of codes with a scale for every row, for LSTM com.microsoft.DynamicQuantizeLSTM; GRU and RNN get
 * 8-bit weights. Tables of embeddings have 8 bits, too. `floatOperators` and `warnings` of the result list what stays
 * float. The caller disposes of the result.
 */
export async function quantizeDynamic(
  model: Model | PromiseLike<Model>,
  options: DynamicOptions = {},
): Promise<Model> {
  const kinds = {
    embeddings: 'boolean',
    perToken: 'boolean',
    weightBits: 'number',
    int8Attention: 'boolean',
  } as const;
  checkOptions(options, kinds, 'options');
  checkInteger(options.weightBits, 7, 8, 'options.weightBits');
  const { embeddings = true, perToken = true, weightBits = 8, int8Attention = true } = options;
  return withoutSamples(model, (core, object) =>
    core.dynamically(object, embeddings, perToken, weightBits, int8Attention),
  );
}

/**
 * A copy of the model with a bit for each weight where weights have two values only (-1 and 1, as integers or
 * floats), for small files: `(await packWeights(model)).toOnnx()`. ONNX has no such type, so its own
 * operators (BitShift, Mod, Gather) express it, which every engine evaluates when it loads the file; results
 * stay the same bits. QONNX's Quant nodes become ONNX's integers. The caller disposes of the result.
 *
 * @throws RequantError `UNSUPPORTED` below opset 13.
 */
export async function packWeights(model: Model): Promise<Model> {
  const core = await coreOf(model);
  return new Model(
    core,
    call(core, () => core.packWeights(model.handle.object)),
    model.requantize,
  );
}

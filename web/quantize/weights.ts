// Quantizes without samples: only weights, or activations while the model runs.

import { invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkOneOf, checkOptions } from '../base/options.js';
import type { Core, CoreModel, CoreWeights, Failure } from '../core.js';
import { call } from '../engine/heap.js';
import { loadTools } from '../engine/load_core.js';
import { arrived } from '../model/load_model.js';
import { type FloatOperator, Model } from '../model/model.js';

/** Options of {@link quantizeWeights}. */
export interface WeightsOptions {
  /** 4 (default) or 8. */
  bits?: 4 | 8;
  /** How many weights share a scale, along the summed dimension; a power of two from 16 on. Default 32. */
  blockSize?: number;
  /**
   * `'qdq'` (default): a blocked DequantizeLinear, opset 21. `'matmulnbits'`: ONNX Runtime's
   * com.microsoft.MatMulNBits, which computes from the packed weights.
   */
  format?: 'qdq' | 'matmulnbits';
  /**
   * For `'matmulnbits'` with 4 bits: whether engines may quantize activations to 8 bits, 32 values with a
   * scale of their own (`accuracy_level` 4), which is faster and costs far less accuracy than the weights
   * did. Default true; false keeps them in float.
   */
  int8Activations?: boolean;
  /**
   * Bits of tables of which the network gathers rows (embeddings of tokens, positions), if they have 4096
   * numbers or more. 8 (default): a scale for each row, in operators of every engine. 4, for the format
   * `'matmulnbits'`: com.microsoft.GatherBlockQuantized with blocks of `blockSize`. false: float.
   */
  embeddings?: 4 | 8 | false;
}

/** Options of {@link quantizeDynamic}. */
export interface DynamicOptions {
  /**
   * Whether tables of which the network gathers rows (embeddings of tokens, positions) have 8 bits with a scale
   * for each row. Default true; tables with fewer than 4096 numbers stay in float.
   */
  embeddings?: boolean;
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
  body: (core: Core, object: CoreModel) => CoreWeights | Failure,
): Promise<Model> {
  const model = await arrived(given);
  const core = await coreOf(model);
  const { model: made, left } = call(core, () => body(core, model.handle.object));
  const { operators, summary } = JSON.parse(left) as {
    operators: FloatOperator[];
    summary: string;
  };
  return new Model(core, made, 'float', operators, summary === '' ? [] : [summary]);
}

/**
 * Quantizes the weights of matrix products (MatMul, Gemm) and recurrent layers (LSTM, GRU, RNN) to integers
 * in blocks and keeps activations in float: small files without calibration, bodies of If, Loop and Scan
 * included. Tables of embeddings have 8 bits unless `embeddings` says otherwise. `floatOperators` and `warnings` of the result list what stays float. The caller disposes of the
 * result.
 */
export async function quantizeWeights(
  model: Model | PromiseLike<Model>,
  options: WeightsOptions = {},
): Promise<Model> {
  checkOptions(
    options,
    {
      bits: 'integer',
      blockSize: 'integer',
      format: 'string',
      int8Activations: 'boolean',
      embeddings: 'any',
    },
    'options',
  );
  const { bits = 4, blockSize = 32, format = 'qdq', int8Activations = true } = options;
  const { embeddings = 8 } = options;
  if (![4, 8, false].includes(embeddings)) {
    const name = 'options.embeddings';
    throw invalidArgument(`${name} is ${show(embeddings)}`, name, 'Use 8, 4 or false.');
  }
  checkOneOf(format, ['qdq', 'matmulnbits'], 'options.format');
  // The core decides which of these values exist.
  checkInteger(bits, 1, MOST_INT, 'options.bits');
  checkInteger(blockSize, 1, MOST_INT, 'options.blockSize');
  return withoutSamples(model, (core, object) =>
    core.weightsOnly(
      object,
      bits,
      blockSize,
      format === 'matmulnbits',
      int8Activations && bits === 4,
      embeddings || 0,
    ),
  );
}

/**
 * Quantizes matrix products (MatMul, Gemm) to 8 bits with ranges measured at run time, without calibration:
 * DynamicQuantizeLinear and MatMulInteger, for LSTM com.microsoft.DynamicQuantizeLSTM; GRU and RNN get 8-bit
 * weights. Tables of embeddings have 8 bits, too. `floatOperators` and `warnings` of the result list what stays
 * float. The caller disposes of the result.
 */
export function quantizeDynamic(
  model: Model | PromiseLike<Model>,
  options: DynamicOptions = {},
): Promise<Model> {
  checkOptions(options, { embeddings: 'boolean' }, 'options');
  const { embeddings = true } = options;
  return withoutSamples(model, (core, object) => core.dynamically(object, embeddings));
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

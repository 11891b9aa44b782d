// The quantization config of the public API.

import { type ConfigOf, choice, choices, flag, integer, number, other } from '../base/schema.js';
import type { SlotConfigs, TensorConfig } from './tensor_options.js';

const decibels = number('a number of dB from 0 to 20', (value) => value >= 0 && value <= 20);

/** @internal The options of an operator, with their meaning. */
export const operatorOptions = {
  activations: other<TensorConfig>(),
  weights: other<TensorConfig>(),
  /**
   * Single inputs by index, where they differ from `activations` or `weights`: `{ 0: { bits: 16 } }`, or an array.
   * In `operators` a slot may have a `scale` and a `zeroPoint`, which are not calibrated then.
   */
  inputs: other<SlotConfigs>('any'),
  /** Single outputs, in the same way. */
  outputs: other<SlotConfigs>('any'),
  /**
   * In operatorTypes and operators: layers write their accumulators as floats, whoever reads them, except
   * layers that compute their activation as well. Default false.
   */
  floatOutput: flag,
  /**
   * Whether a Softmax (over the last dimension), LayerNormalization or RMSNormalization whose operand is quantized
   * anyway runs in integers, from codes to codes. Default: that of the whole config.
   */
  integerNormalizations: flag,
  /** See {@link QuantizeConfig.narrowWeights}. Default: that of the whole config. */
  narrowWeights: decibels,
};

/** How an operator is quantized. */
export type OperatorConfig = ConfigOf<typeof operatorOptions>;

/** A scale from elsewhere, as other tools write it. */
export interface GivenScale {
  scale: number | readonly number[];
  /** Default 0. `offset` is a synonym. */
  zero_point?: number | readonly number[];
  offset?: number | readonly number[];
}

/** @internal The options of quantize()'s config, with their meaning. */
export const quantizeOptions = {
  /** The runtime whose settings everything else starts from; the other options override them. */
  target: choice(
    'onnxruntime',
    'tflite',
    'tensorrt',
    'power-of-2',
    'megengine-int4',
    'reduce-range',
  ),
  /** How activations are quantized: see the table below. */
  activations: other<TensorConfig>(),
  /** How weights are quantized: see the table below. */
  weights: other<TensorConfig>(),
  /**
   * Whether Softmax (over the last dimension), LayerNormalization and RMSNormalization run in integers where their
   * operands are quantized anyway. Default false: they compute in float between codes.
   */
  integerNormalizations: flag,
  /**
   * The most dB that the network's outputs may lose by weights of 7 bits instead of 8. As many layers get them as
   * cost no more on 48 samples, and `config.recovery` says how many did. Processors that do not multiply whole bytes
   * run them faster, and others as fast as before. Default 0: no layer.
   */
  narrowWeights: decibels,
  /** Settings by operator type, `{ Conv: { weights: ... }, Softmax: null }`; null keeps the type in float. */
  operatorTypes: other<Readonly<Record<string, OperatorConfig | null>>>(),
  /**
   * Settings by operator name, a regular expression that must match the whole name; null keeps the operator
   * in float. They override operatorTypes, key by key; of several that match, later ones win. Beside `activations`
   * and `weights` stand `inputs` and `outputs`, settings of single slots by index (`{ inputs: { 0: { bits: 16 } } }`,
   * or an array), which may have a `scale` and a `zeroPoint`, and `floatOutput: true`: the layer writes floats.
   */
  operators: other<Readonly<Record<string, OperatorConfig | null>>>(),
  /**
   * Recovery methods; [] for none. Default 'smooth_quant', 'round_weights' and 'bias_correction', and with 7 bits or more and
   * float outputs 'float_sums' and 'float_answers', on 4 to 8 samples; where `activations.observer` is 'auto'
   * also 'float_start', 'float_end' and 'empirical_bias', on 64. With fewer bits 'sequential_rounding' follows, on up
   * to 256.
   */
  recover: choices(
    'equalize',
    'equalize_relu6',
    'channel_split',
    'smooth_quant',
    'equalize_activations',
    'round_weights',
    'refit_scales',
    'bias_correction',
    'float_start',
    'float_sums',
    'float_end',
    'float_answers',
    'sequential_rounding',
    'adaround',
    'learned_steps',
    'block_reconstruction',
    'empirical_bias',
  ),
  /**
   * Whether outputs that the model declares as floats keep the precision of floats: layers that make them
   * write their accumulators as floats, and other operators that make them stay in float. Default true, and
   * false for the targets 'tflite', 'power-of-2' and 'megengine-int4', whose devices write integers.
   */
  floatOutputs: flag,
  /**
   * Whether tables of which the network gathers rows (embeddings of tokens, positions) have 8 bits with a scale for
   * each row. Default true; tables with fewer than 4096 numbers stay in float.
   */
  embeddings: flag,
  /**
   * How many samples to keep for methods that learn or choose. Default 256; without `recover` the default
   * methods choose on 8, unless this says otherwise.
   */
  recoverSamples: integer(1),
  /** Steps of the optimizer for each block. Default: the method's own number. */
  recoverSteps: integer(1),
  /**
   * Samples for each of these steps: more of them make a step slower and its direction steadier. Default 2 to
   * 8, fewer for larger outputs.
   */
  recoverBatch: integer(1, 1024),
  /**
   * Megabytes for kept samples, and as many again for the values between two blocks, of all samples that a
   * block learns from: with less memory blocks of large images learn from fewer samples, as `recovery`
   * reports. Default 512, and 96 for kept samples if `recoverSamples` is not given.
   */
  recoverMemory: integer(1, 1536),
  /**
   * Scales by value name, `{ valueName: { scale, zero_point } }`, which are not calibrated then: from another
   * tool, or from a record of ours by {@link scalesOf}. For symmetric activations of one bit a zero point of 1
   * means that numbers from `scale` on are 1, and 0 that those from 0 on are.
   */
  scales: other<Readonly<Record<string, GivenScale>>>(),
};

/** How a model is quantized. Every setting has a default. */
export type QuantizeConfig = ConfigOf<typeof quantizeOptions>;

/** The runtime whose expectations to meet; other settings override it. */
export type Target = NonNullable<QuantizeConfig['target']>;

/**
 * A method that recovers accuracy; see docs/quantization.md. Other tools call `equalize` cross-layer
 * equalization, `channel_split` outlier channel splitting, `smooth_quant` and `equalize_activations` SmoothQuant,
 * `round_weights` GPTQ, `sequential_rounding` GPTAQ, `refit_scales` a least-squares fit of scales, `bias_correction` analytic bias correction, `adaround` AdaRound, `learned_steps`
 * LSQ (of activations), `block_reconstruction` BRECQ with QDrop, and `empirical_bias` empirical bias
 * correction.
 */
export type Recovery = NonNullable<QuantizeConfig['recover']>[number];

/** The presets, as configs that can be read and copied. */
export const targets: Readonly<Record<Target, QuantizeConfig>> = {
  onnxruntime: {
    activations: { symmetric: false, signed: false },
    weights: { symmetric: true, perChannel: true },
  },
  tflite: {
    activations: { symmetric: false, signed: true },
    weights: { symmetric: true, perChannel: true },
    floatOutputs: false,
  },
  tensorrt: {
    activations: { symmetric: true, observer: 'kl' },
    weights: { symmetric: true, perChannel: true },
  },
  'power-of-2': {
    activations: { symmetric: true, powerOf2: true },
    weights: { symmetric: true, perChannel: false, powerOf2: true },
    floatOutputs: false,
  },
  'megengine-int4': {
    activations: { bits: 4, symmetric: false, observer: 'mse' },
    weights: { bits: 4, symmetric: true, perChannel: true, fullRange: true, observer: 'mse' },
    floatOutputs: false,
  },
  'reduce-range': { weights: { bits: 7, symmetric: true, perChannel: true } },
};

// The recipes: what each one is for, what it costs, and the options of requant behind it.

import { signal } from '@preact/signals';
import type { OperatorConfig, QuantizeConfig, WeightsOptions } from 'requant';
import type { Width } from '../state/store.js';

export type RecipeId =
  | 'balanced'
  | 'accurate'
  | 'integers'
  | 'onnxruntime'
  | 'small'
  | 'trained'
  | 'blocks'
  | 'weights'
  | 'own';

export interface Recipe {
  id: RecipeId;
  name: string;
  /** Whom it is for. */
  text: string;
  /** The cost, in one line. */
  cost: string;
  /** A few words that tell it from the others. */
  badge: string;
  needsSamples: boolean;
  config?: QuantizeConfig;
  /** Epochs of training after the quantization. */
  epochs?: number;
  /** Quantizes weights alone. */
  weights?: WeightsOptions;
}

export const recipes: readonly Recipe[] = [
  {
    id: 'balanced',
    name: 'Balanced 8 bits',
    text: 'A quarter of the size and faster, with nearly the same answers. Right for most networks.',
    cost: 'Costs seconds to make and usually less than one answer in a hundred.',
    badge: '8 bits',
    needsSamples: true,
    config: {},
  },
  {
    id: 'accurate',
    name: 'Most accurate 8 bits',
    text: 'Tries several ways to choose each range, and leaves what suffers most in float.',
    cost: 'Costs up to minutes to make, and up to half of the speed that 8 bits gain.',
    badge: '8 bits',
    needsSamples: true,
    config: { activations: { observer: 'auto' }, weights: { observer: 'auto' } },
  },
  {
    id: 'integers',
    name: 'Integers only',
    text: 'Inputs, outputs and everything between are integers, for LiteRT and for microcontrollers without floats.',
    cost: 'Costs a little accuracy, since nothing may stay in float. Comes as C and as a .tflite file.',
    badge: '8 bits',
    needsSamples: true,
    config: { target: 'tflite' },
  },
  {
    id: 'onnxruntime',
    name: 'For ONNX Runtime',
    text: 'Exactly what ONNX Runtime runs fast: unsigned activations, signed weights, one scale for each channel.',
    cost: 'Costs the same as Balanced; the file runs in other engines as it is.',
    badge: '8 bits',
    needsSamples: true,
    config: { target: 'onnxruntime' },
  },
  {
    id: 'small',
    name: 'Small 4 bits',
    text: 'Weights of 4 bits and activations of 8: down to an eighth of the size.',
    cost: 'Costs some answers in a hundred, and a minute of learning how to round.',
    badge: '4 bits',
    needsSamples: true,
    config: {
      weights: { bits: 4, observer: 'mse' },
      recover: ['equalize', 'round_weights', 'bias_correction', 'adaround'],
    },
  },
  {
    id: 'trained',
    name: 'Few bits, with training',
    text: 'Weights of 2 bits and activations of 4, trained on your samples so that answers survive.',
    cost: 'Costs minutes of training; it wants hundreds of samples, best with classes.',
    badge: '2 bits',
    needsSamples: true,
    config: { weights: { bits: 2, observer: 'mse' }, activations: { bits: 4, observer: 'mse' } },
    epochs: 5,
  },
  {
    id: 'blocks',
    name: '4-bit blocks',
    text: 'For transformers: 32 weights of a matrix share a scale, activations stay as they are.',
    cost: 'Costs little accuracy; convolutions stay in float. Works without samples.',
    badge: '4 bits',
    needsSamples: false,
    weights: { bits: 4, format: 'matmulnbits' },
  },
  {
    id: 'weights',
    name: 'Weights only, 8 bits',
    text: 'For networks of matrix products when you have no samples: only the file becomes small.',
    cost: 'Costs next to no accuracy; convolutions stay in float. Works without samples.',
    badge: '8 bits',
    needsSamples: false,
    weights: { bits: 8, format: 'matmulnbits' },
  },
];

/** A recipe that a budget or a link chose. */
export const ownRecipe = signal<Recipe | undefined>(undefined);

/** The recipe of a name; Balanced where there is none of the user's own. */
export const recipeOf = (id: RecipeId): Recipe =>
  recipes.find((one) => one.id === id) ?? ownRecipe.value ?? recipes[0]!;

/** A recipe of a config. */
export function recipeFrom(config: QuantizeConfig, name: string): Recipe {
  return {
    id: 'own',
    name,
    text: 'Settings that were found for this network.',
    cost: '',
    badge: 'own',
    needsSamples: true,
    config,
  };
}

/** A text as a pattern that matches it. */
export const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function operatorOf(width: Width): OperatorConfig | null {
  return width === 32 ? null : { weights: { bits: width } };
}

/** The config of a recipe with the bits that the user gave single layers. */
export function configOf(
  { config = {} }: Pick<Recipe, 'config'>,
  widths: Readonly<Record<string, Width>>,
): QuantizeConfig {
  const own = Object.entries(widths).map(
    ([name, width]) => [escape(name), operatorOf(width)] as const,
  );
  if (own.length === 0) return config;
  return { ...config, operators: { ...config.operators, ...Object.fromEntries(own) } };
}

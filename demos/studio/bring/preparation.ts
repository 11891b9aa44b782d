// How pictures become the model's input: what the model says about it, and the usual ways to scale pixels.

import type { ModelInfo, TensorType, ValueInfo } from 'requant';

/** The usual ranges of pixels. `mean` and `std` are of the pixels times `scale`. */
export interface Scaling {
  id: string;
  name: string;
  scale: number;
  mean: readonly number[];
  std: readonly number[];
}

export const scalings: readonly Scaling[] = [
  { id: 'unit', name: '0 to 1', scale: 1 / 255, mean: [0], std: [1] },
  {
    id: 'imagenet',
    name: 'ImageNet mean and deviation',
    scale: 1 / 255,
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
  },
  { id: 'signed', name: '-1 to 1', scale: 1 / 255, mean: [0.5], std: [0.5] },
  { id: 'caffe', name: '0 to 255, less the mean', scale: 1, mean: [123, 117, 104], std: [1] },
  { id: 'bytes', name: '0 to 255', scale: 1, mean: [0], std: [1] },
];

export type Fit = 'crop' | 'stretch';

/** How pictures become an input. */
export interface Preparation {
  input: string;
  type: TensorType;
  layout: 'nchw' | 'nhwc';
  width: number;
  height: number;
  channels: 1 | 3;
  fit: Fit;
  /** Blue comes first, as in networks that were trained with OpenCV. */
  bgr: boolean;
  /** An id of {@link scalings}, or 'own'. */
  scaling: string;
  scale: number;
  mean: readonly number[];
  std: readonly number[];
  /** Why these settings were guessed. */
  reason: string;
}

const USUAL_SIDE = 224;

function axesOf({ dims }: ValueInfo): Pick<Preparation, 'layout' | 'channels'> | undefined {
  if (dims.length !== 4) return undefined;
  const isChannels = (dim: unknown): dim is 1 | 3 => dim === 1 || dim === 3;
  if (isChannels(dims[1])) return { layout: 'nchw', channels: dims[1] };
  if (isChannels(dims[3])) return { layout: 'nhwc', channels: dims[3] };
  return undefined;
}

/** The settings with another scaling. */
export function withScaling(settings: Preparation, id: string): Preparation {
  const found = scalings.find((one) => one.id === id);
  if (!found) return { ...settings, scaling: 'own' };
  const { scale, mean, std } = found;
  return { ...settings, scaling: id, scale, mean, std };
}

/** Scalings that are possible for the input; an input of bytes takes pixels as they are. */
export function possibleScalings({ type, channels }: Preparation): readonly Scaling[] {
  if (type === 'uint8') return scalings.filter(({ id }) => id === 'bytes');
  return scalings.filter(({ mean, std }) =>
    [mean, std].every(({ length }) => length === 1 || length === channels),
  );
}

/** Settings that follow from the model's input; undefined if no picture fits it. */
export function guessPreparation({ inputs, nodes }: ModelInfo): Preparation | undefined {
  const [input] = inputs;
  const axes = input && inputs.length === 1 ? axesOf(input) : undefined;
  if (!input || !axes) return undefined;
  const { layout, channels } = axes;
  const [height, width] = layout === 'nchw' ? input.dims.slice(2) : input.dims.slice(1, 3);
  const side = (dim: unknown) => (typeof dim === 'number' ? dim : USUAL_SIDE);
  const settings: Preparation = {
    input: input.name,
    type: input.type,
    layout,
    channels,
    width: side(width),
    height: side(height),
    fit: 'crop',
    bgr: false,
    scaling: 'unit',
    scale: 1 / 255,
    mean: [0],
    std: [1],
    reason: '',
  };
  const because = (id: string, reason: string) => ({ ...withScaling(settings, id), reason });
  if (input.type === 'uint8') return because('bytes', 'The input takes bytes.');
  const reads = nodes.filter(({ inputs: names }) => names.includes(input.name));
  if (reads.some(({ op }) => op === 'Sub' || op === 'Div' || op === 'Mul' || op === 'Cast')) {
    return because('bytes', 'The network begins by scaling its input itself.');
  }
  if (layout === 'nhwc') {
    return because('signed', 'Channels come last, as in TensorFlow, where -1 to 1 is usual.');
  }
  if (channels === 3) {
    return because('imagenet', 'Three channels come first, as in PyTorch, where this is usual.');
  }
  return because('unit', 'One channel of grey is usually between 0 and 1.');
}

// Varies samples, for training, every time they are walked over.

import { invalidArgument } from '../base/errors.js';
import { checkInteger, checkOptions } from '../base/options.js';
import { randomNumbers } from '../base/shuffle.js';
import { Tensor } from '../base/tensor.js';
import { type Layout, checkLayout } from './image.js';
import { type Dataset, checkDataset } from './sample.js';

/** Options of {@link augmented}. */
export interface AugmentOptions {
  /** Whether half of the images are mirrored. Default true. */
  flip?: boolean;
  /** Images are moved by up to so many pixels each way and filled with 0. Default 0. */
  shift?: number;
  /** Order of the images' axes. Default 'nchw'. */
  layout?: Layout;
  /** Seed of the random variations. Default 1. */
  seed?: number;
}

function varied(
  image: Tensor,
  options: Required<Omit<AugmentOptions, 'seed'>>,
  random: () => number,
): Tensor {
  const { type, data, dims } = image;
  if (dims.length !== 4 || type !== 'float32') {
    throw invalidArgument(`a ${type} tensor of ${dims.length} dimensions is no image`, 'dataset');
  }
  const last = options.layout === 'nhwc';
  const [batch, channels, height, width] = last
    ? [dims[0]!, dims[3]!, dims[1]!, dims[2]!]
    : [dims[0]!, dims[1]!, dims[2]!, dims[3]!];
  const flip = options.flip && random() < 0.5;
  const between = () => Math.floor(random() * (2 * options.shift + 1)) - options.shift;
  const [down, right] = [between(), between()];
  const [ofRow, ofColumn, ofChannel] = last
    ? [width * channels, channels, 1]
    : [width, 1, height * width];
  const from = data as Float32Array;
  const to = new Float32Array(from.length);
  for (let row = 0; row < height; row++) {
    const y = row - down;
    if (y < 0 || y >= height) continue;
    for (let column = 0; column < width; column++) {
      const x = flip ? width - 1 - (column - right) : column - right;
      if (x < 0 || x >= width) continue;
      for (let n = 0; n < batch; n++) {
        const begin = n * channels * height * width;
        for (let channel = 0; channel < channels; channel++) {
          const plane = begin + channel * ofChannel;
          to[plane + row * ofRow + column * ofColumn] = from[plane + y * ofRow + x * ofColumn]!;
        }
      }
    }
  }
  return new Tensor('float32', to, dims);
}

/**
 * The samples of a dataset, mirrored and moved at random, anew every time one walks over them, so that
 * `train` learns more from them. Every input of four dimensions is an image.
 *
 * @throws RequantError INVALID_ARGUMENT for a bad option, and for inputs that are no float32 images.
 */
export function augmented(dataset: Dataset, options: AugmentOptions = {}): Dataset {
  checkDataset(dataset);
  checkOptions(
    options,
    { flip: 'boolean', shift: 'integer', layout: 'string', seed: 'integer' },
    'options',
  );
  checkInteger(options.shift, 0, 1e6, 'options.shift');
  const { flip = true, shift = 0, layout = 'nchw', seed = 1 } = options;
  checkLayout(layout);
  const random = randomNumbers(seed);
  return {
    length: dataset.length,
    async *[Symbol.asyncIterator]() {
      for await (const { feeds, ...sample } of dataset) {
        const entries = Object.entries(feeds).map(([name, image]) => [
          name,
          varied(image, { flip, shift, layout }, random),
        ]);
        yield { ...sample, feeds: Object.fromEntries(entries) as Record<string, Tensor> };
      }
    },
  };
}

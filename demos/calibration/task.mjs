// The network, the settings and the samples, which all processes know.

import { readFile } from 'node:fs/promises';
import { imageSamples, readIdxImages } from 'requant/dataset';

export const MODEL = new URL('../models/fashion_mnist.onnx', import.meta.url);

/** Percentiles need a histogram, so that every sample is shown twice. */
export const CONFIG = { activations: { observer: 'percentile' } };

/** The feeds of all samples, or of the first `count`, in an order that never changes. */
export async function samples(count = Infinity) {
  const file = await readFile(new URL('../data/calibration-images-idx3-ubyte', import.meta.url));
  const feeds = [];
  for await (const sample of imageSamples(await readIdxImages(file), { input: 'image' })) {
    feeds.push(sample.feeds);
  }
  return feeds.slice(0, count);
}

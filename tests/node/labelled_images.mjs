// The test images with their labels, as samples of metrics.

import { testImages, testLabels } from './support.mjs';

/** The first `count` test images: { feeds, label }. */
export const withLabels = (count) => {
  const labels = testLabels(count);
  return testImages(count).map((feeds, index) => ({ feeds, label: labels[index] }));
};

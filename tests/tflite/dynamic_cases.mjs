// Layers of float activations and weights of codes ("dynamic range"), whose activations become codes while they run.
// `most` is the largest difference from LiteRT.js, relative to the largest output.

import { Net, Random } from './net.mjs';
import { activations, padding } from './schema.mjs';

const cases = [];

function add(name, most, build) {
  const seed = cases.length + 501;
  cases.push({
    name: `${name} dynamic`,
    most,
    build: (wrapped) => {
      const net = new Net(new Random(seed), wrapped);
      return net.done(build(net));
    },
  });
}

for (const [label, axis] of [
  ['per tensor', undefined],
  ['per channel', 0],
]) {
  for (const rows of [1, 5]) {
    for (const asymmetric of [false, true]) {
      add(`FULLY_CONNECTED ${label} ${rows} ${asymmetric}`, 2e-6, (net) => {
        const x = net.input('float32', [rows, 48], -1, 3);
        const inputs = [x, net.weights('int8', [12, 48], axis), net.weights('float32', [12])];
        const options = { asymmetric, activation: activations.RELU };
        return net.node('FULLY_CONNECTED', inputs, 'float32', [rows, 12], options);
      });
    }
  }
}
add('FULLY_CONNECTED of three dimensions', 2e-6, (net) => {
  const inputs = [net.input('float32', [2, 3, 32]), net.weights('int8', [8, 32], 0), -1];
  return net.node('FULLY_CONNECTED', inputs, 'float32', [2, 3, 8], {
    keepNumDims: true,
    asymmetric: true,
  });
});
for (const images of [1, 2]) {
  for (const [label, axis] of [
    ['per tensor', undefined],
    ['per channel', 0],
  ]) {
    add(`CONV_2D ${label} ${images}`, 2e-6, (net) => {
      const x = net.input('float32', [images, 7, 6, 8]);
      const inputs = [x, net.weights('int8', [5, 3, 3, 8], axis), net.weights('float32', [5])];
      return net.node('CONV_2D', inputs, 'float32', [images, 4, 3, 5], {
        padding: padding.SAME,
        strideW: 2,
        strideH: 2,
        activation: activations.RELU6,
      });
    });
  }
}
// This engine keeps these activations in float.
add('DEPTHWISE_CONV_2D', 0.01, (net) => {
  const x = net.input('float32', [1, 7, 6, 8]);
  const inputs = [x, net.weights('int8', [1, 3, 3, 8], 3), net.weights('float32', [8])];
  return net.node('DEPTHWISE_CONV_2D', inputs, 'float32', [1, 7, 6, 8], {
    padding: padding.SAME,
    strideW: 1,
    strideH: 1,
    multiplier: 1,
  });
});

export default cases;

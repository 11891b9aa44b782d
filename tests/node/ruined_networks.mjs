// A detector and an encoder with random weights, of which 8 bits for each tensor leave little: a few channels have
// a thousand times the range of the others, as those of trained networks may (arXiv:2208.07339), and say nothing.

import { Tensor, parseModel } from '../../dist/index.js';

/** A deterministic generator of numbers in [0, 1). */
export function generator(seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const array = (count, make) => Array.from({ length: count }, (_, index) => make(index));
const constant = (name, dims, values) =>
  `const %${name}: float32[${dims.join(', ')}] = {${values.map((value) => value.toPrecision(8)).join(', ')}}`;

const GRID = 8;
const CLASSES = 3;
const CHANNELS = 16;
const OUTLIER = 1000;

/**
 * A detector: images [1, 3, 32, 32] to [1, 4 + classes, 8, 8], for each cell the position and size of a box, and
 * the scores of classes. Channel 0 between its layers is OUTLIER times as large as the others.
 */
export function detector() {
  const random = generator(7);
  const layer = (outputs, inputs, size, gain, scale = () => 1) => {
    const fan = Math.sqrt(inputs * size * size);
    return array(outputs * inputs * size * size, (index) => {
      const from = Math.floor(index / (size * size)) % inputs;
      const to = Math.floor(index / (inputs * size * size));
      return ((random() - 0.5) * gain * scale(to, from)) / fan;
    });
  };
  // The outlier is bright where the image is, and later layers make a twentieth of the others of it.
  const grow = (to) => (to === 0 ? OUTLIER : 1);
  const shrink = (_to, from) => (from === 0 ? 1 / (20 * OUTLIER) : 1);
  const both = (to, from) => grow(to) * shrink(to, from);
  const outputs = 4 + CLASSES;
  return parseModel(`graph "detector" opset 17
    input %image: float32[1, 3, 32, 32]
    ${constant('w1', [CHANNELS, 3, 3, 3], layer(CHANNELS, 3, 3, 6, grow))}
    ${constant('w2', [CHANNELS, CHANNELS, 3, 3], layer(CHANNELS, CHANNELS, 3, 6, both))}
    ${constant('w3', [CHANNELS, CHANNELS, 3, 3], layer(CHANNELS, CHANNELS, 3, 6, both))}
    ${constant('w4', [outputs, CHANNELS, 1, 1], layer(outputs, CHANNELS, 1, 12, shrink))}
    %c1 = Conv(%image, %w1) {strides = [2, 2], pads = [1, 1, 1, 1]} "stem"
    %r1 = Relu(%c1) "stem_relu"
    %c2 = Conv(%r1, %w2) {strides = [2, 2], pads = [1, 1, 1, 1]} "down"
    %r2 = Relu(%c2) "down_relu"
    %c3 = Conv(%r2, %w3) {pads = [1, 1, 1, 1]} "neck"
    %r3 = Relu(%c3) "neck_relu"
    %boxes = Conv(%r3, %w4) "head"
    output %boxes
  `);
}

const overlap = (a, b) => {
  const side = (axis) => Math.min(a[axis + 2], b[axis + 2]) - Math.max(a[axis], b[axis]);
  const area = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);
  const common = Math.max(0, side(0)) * Math.max(0, side(1));
  return common / (area(a) + area(b) - common);
};

/** Makes the boxes of a detector's output: those above a mean score, without such as overlap a better one. */
export function decodeBoxes({ boxes }) {
  const cells = GRID * GRID;
  const at = (channel, cell) => boxes.data[channel * cells + cell];
  const found = array(cells, (cell) => {
    const scores = array(CLASSES, (label) => at(4 + label, cell));
    const label = scores.indexOf(Math.max(...scores));
    const bounded = (channel) => Math.tanh(at(channel, cell));
    const x = (cell % GRID) + 0.5 + bounded(0);
    const y = Math.floor(cell / GRID) + 0.5 + bounded(1);
    const [width, height] = [Math.exp(bounded(2)), Math.exp(bounded(3))];
    const box = [x - width, y - height, x + width, y + height];
    return { box, label, score: scores[label] };
  }).sort((a, b) => b.score - a.score);
  const kept = [];
  for (const one of found) {
    const same = kept.filter(({ label }) => label === one.label);
    if (same.every(({ box }) => overlap(box, one.box) < 0.4)) kept.push(one);
    if (kept.length === 12) break;
  }
  return kept;
}

/** Images of smooth noise, with the brightness of natural ones. */
export function images(count, seed) {
  const random = generator(seed);
  return array(count, () => {
    const coarse = array(3 * 8 * 8, () => random());
    const data = Float32Array.from({ length: 3 * 32 * 32 }, (_, index) => {
      const [channel, row, column] = [index >> 10, (index >> 5) & 31, index & 31];
      return coarse[channel * 64 + (row >> 2) * 8 + (column >> 2)] + 0.2 * random();
    });
    return { image: new Tensor('float32', data, [1, 3, 32, 32]) };
  });
}

const TOKENS = 6;
const WIDTH = 128;
const HIDDEN = 256;

/**
 * An encoder: tokens [1, 6, 128] to an embedding [1, 128], by three blocks of a normalization, a product, a Gelu and a
 * product. Behind the Gelu of the second one 16 of 256 channels are thousands of times as large as
 * the others. A Gelu is not homogeneous, so that no equalization can take the factor away.
 */
export function encoder() {
  const random = generator(11);
  const product = (rows, columns, gain, scale) =>
    array(
      rows * columns,
      (index) =>
        ((random() - 0.5) * gain * scale(Math.floor(index / columns), index % columns)) /
        Math.sqrt(rows),
    );
  const loud = (name, channel) => name === 'second' && channel % 16 === 3;
  const block = (name, input) => {
    const up = (_row, column) => (loud(name, column) ? 2000 : 1);
    const down = (row) => (loud(name, row) ? 1 / 20000 : 1);
    return `
    ${constant(
      `${name}_one`,
      [WIDTH],
      array(WIDTH, () => 1),
    )}
    ${constant(`${name}_up`, [WIDTH, HIDDEN], product(WIDTH, HIDDEN, 4, up))}
    ${constant(`${name}_down`, [HIDDEN, WIDTH], product(HIDDEN, WIDTH, 6, down))}
    %${name}_n = LayerNormalization(%${input}, %${name}_one) {axis = -1} "${name}/norm"
    %${name}_h = MatMul(%${name}_n, %${name}_up) "${name}/up"
    %${name}_g = Gelu(%${name}_h) "${name}/gelu"
    %${name} = MatMul(%${name}_g, %${name}_down) "${name}/down"`;
  };
  return parseModel(`graph "encoder" opset 20
    input %tokens: float32[1, ${TOKENS}, ${WIDTH}]
    ${block('first', 'tokens')}
    ${block('second', 'first')}
    ${block('third', 'second')}
    const %axes: int64[1] = {1}
    %embedding = ReduceMean(%third, %axes) {keepdims = 0} "pool"
    output %embedding
  `);
}

/** Sequences of a number of topics: the same tokens with noise. */
export function sequences(count, topics, seed) {
  const [fixed, random] = [generator(23), generator(seed)];
  const normal = (from) => from() + from() + from() - 1.5;
  const means = array(topics, () => array(TOKENS * WIDTH, () => normal(fixed)));
  return array(count, (index) => {
    const label = index % topics;
    const data = Float32Array.from(means[label], (mean) => mean + 0.35 * normal(random));
    return { feeds: { tokens: new Tensor('float32', data, [1, TOKENS, WIDTH]) }, label };
  });
}

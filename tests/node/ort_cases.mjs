// Random cases of operators for the tests against ONNX Runtime.

import { test } from 'node:test';
import { randomSource, same } from './ort_operators.mjs';
import { constant, float, product } from './ort_quantized.mjs';
import { roundsOf } from './rounds.mjs';

const ROUNDS = roundsOf(24, 200);

/** Compares a graph of one operator with ONNX Runtime, optimized and not. */
export const both = (opset, inputs, body, outputs = ['y'], options = {}) =>
  same(opset, inputs, body, outputs, {
    sessions: [{}, { optimize: false }],
    optimized: true,
    ...options,
  });

/** A test of random cases: `run(pick, random)`, where pick(a, b) is an integer from a to b. */
export function cases(name, run, [first, end] = ROUNDS) {
  test(`${name}: random cases ${first} to ${end - 1}`, async () => {
    for (let round = first; round < end; round++) {
      const random = randomSource(name.length * 977 + round * 7919 + 1);
      const pick = (lo, hi) => lo + Math.floor(random() * (hi - lo + 1));
      for (let i = 0; i < 9; i++) random(); // the first numbers of similar seeds are similar
      await run(pick, random, round);
    }
  });
}
export const list = (count, make) => Array.from({ length: count }, (_, i) => make(i));
export const shaped = (type, dims) => `${type}[${dims.join(', ')}]`;
export const ints = (name, values) => constant(name, 'int64', [values.length], values);
export const floats = (name, dims, random, size = 1) =>
  constant(
    name,
    'float32',
    dims,
    list(product(dims), () => float((random() - 0.5) * 2 * size)),
  );

/** The coordinates along each axis of element `i` of a tensor of `dims`. */
export function placesOf(i, dims) {
  const places = new Array(dims.length);
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    places[axis] = i % dims[axis];
    i = Math.floor(i / dims[axis]);
  }
  return places;
}

// Random cases of operators, against ONNX Runtime or against a definition in doubles.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { feedsOf, graph, randomSource, same } from './ort_operators.mjs';
import { constant, float, product } from './ort_quantized.mjs';
import { roundsOf } from './rounds.mjs';

const ROUNDS = roundsOf(16, 200);

/** Compares a graph of one operator with ONNX Runtime, optimized and not. */
export const both = (opset, inputs, body, outputs = ['y'], options = {}) =>
  same(opset, inputs, body, outputs, { sessions: [{}, { optimize: false }], ...options });

/** As both(), and ONNX Runtime runs the graph that the optimizer writes. */
export const bothAndWritten = (opset, inputs, body, outputs = ['y'], options = {}) =>
  both(opset, inputs, body, outputs, { optimized: true, ...options });

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

/** Compares our outputs with `want`, a list of [dims, numbers], within 1e-5. */
export async function defined(opset, inputs, body, outputs, wanted) {
  const model = await parseModel(graph(opset, inputs, body, outputs));
  const feeds = feedsOf(inputs, 3);
  const want = wanted(Object.fromEntries(feeds.map(({ name, data }) => [name, data])));
  const session = await InferenceSession.create(model);
  const results = await session.run(
    Object.fromEntries(
      feeds.map(({ name, type, data, dims }) => [name, new Tensor(type, data, dims)]),
    ),
  );
  await session.release();
  model.dispose();
  outputs.forEach((name, k) => {
    const [dims, numbers] = want[k];
    assert.deepEqual([...results[name].dims], dims, name);
    numbers.forEach((number, i) => {
      const got = Number(results[name].data[i]);
      const near = Math.abs(got - number) <= 1e-5 * Math.max(1, Math.abs(number));
      assert.ok(near, `${body.at(-1)}: ${name}[${i}] is ${got}, not ${number}`);
    });
  });
}

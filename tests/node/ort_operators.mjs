// Runs one graph of a few operators in this engine and in ONNX Runtime, on equal random inputs.

import assert from 'node:assert/strict';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

/** A small deterministic generator (Numerical Recipes' LCG). */
export function randomSource(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const arrays = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
  uint8: Uint8Array,
};

/**
 * A graph text with `inputs` (name: 'float32[2, 3]' or [type, values]) and one operator per line of `body`,
 * whose last values are the outputs.
 */
export function graph(opset, inputs, body, outputs) {
  return [
    `graph "attention" opset ${opset}, com.microsoft 1`,
    ...Object.entries(inputs).map(
      ([name, type]) => `input %${name}: ${Array.isArray(type) ? type[0] : type}`,
    ),
    ...body,
    ...outputs.map((name) => `output %${name}`),
  ].join('\n');
}

export function feedsOf(inputs, seed) {
  const random = randomSource(seed);
  return Object.entries(inputs).map(([name, given]) => {
    const text = Array.isArray(given) ? given[0] : given;
    const type = text.slice(0, text.indexOf('['));
    const dims = text
      .slice(text.indexOf('[') + 1, -1)
      .split(',')
      .filter((dim) => dim.trim() !== '')
      .map(Number);
    const count = dims.reduce((a, b) => a * b, 1);
    const data = new arrays[type](count);
    for (let i = 0; i < count; i++) {
      if (Array.isArray(given)) data[i] = type === 'int64' ? BigInt(given[1][i]) : given[1][i];
      else if (type === 'bool') data[i] = Number(random() < 0.7);
      else if (type === 'uint8' || type === 'int8') data[i] = Math.floor(256 * random());
      else data[i] = 2 * random() - 1;
    }
    return { name, type, dims, data };
  });
}

/** The largest difference of any output, relative to the largest magnitude (at least 1). */
export function difference(ours, theirs, names) {
  let worst = 0;
  for (const name of names) {
    assert.deepEqual([...ours[name].dims], [...theirs[name].dims], name);
    const [a, b] = [ours[name].data, theirs[name].data];
    let largest = 1;
    for (const value of b) largest = Math.max(largest, Math.abs(value));
    for (let i = 0; i < b.length; i++) {
      const error = Math.abs(a[i] - b[i]) / largest;
      assert.ok(!Number.isNaN(error), `${name}[${i}] is ${a[i]}, not ${b[i]}`);
      worst = Math.max(worst, error);
    }
  }
  return worst;
}

export async function runTheirs(bytes, feeds) {
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  try {
    return await session.run(
      Object.fromEntries(feeds.map((f) => [f.name, new ort.Tensor(f.type, f.data, f.dims)])),
    );
  } finally {
    await session.release();
  }
}

export async function runOurs(model, feeds) {
  const session = await InferenceSession.create(model);
  try {
    const results = await session.run(
      Object.fromEntries(feeds.map((f) => [f.name, new Tensor(f.type, f.data, f.dims)])),
    );
    return { results, kernels: session.plan().steps.map((step) => `${step.op} ${step.kernel}`) };
  } finally {
    await session.release();
  }
}

/** Whether both are equal, both NaN, or within `tolerance` of the wanted magnitude (at least 1). */
const isNear = (got, want, tolerance) =>
  got === want ||
  (Number.isNaN(want) && Number.isNaN(got)) ||
  Math.abs(Number(got) - Number(want)) <= tolerance * Math.max(1, Math.abs(Number(want)));

/** Compares every element of `names` with the results of ONNX Runtime. */
function assertNear(ours, theirs, names, tolerance, what) {
  for (const name of names) {
    assert.deepEqual([...ours[name].dims], [...theirs[name].dims], `${what}: ${name}`);
    assert.equal(ours[name].type, theirs[name].type, `${what}: ${name}`);
    theirs[name].data.forEach((want, i) => {
      const got = ours[name].data[i];
      assert.ok(isNear(got, want, tolerance), `${what}: ${name}[${i}] is ${got}, not ${want}`);
    });
  }
}

/**
 * Compares every element of a graph's outputs with ONNX Runtime; `body` is a line or several. `sessions`:
 * options of the sessions here, each of which runs it; `declared`: the types of inputs in the file, if they
 * differ from those fed; `optimized`: ONNX Runtime also runs what the optimizer writes.
 *
 * @returns the kernels of the last session's steps
 */
export async function same(
  opset,
  inputs,
  body,
  outputs = ['y'],
  { tolerance = 2e-6, declared = {}, sessions = [{}], seed = 3, optimized = false } = {},
) {
  const lines = Array.isArray(body) ? body : [body];
  const model = await parseModel(graph(opset, { ...inputs, ...declared }, lines, outputs));
  const feeds = feedsOf(inputs, seed);
  let kernels = [];
  try {
    const theirs = await runTheirs(model.toOnnx(), feeds);
    for (const options of sessions) {
      const session = await InferenceSession.create(model.toOnnx(), options);
      try {
        const ours = await session.run(
          Object.fromEntries(feeds.map((f) => [f.name, new Tensor(f.type, f.data, f.dims)])),
        );
        assertNear(ours, theirs, outputs, tolerance, `${lines.at(-1)} ${JSON.stringify(options)}`);
        kernels = session.plan()?.steps?.map((step) => step.kernel) ?? [];
      } finally {
        await session.release();
      }
    }
    if (optimized) {
      model.optimize();
      const again = await runTheirs(model.toOnnx(), feeds);
      assertNear(again, theirs, outputs, tolerance, `${lines.at(-1)}, optimized`);
    }
  } finally {
    model.dispose();
  }
  return kernels;
}

export const TOLERANCE = 2e-5;

/**
 * Runs a graph here and in ONNX Runtime, and the optimized graph in ONNX Runtime; `fast`: no reference may
 * compute a product. Gives the optimized text, and the operators and kernels of the steps.
 */
export async function check(text, inputs, outputs, { seed = 1, fast } = {}) {
  const feeds = feedsOf(inputs, seed);
  const model = await parseModel(text);
  try {
    const theirs = await runTheirs(model.toOnnx(), feeds);
    const ours = await runOurs(model, feeds);
    assert.ok(difference(ours.results, theirs, outputs) < TOLERANCE);
    if (fast) {
      const slow = ours.kernels.filter(
        (step) => step.endsWith(' reference') && /MatMul|Attention|Einsum|Softmax/.test(step),
      );
      assert.deepEqual(slow, []);
    }
    // ONNX Runtime can run the optimized file, too.
    model.optimize();
    const again = await runTheirs(model.toOnnx(), feeds);
    assert.ok(difference(again, theirs, outputs) < TOLERANCE);
    return { model: model.toText(), kernels: ours.kernels };
  } finally {
    model.dispose();
  }
}

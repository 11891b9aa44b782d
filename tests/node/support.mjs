// Functions that the tests of the built package share.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as ort from 'onnxruntime-web';
import { Tensor } from '../../dist/index.js';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const MODEL = path.join(ROOT, 'demos/models/fashion_mnist.onnx');

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

function readIdx(name) {
  const bytes = readFileSync(path.join(ROOT, 'demos/data', name));
  const dims = Array.from({ length: bytes[3] }, (_, axis) => bytes.readUInt32BE(4 + 4 * axis));
  return { dims, data: bytes.subarray(4 + 4 * dims.length) };
}

function feedsOf(name, count) {
  const { dims, data } = readIdx(name);
  const size = dims[1] * dims[2];
  return Array.from({ length: count }, (_, index) => {
    const pixels = data.subarray(index * size, (index + 1) * size);
    const values = Float32Array.from(pixels, (pixel) => pixel / 255);
    return { image: new Tensor('float32', values, [1, 1, dims[1], dims[2]]) };
  });
}

/** Feeds of the first calibration images. */
export const calibration = (count) => feedsOf('calibration-images-idx3-ubyte', count);
/** Feeds of the first test images. */
export const testImages = (count) => feedsOf('test-images-idx3-ubyte', count);
/** Classes of the first test images. */
export const testLabels = (count) =>
  Array.from(readIdx('test-labels-idx1-ubyte').data.subarray(0, count));

/** The external oracle: the model in ONNX Runtime. */
export function ortSession(bytes) {
  return ort.InferenceSession.create(bytes, { graphOptimizationLevel: 'disabled' });
}

/** The first output of every sample, by ONNX Runtime. */
export async function ortOutputs(bytes, samples) {
  const session = await ortSession(bytes);
  const outputs = [];
  for (const feeds of samples) {
    const converted = {};
    for (const [name, { type, data, dims }] of Object.entries(feeds)) {
      converted[name] = new ort.Tensor(type, data, dims);
    }
    const result = await session.run(converted);
    outputs.push(Float32Array.from(result[session.outputNames[0]].data));
  }
  await session.release();
  return outputs;
}

/** The first output of every sample, by a session of ours. */
export async function outputsOf(session, samples) {
  const outputs = [];
  for (const feeds of samples) {
    outputs.push((await session.run(feeds))[session.outputNames[0]].data);
  }
  return outputs;
}

export function argMax(values) {
  return values.reduce((best, value, index) => (value > values[best] ? index : best), 0);
}

/** Share of samples with the same class. */
export function agreement(a, b) {
  const same = a.filter((output, index) => argMax(output) === argMax(b[index])).length;
  return same / a.length;
}

export function maxDifference(a, b) {
  return Math.max(...a.map((value, index) => Math.abs(value - b[index])));
}

/** A predicate for assert.rejects: the error must have this code and the given properties. */
export function isError(code, { value, node, message, hint } = {}) {
  return (error) => {
    const fits = (pattern, text) =>
      pattern === undefined || (pattern instanceof RegExp ? pattern.test(text) : pattern === text);
    if (
      error?.name === 'RequantError' &&
      error.code === code &&
      fits(value, error.value) &&
      fits(node, error.node) &&
      fits(message, error.message) &&
      fits(hint, error.hint)
    ) {
      return true;
    }
    throw new Error(`not the expected ${code}: ${error?.stack ?? error} value=${error?.value}`, {
      cause: error,
    });
  };
}

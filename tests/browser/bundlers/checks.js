// The checks that every bundler and runtime runs, with the same code on a page, in a Worker and in a process.
// The file imports the package by name, as users do, so that it is bundled with it.

import { InferenceSession, Tensor, createWorker, loadModel, quantize } from 'requant';
import './settings.js';

const SIDE = 28;
const CALIBRATION = 16;
const FEW_BITS = { weights: { bits: 4 }, activations: { bits: 4 } };

function images(bytes) {
  const size = SIDE * SIDE;
  const feeds = Array.from({ length: bytes.length / size }, (_, index) => {
    const pixels = Float32Array.from(
      bytes.subarray(index * size, (index + 1) * size),
      (x) => x / 255,
    );
    return { image: new Tensor('float32', pixels, [1, 1, SIDE, SIDE]) };
  });
  return { calibration: feeds.slice(0, CALIBRATION), test: feeds.slice(CALIBRATION) };
}

async function answers(session, test) {
  const top1 = [];
  let last;
  for (const feeds of test) {
    const { logits } = await session.run(feeds);
    last = [...logits.data];
    top1.push(last.indexOf(Math.max(...last)));
  }
  return { top1, last };
}

async function answersOf(source, test, options = {}) {
  const session = await InferenceSession.create(source, options);
  const result = await answers(session, test);
  session.dispose();
  return result;
}

/**
 * The checks by name. `read(name)` gives the bytes of a file; each check returns a value that JSON can
 * represent. `given` is a model that Node quantized: its integers must be Node's.
 */
const checks = {
  async float(read) {
    const { test } = images(await read('images.bin'));
    return answersOf(await read('float.onnx'), test);
  },
  async quantize(read) {
    const { calibration, test } = images(await read('images.bin'));
    const given = await answersOf(await read('int8.onnx'), test);
    const quantized = await quantize(await loadModel(await read('float.onnx')), { calibration });
    return { given, own: await answersOf(quantized, test) };
  },
  async w4a4(read) {
    const { calibration, test } = images(await read('images.bin'));
    const given = await answersOf(await read('w4a4.onnx'), test);
    const model = await loadModel(await read('float.onnx'));
    const quantized = await quantize(model, { calibration, config: FEW_BITS });
    return { given, own: await answersOf(quantized, test) };
  },
  async worker(read) {
    const { calibration, test } = images(await read('images.bin'));
    const worker = await createWorker();
    const given = await answers(await worker.createSession(await read('int8.onnx')), test);
    const model = await worker.loadModel(await read('float.onnx'));
    const quantized = await worker.quantize(model, { calibration, config: FEW_BITS });
    const own = await answers(await worker.createSession(quantized), test);
    await worker.terminate();
    return { given, own };
  },
  async threads(read) {
    const { test } = images(await read('images.bin'));
    const result = {};
    const warn = console.warn;
    console.warn = (text) => (result.warning ??= String(text));
    for (const name of ['float', 'int8', 'w4a4']) {
      const session = await InferenceSession.create(await read(`${name}.onnx`), { numThreads: 2 });
      const used = () => Math.max(...session.plan().steps.map(({ threads }) => threads));
      result[name] = { ...(await answers(session, test)), used: used() };
    }
    const worker = await createWorker();
    const remote = await worker.createSession(await read('int8.onnx'), { numThreads: 2 });
    const { last, top1 } = await answers(remote, test);
    const used = Math.max(...(await remote.plan()).steps.map(({ threads }) => threads));
    result.worker = { last, top1, used };
    await worker.terminate();
    console.warn = warn;
    return result;
  },
};

/**
 * Runs the named checks, and those of `more`; gives `{ value }` or `{ error }` for each, even if one never
 * ends.
 */
export async function runChecks(names, read, more = {}) {
  const all = { ...checks, ...more };
  const seconds = 120;
  const results = {};
  for (const name of [...names, ...Object.keys(more)]) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${seconds} s`)), 1000 * seconds);
    });
    try {
      results[name] = { value: await Promise.race([all[name](read), late]) };
    } catch (error) {
      results[name] = { error: `${error?.code ?? error?.name}: ${error?.message ?? error}` };
    }
    clearTimeout(timer);
  }
  return results;
}

/** Makes the files that `read` gives, from the float model and the images. */
export async function makeFiles(float, imageBytes) {
  const { calibration } = images(imageBytes);
  const files = { 'float.onnx': float, 'images.bin': imageBytes };
  for (const [name, config] of [
    ['int8.onnx', {}],
    ['w4a4.onnx', FEW_BITS],
  ]) {
    const quantized = await quantize(await loadModel(float), { calibration, config });
    files[name] = quantized.toOnnx();
  }
  return files;
}

// Every failure becomes a RequantError that says what is wrong, where, and how to go on.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import {
  InferenceSession,
  RequantError,
  Tensor,
  compare,
  env,
  loadModel,
  parseModel,
  quantize,
} from '../../dist/index.js';
import { call } from '../../dist/engine/heap.js';
import { loadCore } from '../../dist/engine/load_core.js';
import { hasRelaxedSimd } from '../../dist/engine/relaxed_simd.js';
import { MODEL, calibration, isError, testImages } from './support.mjs';

const modelBytes = readFileSync(MODEL);

describe('RequantError', () => {
  test('prints code, place and remedy', () => {
    const error = new RequantError('SHAPE_MISMATCH', 'wrong shape', {
      node: 'conv1',
      value: 'x',
      hint: 'Reshape it',
    });
    assert.equal(
      String(error),
      'RequantError [SHAPE_MISMATCH]: wrong shape (node "conv1", value "x"). Reshape it',
    );
    assert.ok(error instanceof Error);
    assert.equal(error.name, 'RequantError');
  });
});

describe('the engine cannot be loaded', () => {
  after(() => {
    delete env.wasm.wasmPaths;
    delete env.wasm.wasmBinary;
    env.wasm.simd = 'auto';
  });

  // This test runs first, while nothing is loaded in this process.
  test('from a wrong place, and then it can', async () => {
    env.wasm.wasmPaths = '/no/such/folder/';
    await assert.rejects(loadModel(modelBytes), isError('LOAD_FAILED', { message: /requant-/ }));
    delete env.wasm.wasmPaths;
    env.wasm.wasmBinary = Uint8Array.of(0, 1, 2, 3);
    await assert.rejects(loadModel(modelBytes), isError('LOAD_FAILED'));
    env.wasm.wasmBinary = readFileSync(new URL('../../dist/requant-simd128.wasm', import.meta.url));
    env.wasm.simd = 'simd128';
    (await loadModel(modelBytes)).dispose();
    delete env.wasm.wasmBinary;
  });

  test('because the setting is wrong', async () => {
    env.wasm.simd = 'avx';
    await assert.rejects(
      loadModel(modelBytes),
      isError('INVALID_ARGUMENT', { value: 'env.wasm.simd' }),
    );
    env.wasm.simd = 'relaxed';
    if (!hasRelaxedSimd()) await assert.rejects(loadModel(modelBytes), isError('UNSUPPORTED'));
    env.wasm.simd = 'auto';
  });
});

describe('models that cannot be read or written', () => {
  test('files and sources', async () => {
    await assert.rejects(loadModel('/no/such/model.onnx'), isError('LOAD_FAILED'));
    await assert.rejects(loadModel(''), isError('INVALID_ARGUMENT'));
    await assert.rejects(loadModel(42), isError('INVALID_ARGUMENT'));
    await assert.rejects(loadModel(null), isError('INVALID_ARGUMENT'));
    // A cache gives undefined if it has no such entry.
    await assert.rejects(loadModel(Promise.resolve(undefined)), isError('INVALID_ARGUMENT'));
    const failed = Promise.reject(new TypeError('no network'));
    await assert.rejects(loadModel(failed), isError('LOAD_FAILED', { message: /no network/ }));
    const absent = new Response('not here', { status: 404 });
    await assert.rejects(loadModel(absent), isError('LOAD_FAILED', { message: /404/ }));
    const used = new Response(modelBytes);
    await used.arrayBuffer();
    await assert.rejects(loadModel(used), isError('LOAD_FAILED'));
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 20);
    const never = new Promise(() => {});
    await assert.rejects(loadModel(never, { signal: controller.signal }), isError('ABORTED'));
    await assert.rejects(
      loadModel(modelBytes, { onprogress() {} }),
      isError('INVALID_ARGUMENT', { value: 'options.onprogress', hint: /onProgress/ }),
    );
  });

  test('servers', async () => {
    const server = createServer((request, response) => {
      if (request.url === '/model.onnx') response.end(modelBytes);
      else if (request.url === '/cut.onnx') {
        response.writeHead(200, { 'content-length': modelBytes.length });
        response.write(modelBytes.subarray(0, 1000));
        setTimeout(() => response.destroy(), 20);
      } else if (request.url === '/slow.onnx') response.write(modelBytes.subarray(0, 1000));
      else response.writeHead(404).end('not here');
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const base = `http://127.0.0.1:${server.address().port}`;
    try {
      const steps = [];
      const model = await loadModel(`${base}/model.onnx`, {
        onProgress: (step) => steps.push(step),
      });
      assert.equal(
        steps.filter(({ phase }) => phase === 'download').at(-1).done,
        modelBytes.length,
      );
      model.dispose();
      await assert.rejects(
        loadModel(new URL(`${base}/other.onnx`)),
        isError('LOAD_FAILED', { message: /404/ }),
      );
      await assert.rejects(loadModel(`${base}/cut.onnx`), isError('LOAD_FAILED'));
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 50);
      await assert.rejects(
        loadModel(`${base}/slow.onnx`, { signal: controller.signal }),
        isError('ABORTED'),
      );
    } finally {
      server.closeAllConnections();
      server.close();
    }
    await assert.rejects(loadModel(`${base}/model.onnx`), isError('LOAD_FAILED'));
  });

  test('files that cannot be written', async () => {
    const model = await loadModel(MODEL);
    const place = '/no/such/folder/model.onnx';
    await assert.rejects(model.save(place), isError('SAVE_FAILED', { value: place }));
    model.dispose();
  });

  test('files cut off at any place', async () => {
    const codes = new Set();
    for (let size = 0; size < modelBytes.length; size += 64) {
      try {
        (await loadModel(modelBytes.subarray(0, size))).dispose();
        assert.fail(`${size} bytes were accepted`);
      } catch (error) {
        assert.ok(error instanceof RequantError, `${size} bytes: ${error?.stack}`);
        codes.add(error.code);
      }
    }
    assert.deepEqual([...codes], ['INVALID_MODEL']);
  });

  test('files that are something else', async () => {
    const invalid = isError('INVALID_MODEL');
    await assert.rejects(loadModel(new Uint8Array(0)), invalid);
    await assert.rejects(loadModel(new TextEncoder().encode('<!doctype html>')), invalid);
    await assert.rejects(loadModel(new Uint8Array(1000)), invalid);
    const wrongMagic = new Uint8Array(modelBytes);
    wrongMagic[0] = 0xff;
    await assert.rejects(loadModel(wrongMagic), invalid);
  });

  test('damaged bytes give an error or a model, never a crash', async () => {
    let seed = 1;
    const random = (below) => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    for (let round = 0; round < 200; round++) {
      const bytes = new Uint8Array(modelBytes);
      // Names, shapes and attributes are close to the end; other positions are mostly weights.
      for (let i = 0; i < 4; i++) {
        const at = round % 2 ? random(bytes.length) : random(4000);
        bytes[at] = random(256);
      }
      try {
        (await loadModel(bytes)).dispose();
      } catch (error) {
        assert.ok(error instanceof RequantError, error?.stack);
        assert.notEqual(error.code, 'INTERNAL', String(error));
      }
    }
  });

  // In code that computes a length as a difference of 32-bit pointers, such a length is negative: only wasm
  // can show this.
  test('lengths of two gigabytes and more', async () => {
    const invalid = isError('INVALID_MODEL');
    for (const length of [2 ** 31, 2 ** 31 + 5, 2 ** 32 - 7, 2 ** 32 - 1]) {
      const varint = [0, 7, 14, 21, 28].map(
        (shift, at) => (Math.floor(length / 2 ** shift) % 128) | (at < 4 ? 128 : 0),
      );
      // An unknown field, the producer's name, the graph, an opset, and packed numbers in a tensor.
      for (const field of [31, 2, 7, 8]) {
        const tag =
          field < 16 ? [field * 8 + 2] : [((field * 8 + 2) & 127) | 128, (field * 8) >> 7];
        await assert.rejects(loadModel(Uint8Array.from([8, 7, ...tag, ...varint, 0])), invalid);
      }
      const tensor = [0x0a, ...varint]; // dims
      const graph = [0x2a, tensor.length, ...tensor];
      await assert.rejects(loadModel(Uint8Array.from([0x3a, graph.length, ...graph])), invalid);
    }
    (await loadModel(modelBytes)).dispose();
  });

  test('lengths in the middle of a good file', async () => {
    let seed = 3;
    const random = (below) => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    for (let round = 0; round < 300; round++) {
      const bytes = new Uint8Array(modelBytes);
      const at = random(4000);
      bytes.set([0xf9 | random(7), 0xff, 0xff, 0xff, 8 + random(8)], at);
      try {
        (await loadModel(bytes)).dispose();
      } catch (error) {
        assert.ok(error instanceof RequantError, error?.stack);
        assert.notEqual(error.code, 'INTERNAL', String(error));
      }
    }
  });

  test('operators that nobody knows', async () => {
    const source = `graph "g" opset 13
input %x: float32[2]
%y: float32[2] = Frobnicate(%x) "the culprit"
output %y
`;
    const run = async () => {
      const model = await parseModel(source);
      await InferenceSession.create(model);
    };
    await assert.rejects(run(), (error) => {
      assert.ok(['UNSUPPORTED', 'INVALID_MODEL'].includes(error.code), String(error));
      assert.match(error.message, /Frobnicate/);
      assert.equal(error.node, 'the culprit');
      return true;
    });
    await assert.rejects(parseModel('graph "g" opset 13\nnonsense'), isError('INVALID_MODEL'));
    await assert.rejects(parseModel(1), isError('INVALID_ARGUMENT'));
  });
});

describe('feeds', () => {
  let session;
  before(async () => (session = await InferenceSession.create(MODEL)));
  after(() => session.release());
  const image = (dims, type = 'float32') =>
    new Tensor(type, Array(dims.reduce((a, b) => a * b, 1)).fill(0), dims);

  test('of wrong name, shape, type or kind are named', async () => {
    await assert.rejects(
      session.run({ picture: image([1, 1, 28, 28]) }),
      isError('INVALID_ARGUMENT', { value: /^(picture|image)$/ }),
    );
    await assert.rejects(session.run({}), isError('INVALID_ARGUMENT', { value: 'image' }));
    await assert.rejects(
      session.run({ image: image([1, 1, 28, 28]), more: image([1]) }),
      isError('INVALID_ARGUMENT', { value: 'more' }),
    );
    await assert.rejects(
      session.run({ image: image([1, 1, 28, 27]) }),
      isError('SHAPE_MISMATCH', { value: 'image' }),
    );
    await assert.rejects(
      session.run({ image: image([1, 784]) }),
      isError('SHAPE_MISMATCH', { value: 'image' }),
    );
    await assert.rejects(
      session.run({ image: image([1, 1, 28, 28], 'uint8') }),
      isError('TYPE_MISMATCH', { value: 'image' }),
    );
    await assert.rejects(session.run(undefined), isError('INVALID_ARGUMENT'));
    await assert.rejects(session.run(image([1, 1, 28, 28])), isError('INVALID_ARGUMENT'));
    await assert.rejects(
      session.run({ image: new Float32Array(784) }),
      isError('INVALID_ARGUMENT', { value: 'image' }),
    );
    await assert.rejects(
      session.run({ image: image([1, 1, 28, 28]) }, 'logits'),
      isError('INVALID_ARGUMENT'),
    );
    const { logits } = await session.run({ image: image([1, 1, 28, 28]) });
    assert.equal(logits.size, 10);
  });
});

describe('options', () => {
  test('of sessions', async () => {
    const cases = [
      [{ requantise: 'fixed' }, 'options.requantise'],
      [{ requantize: 'fast' }, 'options.requantize'],
      [{ profile: 1 }, 'options.profile'],
      [{ taps: 'x' }, 'options.taps'],
      [{ graphOptimizationLevel: 'bogus' }, 'options.graphOptimizationLevel'],
      [{ executionMode: 'PARALLEL' }, 'options.executionMode'],
    ];
    for (const [options, value] of cases) {
      await assert.rejects(
        InferenceSession.create(MODEL, options),
        isError('INVALID_ARGUMENT', { value }),
      );
    }
    // Options of code written for onnxruntime-web are accepted.
    const session = await InferenceSession.create(MODEL, {
      executionProviders: ['wasm'],
      graphOptimizationLevel: 'all',
    });
    await session.release();
  });

  test('of optimize', async () => {
    const model = await loadModel(MODEL);
    assert.throws(() => model.optimize({ passes: ['no_such_pass'] }), isError('INVALID_ARGUMENT'));
    assert.throws(() => model.optimize({ only: [] }), isError('INVALID_ARGUMENT'));
    assert.throws(() => model.toText({ maxConstantElements: -1 }), isError('INVALID_ARGUMENT'));
    model.dispose();
    assert.throws(() => model.toText(), isError('DISPOSED'));
    model.dispose();
  });
});

describe('calibration', () => {
  let model;
  before(async () => (model = await loadModel(MODEL)));
  after(() => model.dispose());

  test('data that is not there or not numbers', async () => {
    await assert.rejects(
      quantize(model, { calibration: [] }),
      isError('INVALID_ARGUMENT', { value: 'options.calibration' }),
    );
    const [good, bad] = calibration(2);
    bad.image.data[100] = NaN;
    await assert.rejects(
      quantize(model, { calibration: [good, bad] }),
      isError('INVALID_ARGUMENT', { message: /sample 1/ }),
    );
    const [infinite] = calibration(1);
    infinite.image.data[0] = Infinity;
    await assert.rejects(
      quantize(model, { calibration: [infinite] }),
      isError('INVALID_ARGUMENT', { message: /sample 0/ }),
    );
    await assert.rejects(
      quantize(model, { calibration: [{ picture: good.image }] }),
      isError('INVALID_ARGUMENT', { message: /sample 0/ }),
    );
    await assert.rejects(
      quantize(model, { calibration: [good.image] }),
      isError('INVALID_ARGUMENT', { message: /sample 0/ }),
    );
    const empty = { image: new Tensor('float32', [], [0, ...good.image.dims.slice(1)]) };
    await assert.rejects(
      quantize(model, { calibration: [good, empty] }),
      isError('INVALID_ARGUMENT', { value: 'image', message: /sample 1/ }),
    );
    await assert.rejects(quantize(model, {}), isError('INVALID_ARGUMENT'));
    await assert.rejects(
      quantize(model, {
        calibration: [good],
        config: { weights: { symmetric: false, formula: 'cambricon' } },
      }),
      isError('INVALID_ARGUMENT', { value: 'weights.symmetric' }),
    );
    await assert.rejects(
      quantize(model, { calibration: [good], maxSamples: 0 }),
      isError('INVALID_ARGUMENT', { value: 'options.maxSamples' }),
    );
    await assert.rejects(
      quantize(modelBytes, { calibration: [good] }),
      isError('INVALID_ARGUMENT'),
    );
  });

  test('a sample may have an empty input among others', async () => {
    const decoder = await parseModel(`graph "" opset 13
input %x: float32[2, 4]
input %past: float32[0, 4]
const %w: float32[4, 2] = {1.0, -2.0, 0.5, 3.0, -1.0, 0.25, 2.0, 1.5}
%all = Concat(%past, %x) {axis = 0}
%y = MatMul(%all, %w)
output %y
`);
    const sample = {
      x: new Tensor('float32', [1, -1, 2, 0.5, 3, -2, 0, 1], [2, 4]),
      past: new Tensor('float32', [], [0, 4]),
    };
    const quantized = await quantize(decoder, { calibration: [sample] });
    quantized.dispose();
    decoder.dispose();
  });

  test('errors of the iterable pass through', async () => {
    const trouble = new TypeError('no more disk');
    function* failing() {
      yield* calibration(2);
      throw trouble;
    }
    await assert.rejects(quantize(model, { calibration: failing() }), (error) => error === trouble);
  });

  test('of a model that is quantized already', async () => {
    const quantized = await quantize(model, {
      calibration: calibration(2),
      config: { recover: [] },
    });
    const integer = await loadModel(quantized.toOnnx({ format: 'qoperator' }));
    await assert.rejects(
      quantize(integer, { calibration: calibration(2) }),
      isError('INVALID_ARGUMENT'),
    );
    assert.throws(() => quantized.toOnnx({ format: 'onnx' }), isError('INVALID_ARGUMENT'));
    integer.dispose();
    quantized.dispose();
  });

  test('compare without samples or with other outputs', async () => {
    await assert.rejects(compare(model, model, { dataset: [] }), isError('INVALID_ARGUMENT'));
    await assert.rejects(compare(model, 1, { dataset: [] }), isError('INVALID_ARGUMENT'));
    await assert.rejects(
      compare(model, model, { dataset: testImages(1) }),
      isError('INVALID_ARGUMENT', { message: /sample 0/ }),
    );
    const other = await parseModel(`graph "g" opset 13
input %image: float32[N, 1, 28, 28]
%y: float32[N, 1, 28, 28] = Relu(%image) "relu"
output %y
`);
    await assert.rejects(
      compare(model, other, { dataset: testImages(1).map((feeds) => ({ feeds })) }),
      isError('INVALID_ARGUMENT'),
    );
    other.dispose();
  });
});

describe('a crash of the engine', () => {
  test('is final for its objects, but the next load starts a new engine', async () => {
    const model = await loadModel(MODEL);
    const core = await loadCore();
    const trap = () => {
      throw new WebAssembly.RuntimeError('unreachable');
    };
    assert.throws(() => call(core, trap), isError('INTERNAL', { message: /unreachable/ }));
    assert.throws(() => model.toText(), isError('INTERNAL', { message: /crashed/ }));
    model.dispose();
    const session = await InferenceSession.create(MODEL);
    assert.equal((await session.run(testImages(1)[0])).logits.size, 10);
    assert.notEqual(await loadCore(), core);
    session.dispose();
  });

  test('ends runs that were prepared before it', async () => {
    const [image] = testImages(1);
    const core = await loadCore();
    const session = await InferenceSession.create(MODEL);
    const bound = session.bind(image);
    bound.run();
    await session.run(image);
    const trap = () => {
      throw new WebAssembly.RuntimeError('unreachable');
    };
    assert.throws(() => call(core, trap), isError('INTERNAL'));
    const crashed = isError('INTERNAL', { message: /crashed/, hint: /again/ });
    assert.throws(() => bound.run(), crashed);
    await assert.rejects(session.run(image), crashed);
    bound.dispose();
    session.dispose();
  });

  test('in a run that was prepared is not tried again', async (t) => {
    const [image] = testImages(1);
    const core = await loadCore();
    const session = await InferenceSession.create(MODEL);
    const bound = session.bind(image);
    const once = t.mock.method(core, '_run_bound', () => {
      throw new WebAssembly.RuntimeError('unreachable');
    });
    assert.throws(() => bound.run(), isError('INTERNAL', { message: /unreachable/ }));
    once.mock.restore();
    assert.throws(() => bound.run(), isError('INTERNAL', { message: /crashed/ }));
    assert.notEqual(await loadCore(), core);
    session.dispose();
  });
});

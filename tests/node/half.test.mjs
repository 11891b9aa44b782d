// Models of float16, bfloat16 and float8: tensors, files, and networks against onnxruntime-web on the same file.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  generateC,
  parseModel,
  quantize,
  train,
} from '../../dist/index.js';
import { error, feed, feedsFor, networks, numbers, theirs, weights } from './half_networks.mjs';
import { randomSource } from './ort_operators.mjs';
import { isError } from './support.mjs';

describe('tensors', () => {
  test('give the numbers of every pattern', () => {
    const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const half = new Tensor('float16', patterns).toFloat32();
    const wide = new Tensor('bfloat16', patterns).toFloat32();
    const view = new DataView(new ArrayBuffer(4));
    for (let code = 0; code < 65536; code++) {
      const exponent = (code >> 10) & 31;
      const fraction = code & 1023;
      const size =
        exponent === 31
          ? fraction
            ? NaN
            : Infinity
          : (exponent ? 1024 + fraction : fraction) * 2 ** (Math.max(exponent, 1) - 25);
      assert.ok(Object.is(half[code], code & 0x8000 ? -size : size), `${code}`);
      view.setUint32(0, code * 65536);
      assert.ok(Object.is(wide[code], view.getFloat32(0)), `${code}`);
      if (!Number.isNaN(size)) {
        const back = new Tensor('float16', [half[code]]).data;
        assert.equal(new Uint16Array(back.buffer)[0], code);
      }
      if (!Number.isNaN(wide[code])) {
        assert.equal(new Tensor('bfloat16', [wide[code]]).data[0], code);
      }
    }
  });

  test('round numbers half to even', () => {
    const values = [1 + 2 ** -11, 1 + 3 * 2 ** -11, 65519, 65520, 2 ** -25, 1.5 * 2 ** -24, -1e-9];
    const wanted = [1, 1 + 2 ** -9, 65504, Infinity, 0, 2 ** -23, -0];
    assert.deepEqual([...new Tensor('float16', values).toFloat32()], wanted);
    assert.deepEqual(
      [...new Tensor('bfloat16', [1 + 2 ** -8, 1 + 3 * 2 ** -8]).toFloat32()],
      [1, 1 + 2 ** -6],
    );
  });

  test('take Float16Array where the engine has it, and patterns everywhere', () => {
    const tensor = new Tensor('float16', new Uint16Array([0x3c00, 0xc000]));
    assert.equal(
      tensor.data.constructor.name,
      globalThis.Float16Array ? 'Float16Array' : 'Uint16Array',
    );
    assert.deepEqual([...tensor.toFloat32()], [1, -2]);
    assert.throws(() => new Tensor('float8e5m2', [1]), isError('INVALID_ARGUMENT'));
    assert.deepEqual(
      [...new Tensor('float8e4m3fn', new Uint8Array([0x38, 0x7e])).toFloat32()],
      [1, 448],
    );
  });
});

describe('float16 networks', () => {
  for (const [index, [name, opset, inputs]] of networks(randomSource(1)).entries()) {
    test(`${name} computes what onnxruntime-web does, and so does the optimized file`, async () => {
      const random = randomSource(index + 11);
      for (let i = 0; i < 9; i++) random();
      const text = networks(random)[index][3];
      const model = await parseModel(`graph "half" ${opset}\n${text}`);
      const feeds = feedsFor(text, inputs, random);
      const file = model.toOnnx();
      const wanted = await theirs(file, feeds);
      for (const options of [{}, { optimize: false }]) {
        const session = await InferenceSession.create(file, options);
        const got = await session.run(feeds);
        assert.ok(
          error(got.y, wanted.y) < 4e-3,
          `${JSON.stringify(options)} ${error(got.y, wanted.y)}`,
        );
        session.release();
      }
      model.optimize();
      const optimized = model.toOnnx();
      // Both branches of the last network get the weights that they captured.
      const copies = name.startsWith('branches') ? 2 : 1;
      const most = file.length * copies * 1.1 + 1500;
      assert.ok(optimized.length < most, `${optimized.length} ${file.length}`);
      assert.ok(error((await theirs(optimized, feeds)).y, wanted.y) < 4e-3);
    });
  }

  test('weights of 16 bits give the bits of float32 weights', async () => {
    const random = randomSource(5);
    const w = weights('w', [160, 200], random);
    const text = (w) =>
      `graph "m" opset 13\n input %x: float32[N, 160]\n ${w}\n %y = MatMul(%x, %w)\n output %y`;
    const float = await parseModel(text(w.replace('float16', 'float32')));
    const half = await parseModel(
      text(w.replace('%w', '%h')).replace('%y =', '%w = Cast(%h) {to = 1}\n %y ='),
    );
    for (const rows of [1, 2, 7, 60, 130]) {
      const x = feed('float32', [rows, 160], random);
      const sessions = await Promise.all(
        [float, half].map((model) => InferenceSession.create(model)),
      );
      const [a, b] = await Promise.all(sessions.map((session) => session.run({ x })));
      assert.deepEqual(b.y.data, a.y.data, `${rows} rows`);
      sessions.forEach((session) => session.release());
    }
  });

  test('are quantized, trained, compared and written as C like others', async () => {
    const random = randomSource(31);
    const [, opset, inputs, text] = networks(random)[1];
    const model = await parseModel(`graph "half" ${opset}\n${text}`);
    const samples = numbers(8, () => feedsFor(text, inputs, random));
    const quantized = await quantize(model, { calibration: samples });
    const report = await compare(model, quantized, {
      dataset: samples.map((feeds) => ({ feeds })),
    });
    assert.ok(report.outputs[0].snr > 15, `${report.outputs[0].snr}`);
    const session = await InferenceSession.create(quantized);
    const { y } = await session.run(samples[0]);
    assert.equal(y.type, 'float16');
    const trained = await train(quantized, {
      dataset: samples.map((feeds) => ({ feeds })),
      epochs: 1,
      batchSize: 4,
    });
    assert.ok(trained);
    // The perceptron, since Softsign has no form in C.
    const [, plainOpset, , plain] = networks(random)[0];
    const { source } = await generateC(await parseModel(`graph "half" ${plainOpset}\n${plain}`));
    assert.match(source, /half|float/);
  });

  test('bfloat16 networks compute in float32', async () => {
    const random = randomSource(41);
    const values = numbers(24 * 8, () => Math.round(random() * 64 - 32) / 16);
    const text = (type) => `graph "b" opset 13
      input %x: ${type}[2, 24]
      const %w: ${type}[24, 8] = {${values.join(', ')}}
      %y = MatMul(%x, %w)
      output %y`;
    const x = numbers(48, () => Math.round(random() * 16 - 8) / 8);
    const run = async (type) => {
      const session = await InferenceSession.create(await parseModel(text(type)));
      return (await session.run({ x: new Tensor(type, x, [2, 24]) })).y;
    };
    const [brain, float] = [await run('bfloat16'), await run('float32')];
    assert.equal(brain.type, 'bfloat16');
    assert.deepEqual(brain.toFloat32(), new Tensor('bfloat16', [...float.data]).toFloat32());
  });
});

describe('float8', () => {
  const types = { float8e4m3fn: 17, float8e4m3fnuz: 18, float8e5m2: 19, float8e5m2fnuz: 20 };
  const casts = (number, saturate) => `graph "c" opset 19
    input %x: float32[N]
    %q = Cast(%x) {to = ${number}, saturate = ${saturate}}
    %y = Cast(%q) {to = 1}
    output %y`;
  for (const [type, number] of Object.entries(types)) {
    test(`${type} is cast as onnxruntime-web casts it`, async () => {
      const random = randomSource(number);
      const values = new Float32Array(4000).map(() => (random() - 0.5) * 2 ** (random() * 40 - 22));
      values.set([
        0,
        -0,
        448,
        460,
        464,
        470,
        57344,
        60000,
        62000,
        1e9,
        -1e9,
        NaN,
        2 ** -10,
        2 ** -17,
      ]);
      const x = new Tensor('float32', values, [values.length]);
      for (const saturate of [0, 1]) {
        const model = await parseModel(casts(number, saturate));
        const { y } = await (await InferenceSession.create(model)).run({ x });
        const wanted = await theirs(model.toOnnx(), { x });
        // onnxruntime-web rounds numbers that round to beyond the largest one otherwise than ONNX's table.
        const edge = { 17: [448, 512], 19: [57344, 65536] }[number] ?? [0, 0];
        const differs = (value) => !saturate && value > edge[0] && value < edge[1];
        y.data.forEach((got, i) => {
          if (differs(Math.abs(values[i]))) return;
          assert.ok(
            got === wanted.y.data[i] || Number.isNaN(got + wanted.y.data[i]),
            `${values[i]}: ${got}, not ${wanted.y.data[i]} (saturate ${saturate})`,
          );
        });
      }
    });

    test(`${type} constants and Q/DQ pairs run`, async () => {
      const model = await parseModel(`graph "q" opset 19
        input %x: float32[2, 4]
        const %w: ${type}[4, 3] = {1, 0.5, -2, 1, 4, -0.25, 2, 1, 0.5, 1, -1, 3}
        const %s: float32[] = {0.5}
        const %z: ${type}[] = {0}
        %v = DequantizeLinear(%w, %s)
        %q = QuantizeLinear(%x, %s, %z)
        %d = DequantizeLinear(%q, %s, %z)
        %y = MatMul(%d, %v)
        output %y`);
      const x = new Tensor('float32', [0.5, 1, -1, 2, 0.25, 3, 1, -0.5], [2, 4]);
      // onnxruntime-web's optimizer makes an invalid product of integers of it.
      const wanted = await theirs(model.toOnnx(), { x }, { graphOptimizationLevel: 'disabled' });
      const { y } = await (await InferenceSession.create(model)).run({ x });
      assert.deepEqual([...y.data], [...wanted.y.data]);
    });
  }
});

// Observers and grids as objects. The oracles are formulas in doubles, written here, and what quantize() stores.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  AciqObserver,
  FakeQuantize,
  IsotoneObserver,
  KlObserver,
  MinMaxObserver,
  MovingAverageObserver,
  MseObserver,
  PercentileObserver,
  Tensor,
  TensorObserver,
  loadModel,
  quantize,
} from 'requant';
import { randomSource } from './ort_operators.mjs';
import { MODEL, calibration, isError } from './support.mjs';

const tensor = (data, dims = [data.length]) => new Tensor('float32', Float32Array.from(data), dims);
const random = randomSource(3);
const numbers = (count, size = 6, shift = 0.3) =>
  Array.from({ length: count }, () => Math.fround((random() - 0.5 + shift / size) * size));
const product = (dims) => dims.reduce((a, b) => a * b, 1);
const close = (a, b, tolerance = 1e-6) =>
  assert.ok(Math.abs(a - b) <= tolerance * Math.max(1e-30, Math.abs(b)), `${a}, not ${b}`);

/** Rounds half to even. */
const nearest = (x) => {
  const below = Math.floor(x);
  if (x - below !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
};

async function shown(observer, tensors) {
  const passes = await observer.passes();
  for (let pass = 0; pass < passes; pass++) {
    for (const one of tensors) await observer.observe(one, pass);
  }
  return observer;
}

describe('observers', () => {
  const samples = Array.from({ length: 9 }, () => numbers(237));
  const tensors = samples.map((list) => tensor(list, [3, 79]));
  const all = samples.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];

  test('minmax: the scale and zero point of ONNX', async () => {
    const observer = await shown(new MinMaxObserver(), tensors);
    assert.deepEqual(await observer.range(), [[Math.min(low, 0), Math.max(high, 0)]]);
    const scale = (high - low) / 255;
    close((await observer.scale())[0], scale);
    assert.deepEqual(await observer.zeroPoint(), [nearest(-low / Math.fround(scale))]);
    for (const [options, wanted] of [
      [{ symmetric: true }, Math.max(-low, high) / 127],
      [{ symmetric: true, bits: 4 }, Math.max(-low, high) / 7],
      [{ quantMax: 127 }, (high - low) / 127],
      [{ bits: 16 }, (high - low) / 65535],
      [{ symmetric: true, formula: 'ppq' }, (2 * Math.max(-low, high)) / 255],
      [{ symmetric: true, powerOf2: true }, 2 ** Math.ceil(Math.log2(Math.max(-low, high) / 127))],
    ]) {
      const [made] = await (await shown(new MinMaxObserver(options), tensors)).scale();
      close(made, wanted);
    }
  });

  test('minmax per channel', async () => {
    const dims = [2, 5, 7];
    const values = numbers(product(dims));
    const observer = new MinMaxObserver({ perChannel: true, axis: 1, symmetric: true });
    await observer.observe(tensor(values, dims));
    const scales = await observer.scale();
    assert.equal(scales.length, 5);
    for (const [channel, scale] of scales.entries()) {
      const own = values.filter((_, index) => Math.floor(index / 7) % 5 === channel);
      close(scale, Math.max(...own.map(Math.abs)) / 127);
    }
    const six = isError('SHAPE_MISMATCH', { message: /6 channels.*5/ });
    await assert.rejects(observer.observe(tensor(numbers(12), [1, 6, 2])), six);
  });

  test('moving average, percentile and one-bit means', async () => {
    const momentum = 0.7;
    const moving = await shown(new MovingAverageObserver({ momentum }), tensors);
    let [least, greatest] = [];
    for (const list of samples) {
      const [a, b] = [Math.min(0, ...list), Math.max(0, ...list)];
      least = least === undefined ? a : momentum * least + (1 - momentum) * a;
      greatest = greatest === undefined ? b : momentum * greatest + (1 - momentum) * b;
    }
    const [[from, to]] = await moving.range();
    close(from, least, 1e-9);
    close(to, greatest, 1e-9);

    const percentile = await shown(new PercentileObserver({ percentile: 90 }), tensors);
    const sorted = all.toSorted((a, b) => a - b);
    const [[p5, p95]] = await percentile.range();
    const bin = (high - low) / 4096;
    assert.ok(Math.abs(p5 - sorted[Math.floor(all.length * 0.05)]) < 2 * bin + 0.02);
    assert.ok(Math.abs(p95 - sorted[Math.floor(all.length * 0.95)]) < 2 * bin + 0.02);

    const signs = await shown(new MseObserver({ bits: 1, symmetric: true }), tensors);
    close(
      (await signs.scale())[0],
      all.reduce((sum, x) => sum + Math.abs(x), 0) / all.length,
      2e-3,
    );
  });

  test('mse has the least squared error of many ranges', async () => {
    const observer = await shown(new MseObserver({ bits: 4 }), tensors);
    const error = (a, b) => {
      const scale = (b - a) / 15;
      const zero = nearest(-a / scale);
      const of = (x) => (Math.min(Math.max(nearest(x / scale) + zero, 0), 15) - zero) * scale;
      return all.reduce((sum, x) => sum + (of(x) - x) ** 2, 0);
    };
    const [[a, b]] = await observer.range();
    for (let share = 0.5; share <= 1; share += 0.05) {
      assert.ok(error(a, b) <= 1.02 * error(share * low, share * high), `${share}`);
    }
  });

  test('every kind merges to the bits of one that saw everything', async () => {
    const kinds = [
      MinMaxObserver,
      MovingAverageObserver,
      PercentileObserver,
      KlObserver,
      MseObserver,
      AciqObserver,
      IsotoneObserver,
    ];
    for (const Kind of kinds) {
      const whole = await shown(new Kind(), tensors);
      const parts = [tensors.slice(0, 4), tensors.slice(4)];
      let shards = [new Kind(), new Kind()];
      for (let pass = 0; pass < (await whole.passes()); pass++) {
        for (const [at, part] of parts.entries()) {
          for (const one of part) await shards[at].observe(one, pass);
        }
        const merged = await shards[0].merge(shards[1]);
        if (pass + 1 < (await whole.passes())) {
          shards = [merged, await merged.clone()];
        }
      }
      assert.deepEqual(await shards[0].range(), await whole.range(), Kind.name);
      assert.deepEqual(await shards[0].scale(), await whole.scale(), Kind.name);
      await whole.reset();
      await assert.rejects(whole.range(), isError('INVALID_ARGUMENT', { message: /no tensor/ }));
      await shown(whole, tensors);
      assert.deepEqual(await whole.range(), await shards[0].range(), Kind.name);
    }
  });

  test('are those of calibration', async () => {
    const model = await loadModel(MODEL);
    const images = calibration(8);
    for (const observer of ['minmax', 'moving_average', 'percentile', 'kl', 'mse', 'aciq']) {
      const config = { activations: { observer }, recover: [] };
      const { operators } = (await quantize(model, { calibration: images, config })).config;
      const slot = operators.flatMap(({ inputs }) => inputs).find((one) => one?.value === 'image');
      const own = new TensorObserver({ observer });
      assert.equal(own.kind, observer);
      await shown(
        own,
        images.map(({ image }) => image),
      );
      assert.deepEqual(await own.scale(), slot.scale.map(Math.fround), observer);
      assert.deepEqual(await own.zeroPoint(), slot.offset, observer);
    }
  });

  test('name what is wrong', async () => {
    const argument = 'INVALID_ARGUMENT';
    assert.throws(
      () => new MinMaxObserver({ bitz: 3 }),
      isError(argument, { value: 'options.bitz' }),
    );
    assert.throws(
      () => new TensorObserver({ scale: 3 }),
      isError(argument, { value: 'options.scale' }),
    );
    const observer = new KlObserver();
    await assert.rejects(observer.range(), isError(argument, { message: /pass 0/ }));
    await assert.rejects(
      observer.observe(tensor([1]), 1),
      isError(argument, { message: /pass 0/ }),
    );
    await observer.observe(tensor([1, 2]));
    await assert.rejects(observer.range(), isError(argument, { hint: /each pass/ }));
    await assert.rejects(observer.observe(tensor([1]), 2), isError(argument, { value: 'pass' }));
    await assert.rejects(
      observer.observe(tensor([1, NaN])),
      isError(argument, { message: /index 1/ }),
    );
    await assert.rejects(observer.observe([1]), isError(argument, { value: 'tensor' }));
    const ints = new Tensor('int32', Int32Array.from([1]), [1]);
    await assert.rejects(observer.observe(ints), isError('TYPE_MISMATCH'));
    await observer.observe(tensor([1, 2]), 1);
    await assert.rejects(observer.observe(tensor([1])), isError(argument, { message: /over/ }));
    await assert.rejects(
      observer.merge(new MinMaxObserver()),
      isError(argument, { message: /same/ }),
    );
    await assert.rejects(
      observer.merge(new KlObserver()),
      isError(argument, { message: /pass 1 and 0/ }),
    );
    await assert.rejects(observer.merge({}), isError(argument, { value: 'other' }));
    const codes = new MinMaxObserver({ quantMax: 300 });
    await assert.rejects(codes.scale(), isError(argument, { value: 'options.quantMax' }));
    observer.dispose();
    await assert.rejects(observer.range(), isError('DISPOSED'));
  });
});

describe('FakeQuantize', () => {
  test('forward: the codes of the formula', async () => {
    const values = numbers(501, 8);
    for (const [options, low, high] of [
      [{ scale: 0.03, zeroPoint: 100 }, 0, 255],
      [{ scale: 0.5, symmetric: true, bits: 4 }, -7, 7],
      [{ scale: 0.25, zeroPoint: 20, quantMin: 5, quantMax: 40 }, 5, 40],
      [{ scale: 0.001, bits: 12, zeroPoint: 2000 }, 0, 4095],
    ]) {
      const grid = new FakeQuantize(options);
      const { data } = await grid.forward(tensor(values));
      const { scale, zeroPoint = 0 } = options;
      const step = Math.fround(scale);
      for (const [index, x] of values.entries()) {
        const scaled = Math.fround(x / step);
        const code = Math.min(Math.max(nearest(scaled) + zeroPoint, low), high);
        close(data[index], (code - zeroPoint) * step, 1e-6);
      }
    }
  });

  test('backward: straight through inside of the range, and the gradient of LSQ', async () => {
    const dims = [4, 3, 11];
    const values = numbers(product(dims), 8);
    const slopes = numbers(product(dims), 2);
    for (const options of [
      { scale: 0.02, zeroPoint: 60, quantMax: 127 },
      { scale: 0.3, symmetric: true, bits: 4 },
      { scale: [0.1, 0.2, 0.4], symmetric: true, bits: 4, perChannel: true, axis: 1 },
    ]) {
      const grid = new FakeQuantize(options);
      await grid.forward(tensor(values, dims));
      const { input, scale } = await grid.backward(tensor(slopes, dims));
      assert.deepEqual(input.dims, dims);
      const zero = options.zeroPoint ?? 0;
      const [low, high] = options.bits ? [-7, 7] : [0, options.quantMax];
      const scales = [options.scale].flat().map(Math.fround);
      const wanted = scales.map(() => 0);
      for (const [index, x] of values.entries()) {
        const channel = scales.length > 1 ? Math.floor(index / 11) % 3 : 0;
        const v = Math.fround(x / scales[channel]);
        const q = Math.min(Math.max(nearest(v), low - zero), high - zero);
        const inside = v >= low - zero - 0.5 && v <= high - zero + 0.5;
        assert.equal(input.data[index], inside ? Math.fround(slopes[index]) : 0);
        wanted[channel] += (inside ? q - v : q) * slopes[index];
      }
      for (const [channel, slope] of scale.entries()) {
        assert.ok(
          Math.abs(slope - wanted[channel]) < 1e-3 * Math.max(1, Math.abs(wanted[channel])),
        );
      }
    }
  });

  test('the scale descends to that of least squares', async () => {
    const values = numbers(2000, 4, 0);
    const loss = (scale) =>
      values.reduce((sum, x) => {
        const q = Math.min(Math.max(nearest(x / scale), -3), 3) * scale;
        return sum + (q - x) ** 2;
      }, 0);
    let [scale] = [1.5];
    for (let step = 0; step < 60; step++) {
      const grid = new FakeQuantize({ bits: 3, symmetric: true, scale });
      const { data } = await grid.forward(tensor(values));
      const slopes = Array.from(data, (y, index) => (2 * (y - values[index])) / values.length);
      scale -= 0.1 * (await grid.backward(tensor(slopes))).scale[0];
      grid.dispose();
    }
    const best = Math.min(...Array.from({ length: 200 }, (_, i) => loss(0.1 + i * 0.01)));
    assert.ok(loss(scale) < 1.05 * best, `${scale}: ${loss(scale)}, best ${best}`);
  });

  test('without a scale its observer follows, until freeze()', async () => {
    const grid = new FakeQuantize({ observer: 'moving_average', momentum: 0.5, symmetric: true });
    await assert.rejects(grid.scale(), isError('INVALID_ARGUMENT', { hint: /scale/ }));
    await assert.rejects(grid.backward(tensor([1])), isError('INVALID_ARGUMENT'));
    await grid.forward(tensor([-1, 2]));
    close((await grid.scale())[0], 2 / 127);
    await grid.forward(tensor([-4, 1]));
    close((await grid.scale())[0], 2.5 / 127);
    await grid.freeze();
    await grid.forward(tensor([-100, 100]));
    close((await grid.scale())[0], 2.5 / 127);
    await assert.rejects(grid.backward(tensor([1, 2, 3])), isError('SHAPE_MISMATCH'));
    grid.dispose();
    await assert.rejects(grid.scale(), isError('DISPOSED'));
  });

  test('an observer gives its grid', async () => {
    const observer = new MinMaxObserver({ bits: 6 });
    const values = numbers(90);
    await observer.observe(tensor(values));
    const grid = await observer.fakeQuantize();
    assert.deepEqual(await grid.scale(), await observer.scale());
    const { data } = await grid.forward(tensor(values));
    const [scale] = await observer.scale();
    assert.ok(values.every((x, index) => Math.abs(data[index] - x) <= 0.51 * scale));
  });

  test('names what a grid cannot have', async () => {
    const grid = (options) => new FakeQuantize(options).scale();
    const quantization = 'INVALID_QUANTIZATION';
    await assert.rejects(grid({ scale: 0 }), isError(quantization, { value: 'options.scale' }));
    await assert.rejects(grid({ scale: [1, 2] }), isError(quantization));
    const outside = { scale: 1, zeroPoint: 256 };
    await assert.rejects(grid(outside), isError(quantization, { value: 'options.zeroPoint' }));
    await assert.rejects(grid({ observer: 'kl' }), isError('INVALID_ARGUMENT', { hint: /scale/ }));
    const spread = new FakeQuantize({ perChannel: true, axis: 1, scale: [1, 2, 3] });
    await assert.rejects(spread.forward(tensor([1, 2], [1, 2])), isError('SHAPE_MISMATCH'));
  });
});

// Invalid calibration data and configs cause an error that names the position, or a warning that says what
// was done, and scales stay useful.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  compare,
  loadModel,
  parseModel,
  quantize,
  quantizeWeights,
} from 'requant';
import { MODEL, agreement, calibration, isError, outputsOf, testImages } from './support.mjs';

const model = await loadModel(MODEL);
const shape = [1, 1, 28, 28];
const filled = (value) => ({
  image: new Tensor('float32', new Float32Array(784).fill(value), shape),
});
const images = testImages(40);
const float = await outputsOf(await InferenceSession.create(model), images);

async function agreementOf(quantized) {
  const session = await InferenceSession.create(quantized);
  return agreement(await outputsOf(session, images), float);
}

function checkScales({ config }) {
  for (const { name, inputs, outputs } of config.operators) {
    for (const slot of [...inputs, ...outputs]) {
      for (const scale of slot?.scale ?? []) assert.ok(scale > 0 && scale < Infinity, name);
    }
  }
}

test('NaN and infinity: the sample, the value and the place', async () => {
  for (const [value, word] of [
    [NaN, 'NaN'],
    [Infinity, 'infinite'],
    [-Infinity, 'infinite'],
  ]) {
    const samples = calibration(3);
    samples[2].image.data[100] = value;
    await assert.rejects(
      quantize(model, { calibration: samples }),
      isError('INVALID_ARGUMENT', {
        value: 'image',
        message: new RegExp(`sample 2: .*'image' is ${word} at index 100`),
      }),
    );
  }
});

test('values that overflow inside the network are named', async () => {
  await assert.rejects(
    quantize(model, { calibration: [...calibration(1), filled(3e38)] }),
    isError('INVALID_ARGUMENT', { message: /sample 1: value '.+' is (NaN|infinite) at index/ }),
  );
});

test('all zero, constant, denormal and huge samples', async () => {
  for (const [value, pattern] of [
    [0, /'image' was 0 in all calibration samples/],
    [1e-40, /'image' only took values below 1e-16/],
    [1e30, /'image' took values up to 1\S*e\+30, more than the greatest scale/],
    [0.5, undefined],
  ]) {
    const quantized = await quantize(model, { calibration: [filled(value), filled(value)] });
    checkScales(quantized);
    if (pattern) assert.match(quantized.config.warnings.join('\n'), pattern);
    else assert.deepEqual(quantized.config.warnings, []);
    quantized.dispose();
  }
});

test('zeros between samples change nothing but means', async () => {
  const mixed = [filled(0), ...calibration(24), filled(1e-40)];
  const quantized = await quantize(model, { calibration: mixed });
  assert.deepEqual(quantized.config.warnings, []);
  assert.ok((await agreementOf(quantized)) >= 0.95);
});

test('a single sample is enough, with a warning', async () => {
  const quantized = await quantize(model, { calibration: calibration(1) });
  checkScales(quantized);
  assert.match(quantized.config.warnings.join('\n'), /one calibration sample/);
  assert.ok((await agreementOf(quantized)) >= 0.8);
});

test('a huge outlier: a warning names the sample, and what it advises helps', async () => {
  const samples = calibration(24);
  samples[5].image.data[400] = 1e6;
  const plain = await quantize(model, { calibration: samples });
  checkScales(plain);
  assert.equal(plain.config.warnings.length, 1);
  assert.match(
    plain.config.warnings[0],
    /'image' stays below 2 in half of the calibration samples, but outliers, as in sample 5,.*remove those samples/,
  );
  const advised = await quantize(model, { calibration: samples.toSpliced(5, 1) });
  assert.deepEqual(advised.config.warnings, []);
  assert.ok((await agreementOf(advised)) > 0.95);
  assert.ok((await agreementOf(plain)) < 0.5);
});

/** Operators whose output size is the value of `n`, a number that is fed. */
const SIZED = {
  ConstantOfShape: '%y = ConstantOfShape(%n)',
  Expand: 'const %x: float32[] = {1}\n%y = Expand(%x, %n)',
  Tile: 'const %x: float32[1, 1] = {1}\n%y = Tile(%x, %n)',
  Reshape: 'const %x: float32[1] = {1}\n%y = Reshape(%x, %n)',
  Pad: 'const %x: float32[1] = {1}\n%y = Pad(%x, %n)',
  Resize: 'const %x: float32[1, 1] = {1}\n%y = Resize(%x, _, _, %n)',
};

test('sizes that no 32 bits hold are refused, and the engine goes on', async () => {
  for (const [name, lines] of Object.entries(SIZED)) {
    const text = `graph "" opset 13\ninput %n: int64[2]\n${lines}\noutput %y\n`;
    const session = await InferenceSession.create(await parseModel(text));
    const run = async (...sizes) => {
      const { y } = await session.run({ n: new Tensor('int64', BigInt64Array.from(sizes), [2]) });
      return y.dims;
    };
    for (const sizes of [
      [65536n, 65537n], // modulo 2^32 they would be small
      [2n ** 32n + 1n, 1n],
      [1n, 2n ** 40n],
      [2n ** 62n, 2n ** 62n],
    ].slice(name === 'Pad' ? 1 : 0)) {
      await assert.rejects(run(...sizes), (error) => {
        assert.match(
          error.code,
          /^(OUT_OF_MEMORY|INVALID_MODEL|SHAPE_MISMATCH)$/,
          `${name} ${error}`,
        );
        return true;
      });
    }
    assert.deepEqual(await run(1n, 1n), name === 'Pad' ? [3] : [1, 1], name);
    await session.release();
  }
});

test('shapes that do not fit, in the middle of the stream', async () => {
  const small = { image: new Tensor('float32', new Float32Array(27 * 28), [1, 1, 27, 28]) };
  const integers = { image: new Tensor('uint8', new Uint8Array(784), shape) };
  for (const [bad, code] of [
    [small, 'SHAPE_MISMATCH'],
    [integers, 'TYPE_MISMATCH'],
  ]) {
    await assert.rejects(
      quantize(model, { calibration: [...calibration(2), bad] }),
      isError(code, { value: 'image', message: /^calibration sample 2: / }),
    );
  }
  // The engine still works afterwards.
  assert.ok((await quantize(model, { calibration: calibration(4) })).config.operators.length > 0);
});

test('more scales than a value has', async () => {
  const config = { scales: { image: { scale: [0.1, 0.2] } } };
  await assert.rejects(
    quantize(model, { calibration: calibration(1), config }),
    isError('INVALID_QUANTIZATION', { value: 'image', message: /2 scales/ }),
  );
});

test('numbers that an int of the engine would hold as other ones', async () => {
  const [feeds] = calibration(1);
  const scales = (given) => ({ scales: { image: { scale: 1 / 255, ...given } } });
  const scale = 'config.scales["image"]';
  for (const [config, value] of [
    [
      { activations: { symmetric: true, perChannel: true, axis: 2 ** 32 + 1 } },
      /activations.axis$/,
    ],
    [{ activations: { axis: -1 } }, /activations.axis$/],
    [{ activations: { stopUpdateAfter: 2 ** 32 + 1 } }, /stopUpdateAfter$/],
    [{ weights: { bits: 2 ** 32 + 8 } }, /weights.bits$/],
    [{ recoverSamples: 2 ** 32 + 1 }, 'config.recoverSamples'],
    [{ recoverSteps: 2 ** 32 + 1 }, 'config.recoverSteps'],
    [scales({ zero_point: 0.5 }), `${scale}.zero_point[0]`],
    [scales({ zero_point: [2 ** 32] }), `${scale}.zero_point[0]`],
    [scales({ offset: 0.5 }), `${scale}.offset[0]`],
  ]) {
    const run = quantize(model, { calibration: [feeds], config });
    await assert.rejects(run, isError('INVALID_ARGUMENT', { value, hint: /integer from/ }));
  }
  for (const [options, value] of [
    [{ blockSize: 2 ** 32 + 32 }, 'options.blockSize'],
    [{ bits: 2 ** 32 + 4 }, 'options.bits'],
  ]) {
    await assert.rejects(quantizeWeights(model, options), isError('INVALID_ARGUMENT', { value }));
  }
  const many = { dataset: [{ feeds }], layerwise: true, aloneSamples: 2 ** 32 + 1 };
  await assert.rejects(
    compare(model, model, many),
    isError('INVALID_ARGUMENT', { value: 'options.aloneSamples' }),
  );
});

test('configs that name what is not there', async () => {
  for (const [config, message] of [
    [{ operators: { nobody: null } }, /'nobody'|nobody/],
    [{ operatorTypes: { Convolution: null } }, /Convolution/],
    [{ activations: { observer: 'magic' } }, /magic/],
    [{ recover: ['magic'] }, /magic/],
    [{ target: 'magic' }, /magic/],
    [{ activations: { bits: 0 } }, /bits/],
  ]) {
    await assert.rejects(quantize(model, { calibration: calibration(2), config }), (error) => {
      assert.equal(error.code, 'INVALID_ARGUMENT');
      assert.match(`${error.message} ${error.hint ?? ''}`, message);
      return true;
    });
  }
});

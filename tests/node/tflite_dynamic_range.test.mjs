// Layers of dynamic range, loaded as integers and as floats.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InferenceSession, Tensor, loadModel, quantize } from '../../dist/index.js';
import { Net, Random } from '../tflite/net.mjs';
import { isError } from './support.mjs';

const ROWS = 4;
const INNER = 64;

/** A FULLY_CONNECTED and a CONV_2D of int8 weights, each with a scale for every output. */
function twoLayers() {
  const net = new Net(new Random(11));
  const image = net.input('float32', [1, 4, 4, 16], -1, 3);
  const taps = net.weights('int8', [4, 3, 3, 16], 0);
  const inputs = [image, taps, net.weights('float32', [4])];
  const hidden = net.node('CONV_2D', inputs, 'float32', [1, 4, 4, 4], { strideW: 1, strideH: 1 });
  const weights = [net.weights('int8', [8, INNER], 0), net.weights('float32', [8])];
  return net.done(net.node('FULLY_CONNECTED', [hidden, ...weights], 'float32', [1, 8])).bytes();
}

function oneProduct() {
  const net = new Net(new Random(3));
  const x = net.input('float32', [ROWS, INNER], -1, 3);
  const inputs = [x, net.weights('int8', [32, INNER], 0), net.weights('float32', [32])];
  return net.done(net.node('FULLY_CONNECTED', inputs, 'float32', [ROWS, 32])).bytes();
}

const feedsOf = ({ info }, seed) =>
  Object.fromEntries(
    info.inputs.map(({ name, dims }) => {
      const size = dims.reduce((a, b) => a * b, 1);
      const data = Float32Array.from({ length: size }, (_, i) => 1 + 2 * Math.sin(seed + 3 * i));
      return [name, new Tensor('float32', data, dims)];
    }),
  );

async function answerOf(model, feeds) {
  const session = await InferenceSession.create(model);
  const [output] = Object.values(await session.run(feeds));
  await session.release();
  return output.data;
}

const distance = (a, b) => {
  const most = a.reduce((worst, value) => Math.max(worst, Math.abs(value)), 0);
  return a.reduce((worst, value, i) => Math.max(worst, Math.abs(value - b[i])), 0) / most;
};

for (const [name, build] of Object.entries({ twoLayers, oneProduct })) {
  test(`${name}: integers by default, floats that can be quantized if asked`, async () => {
    const bytes = build();
    const integer = await loadModel(bytes);
    const float = await loadModel(bytes, { dynamicRange: 'float' });
    assert.ok(/MatMulInteger/.test(integer.toText()));
    assert.ok(!/Integer/.test(float.toText()));
    const feeds = feedsOf(float, 0.3);
    const wanted = await answerOf(float, feeds);
    const got = await answerOf(integer, feeds);
    assert.ok(distance(wanted, got) > 0, 'activations have no codes');
    assert.ok(distance(wanted, got) < 0.03, `${distance(wanted, got)}`);
    const samples = Array.from({ length: 8 }, (_, seed) => feedsOf(float, seed));
    await assert.rejects(
      quantize(integer, { calibration: samples }),
      isError('INVALID_ARGUMENT', { hint: /dynamicRange: 'float'/ }),
    );
    const quantized = await quantize(float, { calibration: samples });
    assert.ok(distance(wanted, await answerOf(quantized, feeds)) < 0.05);
  });
}

test('a session that quantizes takes the float form, and other words are refused', async () => {
  const bytes = oneProduct();
  const samples = [feedsOf(await loadModel(bytes), 1)];
  const session = await InferenceSession.create(bytes, { quantize: { calibration: samples } });
  assert.equal((await session.run(samples[0]))[session.outputNames[0]].size, ROWS * 32);
  await assert.rejects(loadModel(bytes, { dynamicRange: 'half' }), isError('INVALID_ARGUMENT'));
});

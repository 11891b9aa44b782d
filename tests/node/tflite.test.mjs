// TFLite files. Small models of every operator and type (tests/tflite/cases.mjs) are compared with what LiteRT.js
// answers to them (tests/tflite/answers.json).
// REQUANT_LONG=1: LiteRT.js is asked again, which needs Chromium, and a network from which it is installed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { InferenceSession, Tensor, createWorker, loadModel } from '../../dist/index.js';
import { withOperatorList } from '../../web/scripts/tflite_list.mjs';
import { askLiteRt } from '../tflite/answers.mjs';
import cases from '../tflite/cases.mjs';
import { litertFolder, openLiteRt } from '../tflite/litert.mjs';
import { Net, Random, limits } from '../tflite/net.mjs';
import { activations, padding } from '../tflite/schema.mjs';
import { ROOT, isError } from './support.mjs';

const { answers } = JSON.parse(readFileSync(new URL('../tflite/answers.json', import.meta.url)));
const LONG = Boolean(process.env.REQUANT_LONG);
const skipShort = !LONG && 'only with REQUANT_LONG=1';

const arrays = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array };
const asTensor = ({ type, data, dims }) => new Tensor(type, data, dims);

async function runNet(net, options) {
  const session = await InferenceSession.create(net.bytes(), options);
  const feeds = Object.fromEntries(
    Object.entries(net.feeds).map(([name, feed]) => [name, asTensor(feed)]),
  );
  const results = await session.run(feeds);
  await session.release();
  return session.outputNames.map((name) => results[name]);
}

/** The largest difference in steps of codes, relative to floats of 1 and more, or of integers. */
function difference(got, wanted, step) {
  let worst = 0;
  let differing = 0;
  wanted.forEach((value, i) => {
    if (Object.is(got[i], value)) return;
    const error = Math.abs(Number(got[i]) - Number(value));
    const scaled = step ? error / step : error / Math.max(1, Math.abs(Number(value)));
    if (scaled > 0.5) differing++;
    if (!(scaled <= worst)) worst = scaled;
  });
  return { worst, differing };
}

const operator = (name) => name.split(/[ ,]/)[0];

describe('as LiteRT.js answers', () => {
  for (const op of new Set(cases.map(({ name }) => operator(name)))) {
    test(op, async (t) => {
      let codes = 0;
      let differing = 0;
      for (const { name, build } of cases.filter((one) => operator(one.name) === op)) {
        const net = build();
        const outputs = await runNet(net);
        outputs.forEach((output, k) => {
          const [type, dims, text] = answers[name][k];
          assert.equal(output.type, type, name);
          assert.deepEqual([...output.dims], dims, name);
          const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
          const wanted = new arrays[type](bytes.buffer);
          const step = net.steps[k];
          const found = difference(output.data, wanted, step);
          const most = step ? 1.01 : type === 'float32' ? 2e-6 : 0;
          assert.ok(found.worst <= most, `${name}: ${found.worst}`);
          if (!step) return;
          codes += wanted.length;
          differing += found.differing;
        });
      }
      if (codes > 0) t.diagnostic(`${differing} of ${codes} codes differ by one step`);
    });
  }

  test('again, now', { skip: skipShort }, async (t) => {
    const folder = litertFolder();
    if (!folder) return t.skip('the packages cannot be installed without a network');
    const litert = await openLiteRt(folder);
    try {
      assert.deepEqual(await askLiteRt(litert), answers);
    } finally {
      await litert.close();
    }
  });
});

test('inputs and outputs of codes are those behind QUANTIZE and DEQUANTIZE', async () => {
  let count = 0;
  for (const { name, build } of cases) {
    const net = build(false);
    const types = net.outputs.map((index) => net.tensors[index].type);
    if (!types.some((type) => type in limits)) continue;
    const wrapped = build();
    const [direct, reals] = [await runNet(net), await runNet(wrapped)];
    direct.forEach((output, k) => {
      const { type, scales, zeros } = net.tensors[net.outputs[k]];
      assert.equal(output.type, type, name);
      if (!scales) return;
      const back = Array.from(output.data, (code) => scales[0] * (code - zeros[0]));
      // The optimizer may take another way, on which a tie is rounded elsewhere.
      const { worst, differing } = difference(reals[k].data, back, scales[0]);
      assert.ok(worst <= 1.01 && differing <= 2, `${name}: ${differing}`);
      count++;
    });
  }
  assert.ok(count > 200);
});

test('tables of 16 bits are those of exact functions', async () => {
  for (const [op, exact] of [
    ['TANH', Math.tanh],
    ['LOGISTIC', (x) => 1 / (1 + Math.exp(-x))],
  ]) {
    const net = new Net(new Random(5), false);
    const x = net.input('int16', [400], -6, 6);
    const grid = { scales: [1 / 32768], zeros: [0] };
    net.done(net.node(op, [x], 'int16', [400], {}, { grid }));
    const [output] = await runNet(net);
    const [scale] = net.tensors[x].scales;
    net.feeds.t0.data.forEach((code, i) => {
      const wanted = Math.min(32767, exact(scale * code) * 32768);
      assert.ok(Math.abs(output.data[i] - wanted) <= 0.51, `${op} ${code}`);
    });
  }
});

/** A cell of TensorFlow's LSTM, in double precision (gates i, f, c, o). */
function lstm(x, weights, recurrent, biases, units) {
  const sigmoid = (value) => 1 / (1 + Math.exp(-value));
  const product = (matrix, vector, row) =>
    vector.reduce((sum, value, i) => sum + value * matrix[row * vector.length + i], 0);
  let hidden = new Array(units).fill(0);
  let cell = new Array(units).fill(0);
  return x.map((step) => {
    const gate = (g, row) =>
      product(weights[g], step, row) + product(recurrent[g], hidden, row) + biases[g][row];
    const rows = [...hidden.keys()];
    cell = rows.map(
      (row) => sigmoid(gate(1, row)) * cell[row] + sigmoid(gate(0, row)) * Math.tanh(gate(2, row)),
    );
    hidden = rows.map((row) => sigmoid(gate(3, row)) * Math.tanh(cell[row]));
    return hidden;
  });
}

test('UNIDIRECTIONAL_SEQUENCE_LSTM is that of its formulas', async () => {
  const [time, batch, features, units] = [5, 2, 4, 3];
  for (const timeMajor of [true, false]) {
    const net = new Net(new Random(9));
    const shape = timeMajor ? [time, batch, features] : [batch, time, features];
    const x = net.input('float32', shape);
    const weights = [0, 1, 2, 3].map(() => net.weights('float32', [units, features]));
    const recurrent = [0, 1, 2, 3].map(() => net.weights('float32', [units, units]));
    const biases = [0, 1, 2, 3].map(() => net.weights('float32', [units]));
    const states = [0, 1].map(() => net.state('float32', [batch, units]));
    const none = (count) => new Array(count).fill(-1);
    const inputs = [
      x,
      ...weights,
      ...recurrent,
      ...none(3),
      ...biases,
      ...none(2),
      ...states,
      ...none(4),
    ];
    const made = timeMajor ? [time, batch, units] : [batch, time, units];
    const options = { activation: activations.TANH, cellClip: 0, projClip: 0, timeMajor };
    net.done(net.node('UNIDIRECTIONAL_SEQUENCE_LSTM', inputs, 'float32', made, options));
    const [output] = await runNet(net);
    const data = (index) => net.tensors[index].data;
    const { data: given } = net.feeds.t0;
    for (let b = 0; b < batch; b++) {
      const start = (t, size) => (timeMajor ? t * batch + b : b * time + t) * size;
      const steps = Array.from({ length: time }, (_, t) => [
        ...given.subarray(start(t, features), start(t, features) + features),
      ]);
      const wanted = lstm(steps, weights.map(data), recurrent.map(data), biases.map(data), units);
      wanted.forEach((hidden, t) =>
        hidden.forEach((value, u) => {
          assert.ok(Math.abs(output.data[start(t, units) + u] - value) < 1e-6, `${t} ${u}`);
        }),
      );
    }
  }
});

/** A network of images: convolutions, sums, pools, joins, pads, resizing. */
function network(type) {
  const net = new Net(new Random(3), false);
  const weights = (shape, axis) =>
    net.weights(type === 'int16' ? 'int8' : type, shape, type === 'uint8' ? undefined : axis);
  const conv = (x, channels, kernel, stride, activation) => {
    const [, height, width, from] = net.tensors[x].shape;
    const w = weights([channels, kernel, kernel, from], 0);
    const options = { padding: padding.SAME, strideW: stride, strideH: stride, activation };
    return net.node(
      'CONV_2D',
      [x, w, net.bias(x, w, channels)],
      type,
      [1, height / stride, width / stride, channels],
      options,
    );
  };
  const input = net.input(type, [1, 16, 16, 8]);
  const first = conv(input, 16, 3, 2, activations.RELU6);
  const w = weights([1, 3, 3, 16], 3);
  const depthwise = net.node(
    'DEPTHWISE_CONV_2D',
    [first, w, net.bias(first, w, 16)],
    type,
    [1, 8, 8, 16],
    {
      padding: padding.SAME,
      strideW: 1,
      strideH: 1,
      multiplier: 1,
      activation: activations.RELU6,
    },
  );
  const sum = net.node(
    'ADD',
    [first, conv(depthwise, 16, 1, 1, activations.NONE)],
    type,
    [1, 8, 8, 16],
  );
  const window = { padding: padding.SAME, strideW: 2, strideH: 2, filterW: 2, filterH: 2 };
  const pool = net.node('MAX_POOL_2D', [sum], type, [1, 4, 4, 16], window, { grid: net.grid(sum) });
  const side = conv(sum, 16, 3, 2, activations.RELU6);
  const joined = net.node(
    'CONCATENATION',
    [pool, side],
    type,
    [1, 4, 4, 32],
    { axis: 3 },
    { grid: net.grid(pool) },
  );
  const pads = net.ints([0, 0, 1, 1, 1, 1, 0, 0], [4, 2]);
  const padded = net.node(
    'PAD',
    [joined, pads],
    type,
    [1, 6, 6, 32],
    {},
    { grid: net.grid(joined) },
  );
  const last = conv(padded, 16, 3, 1, activations.RELU);
  const large = net.node(
    'RESIZE_NEAREST_NEIGHBOR',
    [last, net.ints([12, 12])],
    type,
    [1, 12, 12, 16],
    {},
    { grid: net.grid(last) },
  );
  const mean = net.node('MEAN', [large, net.ints([1, 2])], type, [1, 16], { keepDims: false });
  const dense = weights([10, 16]);
  return net.done(
    net.node('FULLY_CONNECTED', [mean, dense, net.bias(mean, dense, 10)], type, [1, 10]),
  );
}

describe('a network of images', () => {
  for (const type of ['float32', 'int8', 'uint8', 'int16']) {
    test(`of ${type} runs without a Transpose inside`, async () => {
      const session = await InferenceSession.create(network(type).bytes());
      const operators = session.plan().steps.map(({ op }) => op);
      assert.ok(!operators.some((op) => /Transpose/.test(op)), operators.join(' '));
      if (type !== 'int8' && type !== 'uint8') return;
      const layers = operators.filter((op) => /Conv|Gemm/.test(op));
      assert.ok(
        layers.every((op) => /^(QLinearConv|QGemm)/.test(op)),
        layers.join(' '),
      );
    });
  }

  test('keeps names, types and the order of dimensions', async () => {
    const net = network('int8');
    const model = await loadModel(net.bytes());
    const last = net.tensors[net.outputs[0]].name;
    const described = ({ name, type, dims }) => ({ name, type, dims });
    assert.deepEqual(model.info.inputs.map(described), [
      { name: 't0', type: 'int8', dims: [1, 16, 16, 8] },
    ]);
    assert.deepEqual(model.info.outputs.map(described), [
      { name: last, type: 'int8', dims: [1, 10] },
    ]);
    const worker = await createWorker();
    const remote = await worker.loadModel(net.bytes());
    const session = await worker.createSession(remote);
    const results = await session.run({ t0: asTensor(net.feeds.t0) });
    assert.deepEqual([...results[last].data], [...(await runNet(net))[0].data]);
    await worker.terminate();
  });

  test('is run by the command line', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-tflite-'));
    try {
      const file = path.join(folder, 'network.tflite');
      writeFileSync(file, network('float32').bytes());
      const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
      const main = path.join(ROOT, 'dist/cli/main.js');
      const options = { encoding: 'utf8' };
      assert.match(
        execFileSync(process.execPath, [...flags, main, 'inspect', file], options),
        /Conv/,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test('weights of 8 and 4 bits beside floats are dequantized', async () => {
  const net = new Net(new Random(6));
  const x = net.input('float32', [2, 8]);
  const codes = net.data('int8', [4, 8], 0, 0);
  const scales = [0.5, 0.25, 0.125, 1];
  const few = codes.map((code) => code >> 4);
  const packed = Uint8Array.from(
    { length: 16 },
    (_, i) => (few[2 * i] & 15) | (few[2 * i + 1] << 4),
  );
  const reals = (from) => Float32Array.from(from, (code, i) => code * scales[Math.floor(i / 8)]);
  const weights = [
    net.constant('int8', [4, 8], codes, { scales, axis: 0 }),
    net.constant('float32', [4, 8], reals(codes)),
    net.constant('int4', [4, 8], packed, { scales, axis: 0 }),
    net.constant('float32', [4, 8], reals(few)),
  ];
  net.done(...weights.map((w) => net.node('FULLY_CONNECTED', [x, w, -1], 'float32', [2, 4])));
  const outputs = await runNet(net);
  for (const k of [0, 2]) {
    assert.ok(difference(outputs[k].data, [...outputs[k + 1].data]).worst < 1e-6);
  }
});

test('sizes that the file leaves open are open', async () => {
  const net = new Net(new Random(4));
  const x = net.input('float32', [1, 4, 4, 2], -3, 3, { signature: [-1, -1, -1, 2] });
  const w = net.weights('float32', [3, 3, 3, 2]);
  const options = { padding: padding.SAME, strideW: 2, strideH: 2 };
  net.done(
    net.node('CONV_2D', [x, w, net.bias(x, w, 3)], 'float32', [1, 2, 2, 3], options, {
      more: { signature: [-1, -1, -1, 3] },
    }),
  );
  const session = await InferenceSession.create(net.bytes());
  for (const dims of [
    [1, 4, 4, 2],
    [2, 7, 5, 2],
  ]) {
    const data = net.data('float32', dims, -1, 1);
    const [output] = Object.values(await session.run({ t0: new Tensor('float32', data, dims) }));
    assert.deepEqual(
      [...output.dims],
      [dims[0], Math.ceil(dims[1] / 2), Math.ceil(dims[2] / 2), 3],
    );
  }
});

test('what the engine lacks is refused by name, with a remedy', async () => {
  const net = new Net(new Random(1));
  net.done(net.node('RANDOM_UNIFORM', [net.ints([2])], 'float32', [2]));
  await assert.rejects(loadModel(net.bytes()), (error) => {
    isError('UNSUPPORTED', { message: /RANDOM_UNIFORM of 't1'/, hint: /JavaScript/ })(error);
    assert.equal(error.value, 't1');
    return true;
  });
  const whole = network('float32').bytes();
  await assert.rejects(
    loadModel(whole.subarray(0, 400)),
    isError('INVALID_MODEL', { hint: /damaged/ }),
  );
});

test('the document lists the operators', async () => {
  const text = readFileSync(path.join(ROOT, 'docs/tflite.md'), 'utf8');
  assert.equal(await withOperatorList(text), text, 'run node web/scripts/tflite_list.mjs');
});

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
import plainCases from '../tflite/cases.mjs';
import dynamicCases from '../tflite/dynamic_cases.mjs';
import { litertFolder, openLiteRt } from '../tflite/litert.mjs';
import { Net, Random, limits } from '../tflite/net.mjs';
import rareCases from '../tflite/rare_cases.mjs';
import { asTensor, runNet } from '../tflite/run_net.mjs';
import { activations, padding } from '../tflite/schema.mjs';
import { ROOT, isError } from './support.mjs';

const { answers } = JSON.parse(readFileSync(new URL('../tflite/answers.json', import.meta.url)));
const cases = [...plainCases, ...rareCases, ...dynamicCases];
const LONG = Boolean(process.env.REQUANT_LONG);
const skipShort = !LONG && 'only with REQUANT_LONG=1';

const arrays = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array };
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
      for (const { name, build, most: dynamic } of cases.filter(
        (one) => operator(one.name) === op,
      )) {
        const net = build();
        const outputs = await runNet(net);
        outputs.forEach((output, k) => {
          const [type, dims, text] = answers[name][k];
          assert.equal(output.type, type, name);
          assert.deepEqual([...output.dims], dims, name);
          const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
          const wanted = new arrays[type](bytes.buffer);
          const step = net.steps[k];
          const largest = wanted.reduce((top, value) => Math.max(top, Math.abs(Number(value))), 0);
          const found = difference(output.data, wanted, dynamic ? largest : step);
          const most = dynamic ? dynamic : step ? 1.01 : type === 'float32' ? 2e-6 : 0;
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

describe('weights of few bits beside floats', () => {
  test('of 4 bits are multiplied as integers', async () => {
    const net = new Net(new Random(6));
    const x = net.input('float32', [2, 8]);
    const codes = net.data('int8', [4, 8], 0, 0).map((code) => code >> 4);
    const scales = [0.5, 0.25, 0.125, 1];
    const packed = Uint8Array.from(
      { length: 16 },
      (_, i) => (codes[2 * i] & 15) | (codes[2 * i + 1] << 4),
    );
    const weights = [
      net.constant('int4', [4, 8], packed, { scales, axis: 0 }),
      net.constant('int8', [4, 8], codes, { scales, axis: 0 }),
    ];
    net.done(...weights.map((w) => net.node('FULLY_CONNECTED', [x, w, -1], 'float32', [2, 4])));
    const [few, bytes] = await runNet(net);
    assert.deepEqual([...few.data], [...bytes.data]);
  });

  test('stay in 8 bits in memory, and are multiplied by integer kernels', async () => {
    const build = (type) => {
      const net = new Net(new Random(8));
      const image = net.input('float32', [1, 8, 8, 32]);
      const conv = [image, net.weights(type, [64, 3, 3, 32], 0), net.weights('float32', [64])];
      const options = { padding: padding.SAME, strideW: 1, strideH: 1 };
      const x = net.node('CONV_2D', conv, 'float32', [1, 8, 8, 64], options);
      const flat = net.node('RESHAPE', [x, net.ints([1, 4096])], 'float32', [1, 4096], {
        newShape: [1, 4096],
      });
      const dense = [flat, net.weights(type, [64, 4096], 0), -1];
      return net.done(net.node('FULLY_CONNECTED', dense, 'float32', [1, 64]));
    };
    const plans = [];
    for (const type of ['float32', 'int8']) {
      const session = await InferenceSession.create(build(type).bytes());
      plans.push(session.plan());
      await session.release();
    }
    const [floats, codes] = plans;
    assert.ok(codes.memory.packedWeights < 0.3 * floats.memory.packedWeights);
    const products = codes.steps.filter(({ op }) => /^(Conv|MatMul|Gemm)/.test(op));
    assert.ok(products.length === 2 && products.every(({ op }) => /Integer/.test(op)));
  });
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
  net.done(net.node('REDUCE_WINDOW', [net.ints([2])], 'float32', [2]));
  await assert.rejects(loadModel(net.bytes()), (error) => {
    isError('UNSUPPORTED', { message: /REDUCE_WINDOW of 't1'/, hint: /ONNX/ })(error);
    assert.equal(error.value, 't1');
    return true;
  });
  const whole = network('float32').bytes();
  await assert.rejects(
    loadModel(whole.subarray(0, 400)),
    isError('INVALID_MODEL', { hint: /damaged/ }),
  );
});

test('SEGMENT_SUM adds the rows of a segment, and UNIQUE keeps the order', async () => {
  const net = new Net(new Random(1));
  const x = net.input('float32', [5, 3]);
  const ids = net.ints([0, 0, 1, 3, 3]);
  const sums = net.node('SEGMENT_SUM', [x, ids], 'float32', [4, 3]);
  const repeated = net.input('int32', [6], 0, 2);
  const outputs = [
    { type: 'int32', shape: [6] },
    { type: 'int32', shape: [6] },
  ];
  const [values, places] = net.nodes2('UNIQUE', [repeated], outputs, { type: 2 });
  net.done(sums, values, places);
  const [sum, value, place] = await runNet(net);
  const { data } = net.feeds[net.tensors[x].name];
  const row = (i) => [...data.subarray(3 * i, 3 * i + 3)];
  const plus = (a, b) => a.map((number, i) => Math.fround(number + b[i]));
  const wanted = [plus(row(0), row(1)), row(2), [0, 0, 0], plus(row(3), row(4))];
  assert.deepEqual([...sum.data], wanted.flat());
  const given = [...net.feeds[net.tensors[repeated].name].data];
  assert.deepEqual([...value.data], [...new Set(given)]);
  assert.deepEqual(
    [...place.data].map((i) => value.data[i]),
    given,
  );
});

test('random numbers have the distributions that they are drawn from', async () => {
  const net = new Net(new Random(2));
  const size = net.ints([4000]);
  const seeds = { seed: 3, seed2: 4 };
  const uniform = net.node('RANDOM_UNIFORM', [size], 'float32', [4000], seeds);
  const normal = net.node('RANDOM_STANDARD_NORMAL', [size], 'float32', [4000], seeds);
  const logits = net.constant('float32', [1, 3], [0, Math.log(3), -100]);
  const drawn = net.node('MULTINOMIAL', [logits, net.ints([4000], [])], 'int32', [1, 4000], seeds);
  net.done(uniform, normal, drawn);
  const results = await runNet(net);
  const [mean, square] = [1, 2].map(
    (power) =>
      ({ data }) =>
        data.reduce((sum, value) => sum + value ** power, 0) / 4000,
  );
  assert.ok(results[0].data.every((value) => value >= 0 && value < 1));
  assert.ok(Math.abs(mean(results[0]) - 0.5) < 0.03);
  assert.ok(Math.abs(mean(results[1])) < 0.08 && Math.abs(square(results[1]) - 1) < 0.12);
  assert.ok(Math.abs(mean(results[2]) - 0.75) < 0.04);
  assert.deepEqual(
    (await runNet(net)).map(({ data }) => [...data]),
    results.map(({ data }) => [...data]),
  );
});

test('the document lists the operators', async () => {
  const text = readFileSync(path.join(ROOT, 'docs/tflite.md'), 'utf8');
  assert.equal(await withOperatorList(text), text, 'run node web/scripts/tflite_list.mjs');
});

// The effect of the optimizer: numbers of operators before and after, the speed of float networks unoptimized
// and optimized, the time until a model is ready compared with onnxruntime-web, and FastMath compared with
// the exact functions. All contenders take turns in one run; medians [least-most].
//
//   node tests/bench/optimizer.mjs [--rounds N] [--load | --fast-math | --json] [NETWORK ...]
//
// NETWORK: a folder of ../shared/models or ../shared/models/third_party, or demo; all by default.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { readArguments } from './arguments.mjs';
import { ROOT, formatRatio, formatTimes, ratios, spread, takeTurns } from './networks.mjs';

const { InferenceSession, Tensor, loadModel, parseModel, substitute } = await import('requant');

const SHARED = path.resolve(ROOT, '../shared/models');
const FLOAT = [
  'mobilenet_v1_025_224',
  'mobilenet_v2_035_224_food101',
  'mobilenet_v2_100_224_dequant',
  'resnet8_cifar10',
  'resnet20_cifar10',
  'resnet56_cifar10',
  'squeezenet_v1_1_224',
  'mlperf_tiny_ad_autoencoder_float',
  'mlperf_tiny_resnet8_float_folded',
  'mlperf_tiny_vww96_float',
  'mnist_ort_example',
  'openwakeword_embedding',
  'openwakeword_melspectrogram',
  'ppocr_cls',
  'ppocrv4_det',
  'ppocrv4_rec',
  'ultraface_rfb_320',
];

const standards = { rounds: 11, load: false, 'fast-math': false, json: false };
const { rounds, load, 'fast-math': fastMath, json, words } = readArguments(standards);

function fileOf(name) {
  if (name === 'demo') return path.join(ROOT, 'demos/models/fashion_mnist.onnx');
  for (const folder of [SHARED, path.join(SHARED, 'third_party')]) {
    const file = path.join(folder, name, 'model.onnx');
    if (existsSync(file)) return file;
  }
  throw new Error(`no network ${name}`);
}

/** Reads the file of inputs beside a model; without one, makes numbers of a fixed pattern. */
function feedsOf(model, file) {
  return Object.fromEntries(
    model.info.inputs.map(({ name, type, dims }, index) => {
      const sizes = sizesOf(file, name) ?? dims.map((dim) => (typeof dim === 'number' ? dim : 1));
      const length = sizes.reduce((product, dim) => product * dim, 1);
      const raw = path.join(path.dirname(file), `input_${index}.bin`);
      const Numbers = { float32: Float32Array, int64: BigInt64Array }[type];
      if (Numbers && existsSync(raw)) {
        const bytes = readFileSync(raw);
        const numbers = new Numbers(
          bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
        );
        if (numbers.length === length) return [name, new Tensor(type, numbers, sizes)];
      }
      const data = new Float32Array(length).map((_, i) => Math.sin(i * 0.7));
      return [
        name,
        new Tensor(type, type === 'float32' ? data : Array.from(data, Math.round), sizes),
      ];
    }),
  );
}

function sizesOf(file, name) {
  const description = path.join(path.dirname(file), 'io.json');
  if (!existsSync(description)) return undefined;
  const { inputs = [] } = JSON.parse(readFileSync(description, 'utf8'));
  const found = inputs.find((input) => input.name === name);
  return found?.shape ?? found?.dims;
}

/** Operators and milliseconds of a network, unoptimized and optimized. */
async function speed(name) {
  const file = fileOf(name);
  const model = await loadModel(file);
  const optimized = model.clone();
  const before = model.info.nodes.length;
  optimized.optimize();
  const after = optimized.info.nodes.length;
  const feeds = feedsOf(model, file);
  const sessions = [
    await InferenceSession.create(model, { optimize: false }),
    await InferenceSession.create(model),
  ];
  const rows = sessions.map((session) => ({ run: () => session.run(feeds), times: [] }));
  await takeTurns(rows, rounds, { warmUpMs: 400 });
  for (const held of [...sessions, optimized, model]) held.dispose();
  const [asItIs, better] = rows.map(({ times }) => times);
  return {
    name,
    operators: { before, after },
    times: { before: spread(asItIs), after: spread(better) },
    ratio: ratios(asItIs, better),
  };
}

/**
 * Times until a model is parsed, optimized and planned, in engines that are running already; and until the
 * first answer, also from a saved plan that was made before anything ran.
 */
async function loading(name) {
  const file = fileOf(name);
  const bytes = readFileSync(file);
  const ort = await import('onnxruntime-web');
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const model = await loadModel(file);
  const feeds = feedsOf(model, file);
  const shapes = Object.fromEntries(
    Object.entries(feeds).map(([key, { dims }]) => [key, [...dims]]),
  );
  const plan = await model.toPlan({ shapes });
  model.dispose();
  const ortFeeds = Object.fromEntries(
    Object.entries(feeds).map(([key, { type, data, dims }]) => [
      key,
      new ort.Tensor(type, data, dims),
    ]),
  );
  const contenders = [
    {
      create: () => ort.InferenceSession.create(new Uint8Array(bytes)),
      feeds: ortFeeds,
      close: (session) => session.release(),
    },
    {
      create: () => InferenceSession.create(new Uint8Array(bytes)),
      feeds,
      close: (session) => session.dispose(),
    },
    {
      create: () => InferenceSession.create(plan),
      feeds,
      close: (session) => session.dispose(),
    },
  ];
  const created = contenders.map(() => []);
  const answered = contenders.map(() => []);
  const small = readFileSync(path.join(ROOT, 'demos/models/fashion_mnist.onnx'));
  await (await ort.InferenceSession.create(new Uint8Array(small))).release();
  (await InferenceSession.create(new Uint8Array(small))).dispose();
  for (let round = 0; round < rounds; round++) {
    for (const [index, { create, feeds: own, close }] of contenders.entries()) {
      const start = performance.now();
      const session = await create();
      created[index].push(performance.now() - start);
      await session.run(own);
      answered[index].push(performance.now() - start);
      await close(session);
    }
  }
  const size = (bytes.length / 1e6).toFixed(1);
  const cells = [created, answered].flatMap((times) => [
    formatTimes(spread(times[0])),
    formatTimes(spread(times[1])),
    formatRatio(ratios(times[0], times[1])),
  ]);
  const saved = [
    (plan.length / 1e6).toFixed(1),
    formatTimes(spread(answered[2])),
    formatRatio(ratios(answered[1], answered[2])),
  ];
  console.log(`| ${name} (${size} MB) | ${[...cells, ...saved].join(' | ')} |`);
}

async function compareFastMath() {
  for (const op of ['Exp', 'Tanh', 'Sigmoid', 'Erf', 'Gelu', 'Softmax']) {
    const model = await parseModel(
      `graph "f" opset 20\ninput %x: float32[64, 1024]\n%y = ${op}(%x) "f"\noutput %y`,
    );
    const data = new Float32Array(64 * 1024).map((_, i) => Math.sin(i) * 4);
    const dataset = [{ feeds: { x: new Tensor('float32', data, [64, 1024]) } }];
    const { model: fast, report } = await substitute(model, {
      passes: ['FastMath'],
      dataset,
      runs: rounds,
    });
    fast.dispose();
    model.dispose();
    const { beforeMs, afterMs, ratio } = report.latency;
    console.log(
      `| ${op} | ${report.outputs[0].maxAbs.toExponential(1)} | ${beforeMs.toFixed(3)} | ${afterMs.toFixed(3)} | ${ratio.toFixed(2)}x |`,
    );
  }
}

if (load) {
  console.log(
    '| network | created: ORT ms | ours | ratio | first answer: ORT ms | ours | ratio | saved plan: MB | first answer, ms | ratio |',
  );
  console.log(`|${' --- |'.repeat(10)}`);
  for (const name of words.length > 0 ? words : ['mobilenet_v2_100_224_dequant']) {
    await loading(name);
  }
} else if (fastMath) {
  console.log(
    '| function | largest error | exact ms | fast ms | ratio |\n| --- | --- | --- | --- | --- |',
  );
  await compareFastMath();
} else {
  const there = existsSync(SHARED)
    ? FLOAT.filter(
        (name) =>
          readdirSync(SHARED).includes(name) || existsSync(path.join(SHARED, 'third_party', name)),
      )
    : [];
  if (!json) {
    console.log('| network | operators | after | as it is, ms | optimized, ms | ratio |');
    console.log('| --- | --- | --- | --- | --- | --- |');
  }
  const networks = [];
  for (const name of words.length > 0 ? words : ['demo', ...there]) {
    const network = await speed(name);
    networks.push(network);
    if (json) continue;
    const { operators, times, ratio } = network;
    const cells = [name, operators.before, operators.after];
    const speeds = [formatTimes(times.before), formatTimes(times.after), formatRatio(ratio)];
    console.log(`| ${[...cells, ...speeds].join(' | ')} |`);
  }
  if (json) console.log(JSON.stringify({ rounds, networks }, null, 2));
}

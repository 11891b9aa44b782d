// The computations that every browser and Node run; Node's bits are the oracle. The file has no imports:
// pages get it as it is, and callers pass `requant`.

const DEMO = 'demos/models/fashion_mnist.onnx';
const IMAGES = 16;

/**
 * Ways to compute that must not affect results. The first uses one thread and the module that the package
 * chooses.
 */
const WAYS = [
  { name: 'page' },
  { name: 'simd128', simd: 'simd128' },
  { name: 'threads', numThreads: 2 },
  { name: 'worker', worker: true },
];

/**
 * A generator of integers in [least, most], the same everywhere (Lehmer's generator, Park and Miller 1988).
 */
function integers(seed) {
  let state = seed;
  return (least, most) => {
    state = (state * 48271) % 2147483647;
    return least + (state % (most - least + 1));
  };
}

const constant = (name, dims, values) =>
  `const %${name}: float32[${dims.join(', ')}] = {${values.map((x) => x.toFixed(6)).join(', ')}}`;

/** Weights between -size and size. */
function weights(random, name, dims, size) {
  const count = dims.reduce((a, b) => a * b, 1);
  return constant(
    name,
    dims,
    Array.from({ length: count }, () => (random(-1000, 1000) / 1000) * size),
  );
}

/** A classifier with weights and activations of -1 and 1, in QONNX. */
function oneBitNetwork() {
  const random = integers(11);
  const layers = [784, 64, 64, 10];
  const lines = [
    'graph "w1a1" opset 13, qonnx.custom_op.general 1',
    'input %image: float32[1, 784]',
    constant('one', [], [1]),
    '%a0 = qonnx.custom_op.general::BipolarQuant(%image, %one)',
  ];
  for (let layer = 1; layer < layers.length; layer++) {
    const dims = [layers[layer - 1], layers[layer]];
    const signs = Array.from({ length: dims[0] * dims[1] }, () => 2 * random(0, 1) - 1);
    lines.push(
      constant(`w${layer}`, dims, signs),
      `%b${layer} = qonnx.custom_op.general::BipolarQuant(%w${layer}, %one)`,
      `%y${layer} = MatMul(%a${layer - 1}, %b${layer})`,
      `%a${layer} = qonnx.custom_op.general::BipolarQuant(%y${layer}, %one)`,
    );
  }
  lines.push(`output %y${layers.length - 1}`);
  return lines.join('\n');
}

/** Convolutions of every kind that has a float kernel, a residual sum, and classes. */
function imageNetwork() {
  const random = integers(12);
  return [
    'graph "image" opset 17',
    'input %x: float32[1, 3, 15, 13]',
    weights(random, 'w1', [12, 3, 3, 3], 0.4),
    weights(random, 'b1', [12], 0.2),
    weights(random, 'w2', [12, 1, 3, 3], 0.6),
    weights(random, 'w3', [12, 12, 1, 1], 0.5),
    weights(random, 'w4', [12, 1, 5, 5], 0.4),
    weights(random, 'w5', [22, 6, 3, 3], 0.3),
    weights(random, 'w6', [22, 8, 2, 2], 0.3),
    weights(random, 'w7', [8, 5], 0.5),
    '%c1 = Conv(%x, %w1, %b1) {pads = [1, 1, 1, 1], strides = [2, 2]}',
    '%r1 = Relu(%c1)',
    '%c2 = Conv(%r1, %w2) {pads = [1, 1, 1, 1], group = 12}',
    '%r2 = Clip(%c2)',
    '%c3 = Conv(%r2, %w3)',
    '%s3 = Add(%r1, %c3)',
    '%c4 = Conv(%s3, %w4) {pads = [2, 2, 2, 2], group = 12}',
    '%r4 = HardSwish(%c4)',
    '%c5 = Conv(%r4, %w5) {pads = [1, 1, 1, 1], group = 2}',
    '%r5 = Relu(%c5)',
    '%c6 = ConvTranspose(%r5, %w6) {strides = [2, 2]}',
    '%mean = GlobalAveragePool(%c6)',
    '%flat = Flatten(%mean)',
    '%y = MatMul(%flat, %w7)',
    'output %y',
  ].join('\n');
}

/** Decomposed attention, a recurrent layer and a normalization between matrix products. */
function sequenceNetwork() {
  const random = integers(13);
  const lines = ['graph "sequence" opset 17', 'input %x: float32[6, 1, 16]'];
  for (const name of ['q', 'k', 'v']) {
    lines.push(weights(random, `w${name}`, [16, 16], 0.4), `%${name} = MatMul(%t, %w${name})`);
  }
  lines.splice(2, 0, '%t = Transpose(%x) {perm = [1, 0, 2]}');
  return [
    ...lines,
    weights(random, 'lw', [1, 48, 16], 0.3),
    weights(random, 'lr', [1, 48, 12], 0.3),
    weights(random, 'g', [12], 1),
    weights(random, 'w', [12, 4], 0.5),
    '%kt = Transpose(%k) {perm = [0, 2, 1]}',
    '%scores = MatMul(%q, %kt)',
    '%p = Softmax(%scores) {axis = -1}',
    '%mix = MatMul(%p, %v)',
    '%sum = Add(%t, %mix)',
    '%back = Transpose(%sum) {perm = [1, 0, 2]}',
    '%states, %last = LSTM(%back, %lw, %lr) {hidden_size = 12}',
    '%norm = LayerNormalization(%last, %g)',
    '%y = MatMul(%norm, %w)',
    'output %y',
  ].join('\n');
}

/** Products of rows that become codes of 8 bits while they run, each row with its own scale. */
async function byRow(by) {
  const random = integers(15);
  const text = [
    'graph "rows" opset 17',
    'input %x: float32[rows, 48]',
    weights(random, 'w1', [48, 70], 0.4),
    weights(random, 'b1', [70], 0.3),
    weights(random, 'w2', [70, 21], 0.5),
    '%p = MatMul(%x, %w1)',
    '%q = Add(%p, %b1)',
    '%r = Relu(%q)',
    '%y = MatMul(%r, %w2)',
    'output %y',
  ].join('\n');
  const model = await by.api.parseModel(text);
  const quantized = await by.api.quantizeDynamic(model);
  const samples = [1, 5, 16, 67].flatMap((rows) => noise(by.requant, [rows, 48], 16, 2));
  const outputs = await outputsOf(by, quantized, samples);
  const file = await quantized.toOnnx();
  for (const object of [quantized, model]) await object.dispose();
  return [file, ...outputs];
}

/** Feeds of such a network. */
function noise(requant, dims, seed, count = 8) {
  const random = integers(seed);
  const size = dims.reduce((a, b) => a * b, 1);
  return Array.from({ length: count }, () => {
    const values = Float32Array.from({ length: size }, () => random(-2000, 2000) / 1000);
    return { x: new requant.Tensor('float32', values, dims) };
  });
}

function imagesOf({ requant, read }, file, count, dims = [1, 1, 28, 28]) {
  return read(file).then((bytes) =>
    Array.from({ length: count }, (_, at) => {
      const pixels = bytes.subarray(16 + at * 784, 16 + (at + 1) * 784);
      const values = Float32Array.from(pixels, (pixel) => pixel / 255);
      return { image: new requant.Tensor('float32', values, dims) };
    }),
  );
}

const calibration = (by, count = IMAGES) =>
  imagesOf(by, 'demos/data/calibration-images-idx3-ubyte', count);
const testImages = (by, dims) => imagesOf(by, 'demos/data/test-images-idx3-ubyte', IMAGES, dims);

/** The outputs of a session for all feeds; sets `by.threads` to the number of threads that computed them. */
async function outputsOf(by, source, samples) {
  const session = await by.api.createSession(source);
  const outputs = [];
  for (const feeds of samples) {
    const results = await session.run(feeds);
    for (const name of Object.keys(results).sort()) outputs.push(results[name].data);
  }
  const { steps = [] } = (await session.plan()) ?? {};
  by.threads = Math.max(by.threads ?? 1, ...steps.map(({ threads }) => threads));
  await session.release();
  return outputs;
}

/** Quantizes a network; gives its file and its outputs. */
async function quantizing(by, model, config, samples, tests) {
  const quantized = await by.api.quantize(model, { calibration: samples, config });
  const file = await quantized.toOnnx();
  const outputs = await outputsOf(by, quantized, tests);
  await quantized.dispose();
  await model.dispose();
  return [file, ...outputs];
}

/** A job that quantizes the demo's network. */
const demo = (config) => async (by) =>
  quantizing(
    by,
    await by.api.loadModel(await by.read(DEMO)),
    config,
    await calibration(by),
    await testImages(by),
  );

/**
 * A job that gives the file alone, for networks that stay in float in part: the last bits of floats may
 * differ.
 */
const fileOf = (run) => async (by) => (await run(by)).slice(0, 1);

/** A job that quantizes a network from its text. */
const written = (text, dims, config) =>
  fileOf(async (by) => {
    const model = await by.api.parseModel(text());
    const samples = noise(by.requant, dims, 14);
    return quantizing(by, model, config, samples, samples.slice(0, 1));
  });

const bits = (weights, activations, more = {}) => ({
  weights: { bits: weights },
  activations: { bits: activations },
  ...more,
});

/** Trains the demo's network with two and four bits. */
async function training(by) {
  const model = await by.api.loadModel(await by.read(DEMO));
  const samples = await calibration(by);
  const quantized = await by.api.quantize(model, { calibration: samples, config: bits(2, 4) });
  const trained = await by.api.train(quantized, {
    dataset: samples.map((feeds) => ({ feeds })),
    epochs: 2,
    batchSize: 8,
    loss: 'scores',
  });
  const file = await trained.toOnnx();
  for (const object of [trained, quantized, model]) await object.dispose();
  return [file];
}

async function oneBit(by) {
  const model = await by.api.parseModel(oneBitNetwork());
  const outputs = await outputsOf(by, model, await testImages(by, [1, 784]));
  await model.dispose();
  return outputs;
}

const ARRAYS = { float32: Float32Array, int32: Int32Array, int8: Int8Array, uint8: Uint8Array };

/** A job that runs a file of another tool on its own input. */
function foreign(name) {
  return async (by) => {
    const { read, requant } = by;
    const folder = `shared/models/third_party/${name}`;
    const io = JSON.parse(new TextDecoder().decode(await read(`${folder}/io.json`)));
    const feeds = {};
    for (const [at, input] of io.inputs.entries()) {
      const type = (input.dtype ?? input.type ?? 'float32').replace(/^float$/, 'float32');
      const bytes = await read(`${folder}/${input.file ?? `input_${at}.bin`}`);
      feeds[input.name] = new requant.Tensor(
        type,
        new ARRAYS[type](bytes.slice().buffer),
        input.shape ?? input.dims,
      );
    }
    const model = await by.api.loadModel(await read(`${folder}/model.onnx`));
    const outputs = await outputsOf(by, model, [feeds]);
    await model.dispose();
    return outputs;
  };
}

const foreignJob = (title, name) => ({ title, run: foreign(name), shared: true });

const IMAGE = [imageNetwork, [1, 3, 15, 13]];
const SEQUENCE = [sequenceNetwork, [6, 1, 16]];
const LEARNING = ['adaround', 'learned_steps', 'block_reconstruction'];
const OTHERS = [
  'equalize',
  'equalize_relu6',
  'channel_split',
  'equalize_activations',
  'round_weights',
  'refit_scales',
  'bias_correction',
  'float_start',
  'float_sums',
  'float_end',
  'float_answers',
  'empirical_bias',
];
const few = { recoverSamples: 4, recoverSteps: 10 };
const observers = ['minmax', 'moving_average', 'percentile', 'kl', 'mse', 'aciq', 'auto'];

/** Files that quantize() writes, with every observer and every recovery method. */
export const files = [
  ...[
    ...observers.map((observer) => [observer, { activations: { observer }, recover: [] }]),
    ['recovery', { recover: OTHERS }],
    ['learning', bits(4, 4, { recover: LEARNING, ...few })],
  ].flatMap(([title, config]) => [
    { title: `image network, ${title}`, run: written(...IMAGE, config) },
    { title: `sequence network, ${title}`, run: written(...SEQUENCE, config) },
  ]),
  {
    title: 'sequence network, isotone',
    run: written(...SEQUENCE, { activations: { observer: 'isotone' }, recover: [] }),
  },
];

/** All jobs; `shared` ones need models that a clone does not have. */
export const jobs = [
  { title: 'W8A8, quantize() by default', run: demo({}) },
  ...files,
  {
    title: 'W8A8, file with `auto` ranges',
    run: fileOf(demo({ activations: { observer: 'auto' } })),
    slow: true,
  },
  { title: 'W4A4', run: demo(bits(4, 4)) },
  { title: 'W2A2', run: demo(bits(2, 2)) },
  { title: 'W1A1, QONNX', run: oneBit },
  { title: 'W2A4, train()', run: training },
  { title: 'W8A8, quantizeDynamic()', run: byRow },
  foreignJob('ResNet-8, QDQ', 'mlperf_tiny_resnet8_int8_qdq'),
  foreignJob('ResNet-8, QOperator', 'mlperf_tiny_resnet8_int8_qoperator'),
  foreignJob('DS-CNN, QDQ', 'mlperf_tiny_kws_dscnn_int8_qdq'),
  foreignJob('DS-CNN, QOperator', 'mlperf_tiny_kws_dscnn_int8_qoperator'),
  foreignJob('MobileNetV1 0.25, QOperator', 'mobilenet_v1_0.25_128_qat_uint8_qoperator'),
  foreignJob('TFC W1A1, QONNX', 'qonnx_tfc_1w1a_mnist'),
  foreignJob('TFC W2A2, QONNX', 'qonnx_tfc_2w2a_mnist'),
];

async function digestOf(arrays) {
  const size = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const all = new Uint8Array(size);
  let at = 0;
  for (const { buffer, byteOffset, byteLength } of arrays) {
    all.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', all));
  return Array.from(digest.subarray(0, 6), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The functions of the package, or the methods of one of its workers. */
async function apiOf(requant, { worker }) {
  if (worker) {
    const far = await requant.createWorker();
    const api = { end: () => far.terminate() };
    const names = [
      'loadModel',
      'parseModel',
      'quantize',
      'quantizeDynamic',
      'train',
      'createSession',
    ];
    for (const name of names) {
      api[name] = far[name].bind(far);
    }
    return api;
  }
  const { loadModel, parseModel, quantize, quantizeDynamic, train, InferenceSession } = requant;
  return {
    loadModel,
    parseModel,
    quantize,
    quantizeDynamic,
    train,
    createSession: (source) => InferenceSession.create(source),
    end: () => {},
  };
}

/**
 * Runs the jobs in all ways, `slow` ones in the first way only. `read(file)` gives the bytes of a file of the
 * project; `report({ job, way, hash, threads })` is called for each result.
 */
export async function runJobs({ requant, read, report, chosen = jobs }) {
  const { env } = requant;
  for (const way of WAYS) {
    env.wasm.simd = way.simd ?? 'auto';
    env.wasm.numThreads = way.numThreads ?? 1;
    const api = await apiOf(requant, way);
    for (const { title, run, slow } of chosen) {
      if (slow && way !== WAYS[0]) continue;
      const by = { requant, read, api };
      const hash = await digestOf(await run(by));
      await report({ job: title, way: way.name, hash, threads: by.threads ?? 1 });
    }
    await api.end();
  }
  env.wasm.simd = 'auto';
  env.wasm.numThreads = 1;
}

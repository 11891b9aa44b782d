// The parts of networks that subnetworks.mjs measures: where each is cut out. Blocks that no network of ../shared
// has are in networks that this file makes with random weights, as the published networks have them.

import path from 'node:path';
import { FOREIGN, haveShared, modelPath } from '../node/shared_models.mjs';
import { uniform } from './numbers.js';

const missing = haveShared ? undefined : 'the networks beside the project are not there';
const foreign = (name) => path.join(FOREIGN, name, 'model.onnx');

let seeds = 40;
/** A constant of random numbers, as text. */
function constant(name, dims, scale, shift = 0) {
  const length = dims.reduce((a, b) => a * b, 1);
  const numbers = Array.from(uniform(length, ++seeds), (x) => (x * scale + shift).toFixed(5));
  return `const %${name}: float32[${dims.join(', ')}] = {${numbers.join(', ')}}`;
}

/** A convolution with BatchNormalization; `y` is its result. */
function conv(x, y, from, to, size = 1) {
  const pad = size >> 1;
  return [
    constant(`${y}_w`, [to, from, size, size], 1.7 / Math.sqrt(from * size * size)),
    constant(`${y}_scale`, [to], 0.2, 1),
    constant(`${y}_shift`, [to], 0.2),
    constant(`${y}_mean`, [to], 0.2),
    constant(`${y}_var`, [to], 0.2, 1),
    `%${y}_conv = Conv(%${x}, %${y}_w) {kernel_shape = [${size}, ${size}], pads = [${pad}, ${pad}, ${pad}, ${pad}]}`,
    `%${y} = BatchNormalization(%${y}_conv, %${y}_scale, %${y}_shift, %${y}_mean, %${y}_var)`,
  ];
}

const relu = (x, y) => [`%${y} = Relu(%${x})`];
const silu = (x, y) => [`%${y}_gate = Sigmoid(%${x})`, `%${y} = Mul(%${x}, %${y}_gate)`];

const network = (input, lines, output) =>
  ['graph "net" opset 17', `input %image: float32[${input.join(', ')}]`, ...lines, output].join(
    '\n',
  );

/** Blocks of 64 channels between ends of 256, as in the first stage of ResNet-50, of 56 x 56 pixels. */
const bottleneck = () =>
  network(
    [1, 16, 56, 56],
    [
      ...conv('image', 'stem', 16, 256),
      ...relu('stem', 'begin'),
      ...conv('begin', 'narrow', 256, 64),
      ...relu('narrow', 'narrowed'),
      ...conv('narrowed', 'inner', 64, 64, 3),
      ...relu('inner', 'middle'),
      ...conv('middle', 'wide', 64, 256),
      '%sum = Add(%wide, %begin)',
      ...relu('sum', 'end'),
      ...conv('end', 'head', 256, 16),
    ],
    'output %head',
  );

/** The second C2f block of YOLOv8n: 64 channels of 80 x 80 pixels, two inner blocks of 32 channels. */
const c2f = () =>
  network(
    [1, 16, 80, 80],
    [
      ...conv('image', 'stem', 16, 64),
      ...silu('stem', 'begin'),
      ...conv('begin', 'first', 64, 64),
      ...silu('first', 'both'),
      'const %halves: int64[2] = {32, 32}',
      '%kept, %p0 = Split(%both, %halves) {axis = 1}',
      ...[0, 1].flatMap((i) => [
        ...conv(`p${i}`, `a${i}`, 32, 32, 3),
        ...silu(`a${i}`, `b${i}`),
        ...conv(`b${i}`, `c${i}`, 32, 32, 3),
        ...silu(`c${i}`, `d${i}`),
        `%p${i + 1} = Add(%p${i}, %d${i})`,
      ]),
      '%all = Concat(%kept, %p0, %p1, %p2) {axis = 1}',
      ...conv('all', 'last', 128, 64),
      ...silu('last', 'end'),
      ...conv('end', 'head', 64, 16),
    ],
    'output %head',
  );

/** An LSTM of 128 numbers, as in voice activity detectors, over 32 steps. */
const lstm = () =>
  network(
    [32, 1, 64],
    [
      constant('project', [64, 128], 0.2),
      '%begin = MatMul(%image, %project)',
      constant('w', [1, 512, 128], 0.09),
      constant('r', [1, 512, 128], 0.09),
      constant('b', [1, 1024], 0.1),
      '%end = LSTM(%begin, %w, %r, %b) {hidden_size = 128}',
      '%head = Relu(%end)',
    ],
    'output %head',
  );

/**
 * `from` and `to` are the options of `requant extract`, `dims` the open dimensions of the network, and `positive`
 * says that a ReLU computes what goes in.
 */
export const CASES = [
  {
    name: 'conv-bn-relu',
    source: 'ResNet-20',
    file: modelPath('resnet20_cifar10'),
    from: '/Relu_output_0',
    to: '/layer1/layer1.0/Relu_output_0',
    positive: true,
    missing,
  },
  {
    name: 'bottleneck',
    source: 'as in ResNet-50',
    text: bottleneck,
    from: 'begin',
    to: 'end',
    positive: true,
  },
  {
    name: 'inverted residual',
    source: 'MobileNetV2',
    file: modelPath('mobilenet_v2_100_224_dequant'),
    from: 'conv_6',
    to: 'add_1',
    dims: { N: 1 },
    missing,
  },
  {
    name: 'SE block',
    source: 'PP-OCR, classifier',
    file: foreign('ppocr_cls'),
    from: 'hardswish_16.tmp_0',
    to: 'p2o.Mul.51',
    dims: {
      'p2o.DynamicDimension.0': 1,
      'p2o.DynamicDimension.1': 48,
      'p2o.DynamicDimension.2': 192,
    },
    missing,
  },
  { name: 'C2f', source: 'as in YOLOv8n', text: c2f, from: 'begin', to: 'end' },
  {
    name: 'attention block',
    source: 'PP-OCRv4, recognizer',
    file: foreign('ppocrv4_rec'),
    from: 'transpose_43.tmp_0',
    to: 'p2o.Add.241',
    dims: { 'p2o.DynamicDimension.0': 1, 'p2o.DynamicDimension.1': 320 },
    missing,
  },
  {
    name: 'MLP',
    source: 'MLPerf Tiny, autoencoder',
    file: foreign('mlperf_tiny_ad_autoencoder_float'),
    from: 'input',
    to: 'relu_29',
    missing,
  },
  {
    name: 'recurrent cell',
    source: 'LSTM of 128, dynamic 8 bits',
    text: lstm,
    from: 'begin',
    to: 'end',
  },
];

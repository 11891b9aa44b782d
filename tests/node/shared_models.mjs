// The pretrained networks beside a developer's clone (../shared), their preprocessing, and the accuracy that
// their README gives. They may not be published, so a clone alone lacks them.

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { imageSamples, parseCifar10, parseJsonLabels, parsePixels } from 'requant/dataset';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const SHARED = path.resolve(ROOT, '../shared');

/** Whether the networks are available. */
export const haveShared = existsSync(path.join(SHARED, 'models/README.md'));

/** Why a test of them is skipped; never in CI, where they must exist. */
export const skipShared =
  !haveShared && !process.env.CI && 'needs the pretrained networks in ../shared';

const file = (...names) => readFileSync(path.join(SHARED, ...names));

/** The float32 numbers of a file. */
export function floats(...names) {
  const bytes = new Uint8Array(file(...names));
  return new Float32Array(bytes.buffer);
}

export const modelPath = (name) => path.join(SHARED, 'models', name, 'model.onnx');

/** The folder of models that other tools made. */
export const FOREIGN = path.join(SHARED, 'models/third_party');

const ARRAYS = {
  float32: Float32Array,
  int64: BigInt64Array,
  int32: Int32Array,
  uint8: Uint8Array,
  int8: Int8Array,
};

/** One of these models: its file, and its inputs and reference outputs as { name, type, data, dims }. */
export function foreignModel(name) {
  const folder = path.join(FOREIGN, name);
  const io = JSON.parse(readFileSync(path.join(folder, 'io.json'), 'utf8'));
  const read = (kind) => (entry, index) => {
    const type = (entry.dtype ?? entry.type ?? 'float32').replace(/^float$/, 'float32');
    const bytes = readFileSync(path.join(folder, entry.file ?? `${kind}_${index}.bin`));
    const data = new ARRAYS[type](
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
    );
    return { name: entry.name, type, data, dims: entry.shape ?? entry.dims };
  };
  return {
    file: path.join(folder, 'model.onnx'),
    inputs: io.inputs.map(read('input')),
    outputs: io.outputs.map(read('output')),
  };
}

function cifar(name) {
  return parseCifar10(new Uint8Array(file('data/cifar10', `${name}.bin`)));
}

function imagenet(name) {
  const bytes = new Uint8Array(file('data/imagenet', `${name}.bin`));
  const set = parsePixels(bytes, { width: 224, height: 224, channels: 3 });
  return { ...set, labels: parseJsonLabels(String(file('data/imagenet', `${name}.json`))) };
}

const raw = { scale: 1 };
const resnet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
const mobilenet = { scale: 1 / 127.5, mean: 1 };
const vgg = { scale: 1, mean: [123, 117, 104] };

/**
 * `right`: correct answers of the float network, by the README (null: not measured); `decibels`: the least
 * signal to noise ratio of the outputs with 8 bits and defaults.
 */
export const networks = [
  {
    name: 'resnet8_cifar10',
    kind: 'cifar',
    preprocess: raw,
    right: 540,
    quick: true,
    decibels: 34.5,
  },
  { name: 'resnet20_cifar10', kind: 'cifar', preprocess: resnet, right: 551, decibels: 30 },
  { name: 'resnet56_cifar10', kind: 'cifar', preprocess: resnet, right: 563, decibels: 28.5 },
  {
    name: 'mobilenet_v1_025_224',
    kind: 'imagenet',
    preprocess: mobilenet,
    right: 57,
    decibels: 20.5,
  },
  {
    name: 'squeezenet_v1_1_224',
    kind: 'imagenet',
    preprocess: vgg,
    right: 51,
    quick: true,
    decibels: 31,
  },
  {
    name: 'mobilenet_v2_100_224_dequant',
    kind: 'imagenet',
    preprocess: mobilenet,
    right: 83,
    decibels: 20.5,
  },
  {
    name: 'mobilenet_v2_035_224_food101',
    kind: 'imagenet',
    preprocess: mobilenet,
    right: null,
    decibels: 29,
  },
];

/** Calibration and test samples of a network, and its reference logits, row by row. */
export function dataOf({ name, kind, preprocess, right }) {
  const options = { input: 'input', ...preprocess };
  const [calibration, test] =
    kind === 'cifar'
      ? [cifar('calib_512'), cifar('test_600')]
      : [imagenet('calib_64'), imagenet('test_100')];
  const logits = floats('models', name, `logits_test_${test.length}.bin`);
  if (right === null) delete test.labels; // labels of another set of classes
  return {
    calibration: imageSamples(calibration, options),
    test: imageSamples(test, options),
    logits,
    classes: logits.length / test.length,
  };
}

/** Samples of another file of labelled CIFAR-10 images, for a network of that kind. */
export function cifarImages({ preprocess }, name) {
  return imageSamples(cifar(name), { input: 'input', ...preprocess });
}

/** Index of the largest element; the first of equal ones. */
export function argmax(values) {
  let best = 0;
  for (let index = 1; index < values.length; index++)
    if (values[index] > values[best]) best = index;
  return best;
}

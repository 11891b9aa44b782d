import { RequantError, invalidArgument } from './errors.js';
import { Tensor, bytesOf, bytesPerElement, elementCount, tensorFromBytes } from './tensor.js';
import { checkTensor } from './tensor_like.js';
import { unpackTexts } from './texts.js';
import { typeNumbers, typeOfNumber } from './type_numbers.js';

const MOST_RANK = 64;
const WORD = 8;

const padded = (bytes: number) => Math.ceil(bytes / WORD) * WORD;

/**
 * A sequence or an optional value as an input of a model takes it: a uint8 tensor. An optional value is a
 * sequence of no or one tensor; an optional sequence holds what `packSequence` made of the sequence.
 *
 * @param tensors Tensors of any shapes.
 * @example
 * const session = await InferenceSession.create('detector.onnx');
 * const boxes = [new Tensor('float32', new Float32Array(4), [1, 4])];
 * await session.run({ boxes: packSequence(boxes), mask: packSequence([]) });
 */
export function packSequence(tensors: readonly Tensor[]): Tensor<'uint8'> {
  if (!Array.isArray(tensors as unknown))
    throw invalidArgument('tensors must be an array', 'tensors');
  tensors.forEach((tensor, at) => checkTensor(tensor, `tensors[${at}]`));
  const contents = tensors.map(({ data }) => bytesOf(data));
  const size = tensors.reduce(
    (sum, { dims }, item) => sum + WORD * (2 + dims.length) + padded(contents[item]!.length),
    WORD,
  );
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const put = (word: number) => {
    view.setBigInt64(at, BigInt(word), true);
    at += WORD;
  };
  put(tensors.length);
  tensors.forEach(({ type, dims }, item) => {
    put(typeNumbers[type]);
    put(dims.length);
    dims.forEach(put);
    bytes.set(contents[item]!, at);
    at += padded(contents[item]!.length);
  });
  return new Tensor('uint8', bytes, [size]);
}

/**
 * The tensors of a sequence or of an optional value that a model returned. An empty optional value gives [].
 * The item of an optional sequence is a uint8 tensor that `unpackSequence` takes again.
 *
 * @throws RequantError INVALID_ARGUMENT for another tensor.
 */
export function unpackSequence(sequence: Tensor): Tensor[] {
  checkTensor(sequence, 'sequence');
  const bytes = new Uint8Array(bytesOf(sequence.data));
  const view = new DataView(bytes.buffer);
  let at = 0;
  const bad = () => invalidArgument('the tensor holds no sequence', 'sequence');
  const next = (most: number) => {
    if (at + WORD > bytes.length) throw bad();
    const word = Number(view.getBigInt64(at, true));
    if (word < 0 || word > most) throw bad();
    at += WORD;
    return word;
  };
  const tensors: Tensor[] = [];
  for (let left = next(bytes.length); left > 0; left--) {
    const number = next(255);
    // A sequence in an optional value is bytes.
    const type = number >= 64 ? 'uint8' : typeOfNumber(number);
    if (!type) throw new RequantError('UNSUPPORTED', `a tensor of element type ${number}`);
    const dims = Array.from({ length: next(MOST_RANK) }, () => next(Number.MAX_SAFE_INTEGER));
    if (type === 'string') {
      const found = unpackTexts(bytes.subarray(at), elementCount(dims));
      if (!found) throw bad();
      tensors.push(new Tensor(type, found.texts, dims));
      at += padded(found.size);
      continue;
    }
    const size = elementCount(dims) * bytesPerElement(type);
    if (at + padded(size) > bytes.length) throw bad();
    tensors.push(tensorFromBytes(type, bytes.slice(at, at + size), dims));
    at += padded(size);
  }
  return tensors;
}

/**
 * The maps that a model's ZipMap returned, as scikit-learn's classifiers have it: for each row the scores by
 * class label. Labels are strings, or bigints as in an int64 tensor.
 *
 * @throws RequantError INVALID_ARGUMENT for another tensor.
 * @example
 * const classifier = await InferenceSession.create('classifier.onnx');
 * const features = new Tensor('float32', [5.1, 3.5], [1, 2]);
 * const { label, probabilities } = await classifier.run({ features });
 * const [scores] = unpackMaps(probabilities);
 * console.log(label.data[0], [...scores]);
 */
export function unpackMaps(maps: Tensor): Map<string | bigint, number>[] {
  const [keys, values, rest] = unpackSequence(maps);
  const labels = keys && (keys.type === 'string' || keys.type === 'int64') ? keys.data : undefined;
  const fits = labels && keys?.dims.length === 1 && values?.type === 'float32' && !rest;
  if (!fits || values.dims.length !== 2 || values.dims[1] !== labels.length) {
    throw invalidArgument('the tensor holds no maps', 'maps');
  }
  const scores = values.data as Float32Array;
  return Array.from({ length: values.dims[0]! }, (_, row) => {
    const map = new Map<string | bigint, number>();
    (labels as readonly (string | bigint)[]).forEach((label, column) => {
      map.set(label, scores[row * labels.length + column]!);
    });
    return map;
  });
}

/**
 * Reads common data files, by pure functions of bytes for browsers and Node. `requant/dataset/node` opens
 * files and folders on disk.
 *
 * @packageDocumentation
 */

export {
  type InputShape,
  arraySamples,
  castTensor,
  parseRaw,
  rawBytes,
  sampleAt,
  sampleCount,
} from './arrays.js';
export { type AugmentOptions, augmented } from './augment.js';
export { decodeImage } from './browser.js';
export {
  type Image,
  type Layout,
  type Preprocess,
  centerCrop,
  fitImage,
  fromRgba,
  resize,
  toByteTensor,
  toTensor,
} from './image.js';
export {
  type IdxArray,
  type ImageSampleOptions,
  type ImageSet,
  imageAt,
  imageSamples,
  isIdx,
  parseCifar10,
  parseIdx,
  parseJsonLabels,
  parsePixels,
  readIdxImages,
} from './image_sets.js';
export { decompress, isGzip } from './inflate.js';
export { parseNpy, parseNpz, writeNpy } from './npy.js';
export {
  type Dataset,
  type Sample,
  feedsOf,
  makeDataset,
  take,
  withLabels,
  withTargets,
} from './sample.js';
export { parseTensorProto } from './tensor_proto.js';

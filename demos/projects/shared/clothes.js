// Makes an 8-bit network of a float one, and asks both what the same pictures show.

import { InferenceSession, loadModel, quantize } from 'requant';
import { feedsOf, imageAt, imageSamples, readIdxImages, take } from 'requant/dataset';

const CLASSES = 'T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Boot'.split(',');

/**
 * `read(name)` resolves to the bytes of a file, as a Uint8Array. The result has the sizes of both networks in bytes,
 * and for each of 12 pictures the answers of both and the picture: { width, height, data }, a byte for each pixel.
 */
export async function compareOnClothes(read) {
  const [model, images] = await Promise.all([
    loadModel(await read('model.onnx')),
    readIdxImages(await read('images.idx')),
  ]);
  const samples = imageSamples(images, { input: 'image' });
  const quantized = await quantize(model, { calibration: feedsOf(take(samples, 64)) });

  const float = await InferenceSession.create(model);
  const int8 = await InferenceSession.create(quantized);
  const pictures = [];
  for await (const { feeds } of take(samples, 12)) {
    pictures.push({
      float: await answer(float, feeds),
      int8: await answer(int8, feeds),
      image: imageAt(images, pictures.length),
    });
  }
  const result = {
    floatBytes: model.toOnnx().length,
    int8Bytes: quantized.toOnnx().length,
    pictures,
  };
  for (const object of [float, int8, quantized, model]) object.dispose();
  return result;
}

async function answer(session, feeds) {
  const { logits } = await session.run(feeds);
  const scores = [...logits.data];
  return CLASSES[scores.indexOf(Math.max(...scores))];
}

/** One line about the result. */
export function summaryOf({ floatBytes, int8Bytes, pictures }) {
  const same = pictures.filter(({ float, int8 }) => float === int8).length;
  const kB = (bytes) => `${Math.round(bytes / 1000)} kB`;
  return (
    `Float: ${kB(floatBytes)}. 8 bits: ${kB(int8Bytes)}. ` +
    `Both say the same about ${same} of ${pictures.length} pictures.`
  );
}

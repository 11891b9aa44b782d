// The network and the data that come with Requant.

import dataUrl from '../../data/calibration-images-idx3-ubyte?url';
import modelUrl from '../../models/fashion_mnist.onnx?url';
import testUrl from '../../data/test-images-idx3-ubyte?url';
import labelsUrl from '../../data/test-labels-idx1-ubyte?url';
import { openModel } from '../engine/load.js';
import { preparation, problem, samples } from '../state/store.js';
import { StudioError, describe } from '../watch/problems.js';
import { withScaling } from './preparation.js';
import { fromImageSet } from './samples.js';

const CLASSES = 'T-shirt, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Boot'.split(
  ', ',
);

async function fetched(address: string): Promise<Blob> {
  const failed = (why: string) => new StudioError('The sample cannot be loaded.', why);
  const response = await fetch(address).catch((error: Error) => {
    throw failed(`${error.message}`);
  });
  if (!response.ok) throw failed(`the server answered ${response.status}`);
  return response.blob();
}

const bytesOf = async (blob: Blob) => new Uint8Array(await blob.arrayBuffer());

/** Opens the shipped network with its pictures. */
export async function openShipped(): Promise<void> {
  try {
    const [bytes, ...files] = await Promise.all(
      [modelUrl, dataUrl, testUrl, labelsUrl].map(fetched),
    );
    if (!(await openModel({ name: 'fashion_mnist.onnx', bytes: bytes!, external: {} }))) return;
    const { readIdxImages } = await import('requant/dataset');
    const [first, second, labels] = await Promise.all(files.map(bytesOf));
    const calibration = await readIdxImages(first!);
    const test = await readIdxImages(second!, labels!);
    const data = new Uint8Array(calibration.data.length + test.data.length);
    data.set(calibration.data);
    data.set(test.data, calibration.data.length);
    const length = calibration.length + test.length;
    // Pictures for calibration have no known class.
    const known = Array.from({ length }, (_, index) =>
      index < calibration.length ? -1 : test.labels![index - calibration.length]!,
    );
    samples.value = await fromImageSet(
      { ...test, data, length, labels: known },
      `${length} pictures of clothes`,
      {
        calibration: calibration.length,
        classes: CLASSES,
      },
    );
    if (preparation.value) {
      const reason = 'This network was trained on pixels between 0 and 1.';
      preparation.value = { ...withScaling(preparation.value, 'unit'), reason };
    }
  } catch (error) {
    problem.value = describe(error);
  }
}

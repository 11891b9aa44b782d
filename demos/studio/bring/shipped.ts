// Networks with data, one click away: the one that comes with Requant, and those of other packages.

import dataUrl from '../../data/calibration-images-idx3-ubyte?url';
import modelUrl from '../../models/fashion_mnist.onnx?url';
import testUrl from '../../data/test-images-idx3-ubyte?url';
import labelsUrl from '../../data/test-labels-idx1-ubyte?url';
import { found } from 'virtual:samples';
import { openModel } from '../engine/load.js';
import { model, preparation, problem, samples } from '../state/store.js';
import { StudioError, describe } from '../watch/problems.js';
import { withScaling } from './preparation.js';
import type { SampleId } from './sample_list.js';
import { fromImageSet, pictureSamples, readSamples } from './samples.js';

const CLASSES = 'T-shirt, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Boot'.split(
  ', ',
);

const FACES = 48;

async function fetched(address: string): Promise<Blob> {
  const failed = (why: string) => new StudioError('The sample cannot be loaded.', why);
  const response = await fetch(address).catch((error: Error) => {
    throw failed(`${error.message}`);
  });
  if (!response.ok) throw failed(`the server answered ${response.status}`);
  return response.blob();
}

const bytesOf = async (blob: Blob) => new Uint8Array(await blob.arrayBuffer());

/** The scaling that is known, instead of a guess. */
function useScaling(id: string, reason: string): void {
  if (preparation.value) preparation.value = { ...withScaling(preparation.value, id), reason };
}

async function openClothes(): Promise<void> {
  const [bytes, ...files] = await Promise.all([modelUrl, dataUrl, testUrl, labelsUrl].map(fetched));
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
  useScaling('unit', 'This network was trained on pixels between 0 and 1.');
}

/** BlazeFace, and pictures with faces that the studio draws. */
async function openFaces(): Promise<void> {
  const bytes = await fetched(found.faces![0]!);
  if (!(await openModel({ name: 'blazeface.tflite', bytes, external: {} }))) return;
  const { drawnFaces } = await import('./drawn_faces.js');
  samples.value = pictureSamples(
    {
      title: `${FACES} pictures with drawn faces`,
      count: FACES,
      nameOf: (index) => `drawing ${index + 1}`,
      classes: ['face'],
    },
    drawnFaces,
  );
  useScaling('signed', 'This network was trained on pixels between -1 and 1.');
}

/** openWakeWord's network for "hey Jarvis", and what its front ends make of words that a program spoke. */
async function openWake(): Promise<void> {
  const [bytes, data] = await Promise.all(found.wake!.map(fetched));
  if (!(await openModel({ name: 'hey_jarvis.onnx', bytes: bytes!, external: {} }))) return;
  const file = new File([data!], 'hey_jarvis.npz');
  const read = await readSamples([{ path: file.name, file }], model.value!.info);
  samples.value = {
    ...read,
    title: `${read.count} phrases, spoken by Flite`,
    classes: ['other words', 'hey Jarvis'],
  };
}

const openers: Readonly<Record<SampleId, () => Promise<void>>> = {
  clothes: openClothes,
  faces: openFaces,
  wake: openWake,
};

/** Opens one of the sample networks with its data. */
export async function openSample(id: SampleId): Promise<void> {
  try {
    await openers[id]();
  } catch (error) {
    problem.value = describe(error);
  }
}

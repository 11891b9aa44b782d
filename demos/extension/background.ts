// The service worker: names the clothes on pictures. It makes the 8-bit network once and keeps it; browsers end this
// Worker when nothing happens, and start it again with the next message.

import { InferenceSession } from 'requant';
import {
  type Dataset,
  decodeImage,
  feedsOf,
  fitImage,
  imageSamples,
  readIdxImages,
  take,
  toTensor,
} from 'requant/dataset';

/** From the popup: addresses of pictures. */
export interface Question {
  urls: string[];
}

/** To the popup, for each picture: the name and how sure the network is, or why there is none. */
export type Answer = { name: string; share: number } | { error: string };

const CLASSES = 'T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Boot'.split(',');

async function open(): Promise<InferenceSession> {
  const model = new URL('../models/fashion_mnist.onnx', import.meta.url);
  const file = await fetch(new URL('../data/calibration-images-idx3-ubyte', import.meta.url));
  const images = await readIdxImages(new Uint8Array(await file.arrayBuffer()));
  const samples: Dataset = imageSamples(images, { input: 'image' });
  return InferenceSession.create(model, {
    quantize: { calibration: feedsOf(take(samples, 64)) },
    cache: 'clothes in 8 bits',
  });
}

let opening: Promise<InferenceSession> | undefined;

async function classify(url: string): Promise<Answer> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the picture cannot be fetched (${response.status})`);
  const image = fitImage(await decodeImage(await response.blob(), 1), 28, 28);
  const values = toTensor(image, { layout: 'nchw' });
  // The network knows bright clothes on black; most pictures of shops are dark on white.
  const pixels = values.data as Float32Array;
  const corner = (pixels[0]! + pixels[27]! + pixels[756]! + pixels[783]!) / 4;
  if (corner > 0.5) pixels.forEach((value, at) => (pixels[at] = 1 - value));
  opening ??= open();
  const { logits } = await (await opening).run({ image: values });
  const scores = [...(logits!.data as Float32Array)];
  const most = Math.max(...scores);
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return { name: CLASSES[scores.indexOf(most)]!, share: 1 / sum };
}

async function classifyAll({ urls }: Question): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const url of urls) {
    answers.push(await classify(url).catch((error: Error) => ({ error: error.message })));
  }
  return answers;
}

chrome.runtime.onMessage.addListener((question: Question, _sender, reply) => {
  classifyAll(question).then(reply, (error: Error) => reply([{ error: error.message }]));
  return true; // the answer comes later
});

// The tasks that the page offers. Each names a network, says how a picture becomes its input, and shows its answer.

import { Tensor } from 'requant';
import { imageSamples, readIdxImages } from 'requant/dataset';
import { fetchBytes } from '../page.js';
import { FACE_SIDE, facesIn } from './faces.js';

type Feeds = Record<string, Tensor>;
type Outputs = Record<string, Tensor>;

export interface Task {
  /** The bytes of the float network. */
  model: () => Promise<Uint8Array>;
  /** Samples for calibration; without them the page takes pictures of the camera. */
  calibration?: () => Promise<Feeds[]>;
  /** The input of the network. `picture` is the middle square of the camera's picture. */
  feeds: (picture: Picture) => Feeds;
  /** Draws the answer over the picture, and says it in words. */
  show: (outputs: Outputs, context: CanvasRenderingContext2D) => string;
}

/** A picture that can be had at any size, as bytes of red, green, blue and alpha. */
export type Picture = (side: number) => Uint8ClampedArray;

const CLOTHES_SIDE = 28;
const CLOTHES = 'T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Boot'.split(',');

const faces: Task = {
  model: () =>
    fetchBytes(
      new URL('../face.tflite', document.baseURI),
      'It comes from the npm package @mediapipe/face_detection when the demos are built with a network.',
    ),
  feeds(picture) {
    const rgba = picture(FACE_SIDE);
    const values = new Float32Array(FACE_SIDE * FACE_SIDE * 3);
    for (let at = 0; at < values.length; at++) {
      values[at] = rgba[Math.floor(at / 3) * 4 + (at % 3)]! / 127.5 - 1;
    }
    return { input: new Tensor('float32', values, [1, FACE_SIDE, FACE_SIDE, 3]) };
  },
  show({ regressors, classificators }, context) {
    const found = facesIn(regressors!.data as Float32Array, classificators!.data as Float32Array);
    const side = context.canvas.width;
    context.lineWidth = 4;
    context.strokeStyle = '#ffd23f';
    for (const { x, y, width, height } of found) {
      context.strokeRect(x * side, y * side, width * side, height * side);
    }
    if (found.length === 0) return 'no face';
    const sure = found.map(({ score }) => `${Math.round(100 * score)} %`).join(', ');
    return `${found.length} face${found.length > 1 ? 's' : ''} (${sure})`;
  },
};

const clothes: Task = {
  model: () => fetchBytes(new URL('../models/fashion_mnist.onnx', import.meta.url)),
  async calibration() {
    const file = await fetchBytes(
      new URL('../data/calibration-images-idx3-ubyte', import.meta.url),
    );
    const samples = [];
    for await (const { feeds } of imageSamples(await readIdxImages(file), { input: 'image' })) {
      samples.push(feeds);
    }
    return samples;
  },
  feeds(picture) {
    const rgba = picture(CLOTHES_SIDE);
    const greys = Float32Array.from({ length: CLOTHES_SIDE * CLOTHES_SIDE }, (_, at) => {
      const [red, green, blue] = rgba.subarray(4 * at, 4 * at + 3);
      // Brightness by ITU-R BT.601.
      return (0.299 * red! + 0.587 * green! + 0.114 * blue!) / 255;
    });
    // The network knows bright clothes on black: on a wall that is brighter than the middle, all is inverted.
    const mean = (values: Float32Array) =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    const top = mean(greys.subarray(0, 2 * CLOTHES_SIDE));
    const middle = mean(greys.subarray(12 * CLOTHES_SIDE, 16 * CLOTHES_SIDE));
    const values = top > middle ? greys.map((grey) => 1 - grey) : greys;
    return { image: new Tensor('float32', values, [1, 1, CLOTHES_SIDE, CLOTHES_SIDE]) };
  },
  show({ logits }) {
    const scores = [...(logits!.data as Float32Array)];
    const most = Math.max(...scores);
    const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
    return `${CLOTHES[scores.indexOf(most)]} (${Math.round(100 / sum)} %)`;
  },
};

export const tasks: Record<string, Task> = { faces, clothes };

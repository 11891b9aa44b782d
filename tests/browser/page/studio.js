// Quantizes the shipped network in the studio, as a person would, and posts what came out.

import { greyPictures } from './studio_pictures.js';
import {
  answers,
  changeBits,
  drop,
  element,
  frame,
  idle,
  post,
  press,
  saved,
} from './studio_use.js';

async function use() {
  const model = await (await fetch('/demos/models/fashion_mnist.onnx')).blob();
  await element('#bring-title');
  const began = performance.now();
  drop([new File([model], 'clothes.onnx'), ...(await greyPictures(10))]);
  await element('strong', '10 pictures');
  await idle();
  await press('nav.steps button', 'Recipe');
  await press('.recipe', 'Balanced');
  await press('button.primary', 'Quantize');
  await element('.verdict');
  const seconds = (performance.now() - began) / 1000;
  const first = answers();
  await changeBits('block3/expand', '4');
  const second = answers();
  const { size } = await saved('Save QDQ');
  return { first, second, seconds, size, isolated: frame.contentWindow.crossOriginIsolated };
}

use().then(
  (result) => post({ ...result, agent: navigator.userAgent, done: true }),
  (error) => post({ error: `${error}\n${error.stack}` }),
);

// A new user of the studio with a network that the studio never saw: ../shared's MobileNetV2 and photos. Posts every
// step with its time, the answers, and the file that the user takes away.

import { colourPictures } from './studio_pictures.js';
import {
  answers,
  changeBits,
  drop,
  element,
  frame,
  idle,
  inside,
  post,
  press,
  saved,
} from './studio_use.js';

const MODEL = '/shared/models/mobilenet_v2_100_224_dequant/model.onnx';
const PHOTOS = '/shared/data/imagenet/calib_64.bin';
const SIDE = 224;

const steps = [];
let last;

/** Notes how long a step took. */
function done(step) {
  const now = performance.now();
  steps.push({ step, seconds: Math.round((now - last) / 10) / 100 });
  last = now;
}

const text = (selector) => inside().querySelector(selector)?.textContent ?? '';

/** Drops the network with photos, and takes the balanced recipe; gives the seconds to the comparison. */
async function quantize(model, photos) {
  last = performance.now();
  const began = last;
  drop([new File([model], 'network.onnx'), ...photos]);
  await element('strong', `${photos.length} pictures`);
  await idle();
  done(`drops the network and ${photos.length} pictures`);
  const scaling = inside().querySelector('.fields select').value;
  await press('nav.steps button', 'Recipe');
  await press('.recipe', 'Balanced');
  await press('button.primary', 'Quantize');
  await element('.verdict');
  done('takes the balanced recipe and sees the comparison');
  return { seconds: (performance.now() - began) / 1000, scaling };
}

const base64 = (blob) =>
  new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.readAsDataURL(blob);
  });

async function use() {
  const model = await (await fetch(MODEL)).blob();
  const photos = await colourPictures(PHOTOS, SIDE, 64);
  await element('#bring-title');
  const { scaling } = await quantize(model, photos.slice(0, 10));
  const verdict = text('.verdict p');
  const first = answers();
  await changeBits('conv_30', '4');
  done('changes the bits of one layer');
  const second = answers();
  const note = text('.needs');
  const file = await base64(await saved('Save QOperator'));
  done('downloads the file');
  const { seconds } = await quantize(model, photos);
  const many = text('.verdict p');
  const isolated = frame.contentWindow.crossOriginIsolated;
  return { scaling, verdict, first, second, note, file, seconds, many, steps, isolated };
}

use().then(
  (result) => post({ ...result, agent: navigator.userAgent, done: true }),
  (error) => post({ error: `${error}\n${error.stack}` }),
);

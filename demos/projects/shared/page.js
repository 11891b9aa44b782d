// The page: compares both networks and shows the result.

import { compareOnClothes, summaryOf } from './clothes.js';

const status = document.querySelector('#status');
const list = document.querySelector('#pictures');

async function read(name) {
  const response = await fetch(new URL(name, document.baseURI));
  if (!response.ok) throw new Error(`${name} cannot be loaded: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

function draw({ width, height, data }) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  canvas.ariaHidden = 'true';
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(width, height);
  data.forEach((grey, at) => pixels.data.set([grey, grey, grey, 255], at * 4));
  context.putImageData(pixels, 0, 0);
  return canvas;
}

try {
  const result = await compareOnClothes(read);
  for (const { float, int8, image } of result.pictures) {
    const item = document.createElement('li');
    item.append(draw(image), float === int8 ? float : `${float} / ${int8}`);
    list.append(item);
  }
  status.textContent = summaryOf(result);
} catch (error) {
  status.textContent = [error.message, error.hint].filter(Boolean).join('. ');
}

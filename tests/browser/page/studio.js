// Uses the studio in a frame, as a person would, and posts what came out.

import { greyPictures } from './studio_pictures.js';

const post = (result) =>
  fetch('/', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(result),
  });

const frame = document.querySelector('iframe');
const inside = () => frame.contentDocument;

const LONGEST = 200_000;

/** Waits until `get()` gives something. */
async function until(what, get) {
  const end = performance.now() + LONGEST;
  while (performance.now() < end) {
    const problem = inside()?.querySelector('.problem');
    if (problem) throw new Error(`while waiting for ${what}: ${problem.textContent}`);
    const found = get();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const work = inside()?.querySelector('.job')?.textContent ?? 'no work';
  throw new Error(`${what} did not come: ${work}, ${inside()?.querySelector('main')?.textContent}`);
}

const element = (selector, text = '') =>
  until(`${selector} ${text}`, () =>
    [...(inside()?.querySelectorAll(selector) ?? [])].find((one) => one.textContent.includes(text)),
  );

const press = async (selector, text) => (await element(selector, text)).click();

/** Drops files on the page in the frame. */
function drop(files) {
  const { DataTransfer, DragEvent } = frame.contentWindow;
  const dataTransfer = new DataTransfer();
  for (const file of files) dataTransfer.items.add(file);
  const options = { dataTransfer, bubbles: true, cancelable: true };
  inside().body.dispatchEvent(new DragEvent('drop', options));
}

/** The first classes of both networks, by the names of pictures. */
const answers = () =>
  Object.fromEntries(
    [...inside().querySelectorAll('.answer')].map((answer) => [
      answer.querySelector('.answer-name strong').textContent,
      [...answer.querySelectorAll('.scores li:first-child')].map(({ textContent }) => textContent),
    ]),
  );

const idle = () => until('the end of the work', () => !inside().querySelector('.job'));

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
  await press('nav.steps button', 'Graph');
  const search = await element('.graph-search input');
  search.value = 'block3/expand';
  search.dispatchEvent(new Event('input', { bubbles: true }));
  await press('.found button');
  await press('.width', '4');
  await press('.node-panel button.primary', 'Quantize');
  await element('.verdict');
  const second = answers();
  await press('nav.steps button', 'Take');
  // The download itself would ask a person where to put the file.
  const { URL: Urls, HTMLAnchorElement: Anchor } = frame.contentWindow;
  const saved = new Promise((resolve) => {
    const make = Urls.createObjectURL.bind(Urls);
    Urls.createObjectURL = (blob) => {
      resolve(blob);
      return make(blob);
    };
  });
  Anchor.prototype.click = () => {};
  await press('button', 'Save QDQ');
  const { size } = await saved;
  return { first, second, seconds, size, isolated: frame.contentWindow.crossOriginIsolated };
}

use().then(
  (result) => post({ ...result, agent: navigator.userAgent, done: true }),
  (error) => post({ error: `${error}\n${error.stack}` }),
);

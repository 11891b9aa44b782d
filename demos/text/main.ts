// The page: takes a picture, shows it with the lines that the Worker finds, and their text.

import { element, fail, say } from '../page.js';
import type { News, Order } from './worker.js';

/** The longest side of the picture on the page. */
const SHOWN = 1600;

const drop = element('drop');
const file = element<HTMLInputElement>('file');
const view = element<HTMLCanvasElement>('view');
const context = view.getContext('2d')!;

let worker: Worker | undefined;
let lines = 0;
let scale = 1;

function hear(news: News): void {
  if ('error' in news) return fail(news.error);
  if ('progress' in news) return say(news.progress);
  if ('done' in news) {
    const seconds = (news.done.ms / 1000).toFixed(1);
    return say(
      lines === 0
        ? 'There is no text that the networks can read.'
        : `Read ${lines} lines in ${seconds} s.`,
    );
  }
  const { x, y, width, height, text, share } = news.line;
  lines++;
  say(`Reading: ${lines} lines ...`);
  context.lineWidth = 3;
  context.strokeStyle = '#2f5fd0';
  context.strokeRect(x * scale, y * scale, width * scale, height * scale);
  const item = document.createElement('li');
  item.textContent = text;
  item.title = `${Math.round(100 * share)} % sure`;
  element('lines').append(item);
}

async function take(blob: Blob | undefined): Promise<void> {
  if (!blob) return;
  say('Opening the photo ...');
  const bitmap = await createImageBitmap(blob).catch(() => {
    throw new Error('This file is no picture that the browser knows.');
  });
  // A new Worker, since the old one may still read the picture before.
  if (worker && element('lines').ariaBusy === 'true') {
    worker.terminate();
    worker = undefined;
  }
  if (!worker) {
    worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    worker.addEventListener('message', ({ data }: MessageEvent<News>) => {
      hear(data);
      if ('done' in data || 'error' in data) element('lines').ariaBusy = 'false';
    });
    worker.addEventListener('error', (event) => fail(event.message || 'The Worker did not start.'));
  }
  lines = 0;
  scale = Math.min(1, SHOWN / Math.max(bitmap.width, bitmap.height));
  view.width = bitmap.width * scale;
  view.height = bitmap.height * scale;
  context.drawImage(bitmap, 0, 0, view.width, view.height);
  element('lines').replaceChildren();
  element('lines').ariaBusy = 'true';
  element('result').hidden = false;
  const order: Order = { bitmap, folder: new URL('../', document.baseURI).href };
  worker.postMessage(order, [bitmap]);
}

const takeOr = (blob: Blob | undefined) => void take(blob).catch(fail);

file.addEventListener('change', () => takeOr(file.files?.[0]));
drop.addEventListener('dragover', (event) => {
  event.preventDefault();
  drop.classList.add('over');
});
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  takeOr(event.dataTransfer?.files[0]);
});
addEventListener('paste', (event) => takeOr(event.clipboardData?.files[0]));

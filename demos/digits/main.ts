// The page: collects drawings, lets the Worker train on them, and shows what both networks say while one draws.

import { bytesText, element, fail, isOn, say, showBars, softmax, turn } from '../page.js';
import { exampleOf } from './examples.js';
import type { Drawing } from './learn.js';
import { Pad } from './pad.js';
import type { News, Order } from './worker.js';

const LEAST = 4;

const drawings: Drawing[] = [];
const progress = element<HTMLProgressElement>('progress');
const train = element('train');
const pad = new Pad(element<HTMLCanvasElement>('pad'), ask);

let worker = startWorker();
const tell = (order: Order) => worker.postMessage(order);

function startWorker(): Worker {
  const started = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  started.addEventListener('message', ({ data }: MessageEvent<News>) => hear(data));
  started.addEventListener('error', (event) => fail(event.message || 'The Worker did not start.'));
  return started;
}

function hear(news: News): void {
  if ('progress' in news) {
    say(`${news.progress} ...`);
    progress.value = news.share;
    return;
  }
  if ('scores' in news) {
    const digits = (scores: number[]) =>
      softmax(scores).map((share, digit) => ({ name: String(digit), share }));
    showBars(element('float'), digits(news.scores.float));
    showBars(element('one'), digits(news.scores.oneBit));
    return;
  }
  progress.hidden = true;
  train.textContent = 'Train';
  if ('error' in news) {
    fail(news.error);
    return;
  }
  const { floatBytes, oneBitBytes } = news.ready;
  say('Trained. Draw a digit, and see what the networks say.');
  element('result').hidden = false;
  element('sizes').textContent =
    `The weights take ${bytesText(floatBytes)} in float and ${bytesText(oneBitBytes)} in one bit.`;
  ask();
}

/** Asks both networks about the drawing. */
function ask(): void {
  if (!pad.empty && !element('result').hidden) tell({ pixels: pad.pixels() });
}

function showCounts(): void {
  const labels = [...element('labels').children] as HTMLElement[];
  labels.forEach((button, digit) => {
    const count = drawings.filter(({ label }) => label === digit).length;
    button.textContent = count > 0 ? `${digit} (${count})` : String(digit);
  });
  const kinds = new Set(drawings.map(({ label }) => label)).size;
  turn(train, drawings.length >= LEAST && kinds >= 2);
}

for (let digit = 0; digit < 10; digit++) {
  const button = document.createElement('button');
  button.type = 'button';
  button.addEventListener('click', () => {
    if (pad.empty) return say('Draw something first, then press its number.');
    drawings.push({ pixels: pad.pixels(), label: digit });
    pad.clear();
    showCounts();
    say(`Learned by heart: ${drawings.length} drawings. Go on drawing, or train.`);
  });
  element('labels').append(button);
}

element('clear').addEventListener('click', () => pad.clear());

element('example').addEventListener('click', () => {
  for (let index = 0; index < 30; index++) drawings.push(exampleOf(index % 10));
  showCounts();
  say('Added three drawings of each digit. Draw more, or train.');
});

element('forget').addEventListener('click', () => {
  drawings.length = 0;
  worker.terminate();
  worker = startWorker();
  progress.hidden = true;
  train.textContent = 'Train';
  element('result').hidden = true;
  showCounts();
  say('All drawings and networks are gone.');
});

train.addEventListener('click', () => {
  if (!progress.hidden) {
    // A Worker that computes hears nothing, so that the way to stop it is to end it.
    worker.terminate();
    worker = startWorker();
    progress.hidden = true;
    train.textContent = 'Train';
    element('result').hidden = true;
    return say('Stopped.');
  }
  if (!isOn(train)) return say('Draw at least two different digits, four drawings in all.');
  progress.hidden = false;
  progress.value = 0;
  train.textContent = 'Stop';
  say('Starting ...');
  tell({ drawings });
});

showCounts();

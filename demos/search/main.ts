// The page: sends texts and questions to the Worker, and shows what it finds.

import { element, fail, say } from '../page.js';
import type { News, Order } from './worker.js';

const texts = element<HTMLTextAreaElement>('texts');
const question = element<HTMLInputElement>('question');
const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const tell = (order: Order) => worker.postMessage(order);

/** The texts that the Worker has read, or is reading. */
let read: string | undefined;

function search(): void {
  const lines = texts.value
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  if (lines.length === 0) return say('Write some texts to search in, one a line.');
  if (!question.value.trim()) return say('Write what you are looking for.');
  if (read !== texts.value) {
    read = texts.value;
    say('Fetching the model ...');
    tell({ texts: lines });
  }
  tell({ question: question.value });
}

function show(found: { text: string; score: number }[]): void {
  element('found').replaceChildren(
    ...found.slice(0, 5).map(({ text, score }) => {
      const item = document.createElement('li');
      const likeness = document.createElement('span');
      likeness.className = 'hint';
      likeness.textContent = ` likeness ${score.toFixed(2)}`;
      item.append(text, likeness);
      return item;
    }),
  );
  element('result').hidden = false;
}

worker.addEventListener('message', ({ data: news }: MessageEvent<News>) => {
  if ('error' in news) {
    read = undefined;
    fail(news.error);
  } else if ('found' in news) {
    say(`Found in ${news.ms.toFixed(0)} ms, on this device.`);
    show(news.found);
  } else if ('ready' in news)
    say(`Read ${news.ready.count} texts in ${news.ready.ms.toFixed(0)} ms.`);
  else say(news.progress);
});
worker.addEventListener('error', (event) => fail(event.message || 'The Worker did not start.'));

element('form').addEventListener('submit', (event) => {
  event.preventDefault();
  search();
});

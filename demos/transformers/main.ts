// The page: a pipeline of transformers.js whose networks run on Requant. The first import puts Requant where
// transformers.js looks for a runtime.

import 'requant/transformers';
import { element, fail, say, showBars } from '../page.js';

const MODEL = 'Xenova/distilbert-base-uncased-finetuned-sst-2-english';

async function load() {
  const { pipeline } = await import('@huggingface/transformers').catch(() => {
    throw new Error('transformers.js cannot be fetched from its CDN. Is there a network?');
  });
  return pipeline('text-classification', MODEL, {
    device: 'auto',
    dtype: 'q8',
    progress_callback: ({ status, file, progress }) => {
      if (status === 'progress') say(`Fetching ${file}: ${Math.round(progress ?? 0)} %`);
    },
  });
}

let loading: ReturnType<typeof load> | undefined;

async function classify(): Promise<void> {
  const text = element<HTMLTextAreaElement>('text').value.trim();
  if (!text) return say('Write a text first.');
  say('Fetching the model ...');
  loading ??= load();
  const run = await loading;
  const began = performance.now();
  const found = await run(text, { top_k: 2 });
  say(`Answered in ${(performance.now() - began).toFixed(0)} ms, on this device.`);
  const bars = found.map(({ label, score }) => ({ name: label.toLowerCase(), share: score }));
  showBars(element('answer'), bars);
}

element('form').addEventListener('submit', (event) => {
  event.preventDefault();
  classify().catch((error: unknown) => {
    loading = undefined;
    fail(error);
  });
});

// The page: connects the microphone with an AudioWorklet, and that with a Worker, and shows what the networks hear.

import { element, fail, say } from '../page.js';
import type { News, Order } from './worker.js';

const button = element('start');
const PIECE_MS = 80;
/** The share from which on a network is sure. */
const SURE = 0.5;
/** How long the page shows that it heard the wake word, in milliseconds. */
const SHOWN = 2000;

let stopAll: (() => void) | undefined;
let words = 0;
let wokenAt = -Infinity;

async function openMicrophone(): Promise<MediaStream> {
  if (!navigator.mediaDevices) {
    throw new Error(
      'This page may not use a microphone: it must come over https, or from localhost.',
    );
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  } catch (error) {
    const reasons: Record<string, string> = {
      NotAllowedError:
        'The browser may not use the microphone. Allow it beside the address, and start again.',
      NotFoundError: 'There is no microphone. Connect one, and start again.',
    };
    const { name, message } = error as Error;
    throw new Error(reasons[name] ?? `The microphone does not start: ${message}`);
  }
}

function hear(news: News): void {
  if ('error' in news) {
    stopAll?.();
    return fail(news.error);
  }
  if ('ready' in news) return say('Listening. Say "Hey Jarvis".');
  const { speech, word, ms } = news;
  const show = (name: string, share: number) => {
    element(`${name}-bar`).style.setProperty('--share', share.toFixed(2));
    element(name).classList.toggle('best', share >= SURE);
  };
  show('speech', speech);
  show('word', word);
  element('time').textContent = `${ms.toFixed(1)} ms for ${PIECE_MS} ms of sound`;
  const now = performance.now();
  if (word >= SURE && now - wokenAt > SHOWN) {
    wokenAt = now;
    words++;
    element('count').textContent = String(words);
    say('Heard "Hey Jarvis".');
  } else if (now - wokenAt > SHOWN) say(speech >= SURE ? 'Someone speaks.' : 'It is quiet.');
}

async function start(): Promise<void> {
  say('Waiting for the microphone ...');
  const stream = await openMicrophone();
  const context = new AudioContext();
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  stopAll = () => {
    stopAll = undefined;
    for (const track of stream.getTracks()) track.stop();
    void context.close();
    worker.terminate();
    button.textContent = 'Start the microphone';
  };
  button.textContent = 'Stop';
  say('Loading the networks ...');
  worker.addEventListener('message', ({ data }: MessageEvent<News>) => hear(data));
  worker.addEventListener('error', (event) =>
    hear({ error: event.message || 'The Worker did not start.' }),
  );
  await context.audioWorklet.addModule(new URL('./capture.js', import.meta.url));
  const { port1, port2 } = new MessageChannel();
  const capture = new AudioWorkletNode(context, 'capture', { numberOfOutputs: 0 });
  capture.port.postMessage(port1, [port1]);
  const order: Order = { port: port2, folder: new URL('../', document.baseURI).href };
  worker.postMessage(order, [port2]);
  context.createMediaStreamSource(stream).connect(capture);
}

button.addEventListener('click', () => {
  if (stopAll) {
    stopAll();
    return say('Stopped.');
  }
  start().catch((error: unknown) => {
    stopAll?.();
    fail(error);
  });
});

// The Worker: both listeners hear what the AudioWorklet sends.

import { fetchBytes } from '../page.js';
import { SpeechListener, WakeWordListener } from './listen.js';

/** From the page: the port from which the sound comes, and where the networks are. */
export interface Order {
  port: MessagePort;
  folder: string;
}

/** To the page: shares from 0 to 1, and how long both networks took for 80 ms of sound. */
export type News =
  { ready: true } | { speech: number; word: number; ms: number } | { error: string };

const tell = (news: News) => postMessage(news);

async function listen({ port, folder }: Order): Promise<void> {
  const get = (name: string) =>
    fetchBytes(
      new URL(name, folder),
      'It comes from an npm package when the demos are built with a network.',
    );
  const [speech, word] = await Promise.all([
    get('speech.onnx').then((bytes) => SpeechListener.create(bytes)),
    Promise.all(['melspectrogram.onnx', 'speech_embedding.onnx', 'hey_jarvis.onnx'].map(get)).then(
      ([spectrogram, embedding, word]) =>
        WakeWordListener.create({ spectrogram: spectrogram!, embedding: embedding!, word: word! }),
    ),
  ]);
  // Pieces are heard one after another, also where one takes longer than usual.
  let last: Promise<void> = Promise.resolve();
  port.addEventListener('message', ({ data }: MessageEvent<Float32Array>) => {
    last = last
      .then(async () => {
        const began = performance.now();
        const shares = { speech: await speech.hear(data), word: await word.hear(data) };
        tell({ ...shares, ms: performance.now() - began });
      })
      .catch((error: Error) => tell({ error: error.message }));
  });
  port.start();
  tell({ ready: true });
}

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  listen(data).catch((error: Error) => tell({ error: error.message }));
});

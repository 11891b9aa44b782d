// Pictures on the page's side: they are prepared in a Worker, and kept while they fit into memory.

import type { Image } from 'requant/dataset';
import { StudioError } from '../watch/problems.js';
import type { PictureRequest } from './picture_worker.js';
import type { Preparation } from './preparation.js';
import type { Prepared } from './prepare.js';

type Picture = Blob | Image;

interface Waiting {
  resolve(prepared: Prepared): void;
  reject(error: Error): void;
  name: string;
}

/** Bytes of prepared pictures that are kept. */
const MOST_KEPT = 256e6;

let worker: Worker | undefined;
let last = 0;
const waiting = new Map<number, Waiting>();

function start(): Worker {
  const made = new Worker(new URL('./picture_worker.ts', import.meta.url), { type: 'module' });
  made.onmessage = ({ data }: MessageEvent<{ id: number; prepared: Prepared; error?: string }>) => {
    const { resolve, reject, name } = waiting.get(data.id)!;
    waiting.delete(data.id);
    if (data.error === undefined) resolve(data.prepared);
    else {
      const hint = 'Remove the file, or save it as PNG or JPEG';
      reject(new StudioError('A picture cannot be read.', `${name}: ${data.error}`, hint));
    }
  };
  made.onerror = ({ message }) => {
    for (const { reject } of waiting.values()) reject(new Error(message));
    waiting.clear();
    worker = undefined;
  };
  return made;
}

/** The picture as the network's input. */
export function preparePicture(
  picture: Picture,
  settings: Preparation,
  name: string,
): Promise<Prepared> {
  worker ??= start();
  const request: PictureRequest = { id: ++last, picture, settings };
  return new Promise((resolve, reject) => {
    waiting.set(request.id, { resolve, reject, name });
    worker!.postMessage(request);
  });
}

/** Prepares the pictures of a set, and keeps what it prepared last. */
export class Preparer {
  #settings = '';
  #kept = new Map<number, Promise<Prepared>>();
  #bytes = 0;

  constructor(
    private readonly get: (index: number) => Picture,
    private readonly nameOf: (index: number) => string,
  ) {}

  prepared(index: number, settings: Preparation): Promise<Prepared> {
    const now = JSON.stringify({ ...settings, reason: '' });
    if (now !== this.#settings) {
      this.#settings = now;
      this.#kept.clear();
      this.#bytes = 0;
    }
    const kept = this.#kept.get(index);
    if (kept) return kept;
    const made = preparePicture(this.get(index), settings, this.nameOf(index));
    const bytes = settings.width * settings.height * settings.channels * 4;
    if (this.#bytes + bytes < MOST_KEPT) {
      this.#bytes += bytes;
      this.#kept.set(index, made);
    }
    return made;
  }
}

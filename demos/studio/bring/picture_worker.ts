// Decodes and scales pictures, so that the page does not wait for large ones.

import type { Image } from 'requant/dataset';
import type { Preparation } from './preparation.js';
import { decode, prepare } from './prepare.js';

/** A picture, and what to do with it. */
export interface PictureRequest {
  id: number;
  picture: Blob | Image;
  settings: Preparation;
}

/** More pixels along the shorter side than this factor times the network's are of no use. */
const ENOUGH = 4;

const scope = globalThis as unknown as {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: (event: MessageEvent<PictureRequest>) => void;
};

async function answer({ id, picture, settings }: PictureRequest): Promise<void> {
  try {
    const most = ENOUGH * Math.max(settings.width, settings.height);
    const image = picture instanceof Blob ? await decode(picture, most) : picture;
    const prepared = prepare(image, settings);
    const { data, shown, original } = prepared;
    scope.postMessage({ id, prepared }, [
      data.buffer,
      ...new Set([shown.data.buffer, original.data.buffer]),
    ]);
  } catch (error) {
    scope.postMessage({ id, error: (error as Error).message }, []);
  }
}

scope.onmessage = ({ data }) => void answer(data);

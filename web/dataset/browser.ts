// Lets the browser decode pictures. For pages and Workers; node.ts serves Node.

import { RequantError } from '../base/errors.js';
import { type Image, fromRgba } from './image.js';

/** Decodes PNG, JPEG and every other format that the browser supports. */
export async function decodeImage(blob: Blob, channels: 1 | 3 = 3): Promise<Image> {
  if (typeof createImageBitmap !== 'function') {
    throw new RequantError('UNSUPPORTED', 'there is no createImageBitmap here');
  }
  let bitmap: ImageBitmap;
  try {
    // Colors and alpha stay as in the file, since networks are trained on decoded files.
    bitmap = await createImageBitmap(blob, {
      colorSpaceConversion: 'none',
      premultiplyAlpha: 'none',
    });
  } catch (error) {
    throw new RequantError('INVALID_ARGUMENT', 'the picture cannot be decoded', { cause: error });
  }
  try {
    const { width, height } = bitmap;
    const context = new OffscreenCanvas(width, height).getContext('2d');
    if (!context) throw new RequantError('UNSUPPORTED', 'there is no 2D canvas here');
    context.drawImage(bitmap, 0, 0);
    return fromRgba(context.getImageData(0, 0, width, height).data, width, height, channels);
  } finally {
    bitmap.close();
  }
}

// Pictures on disk, and the size that a network wants of them. Node only.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { RequantError, invalidArgument } from '../base/errors.js';
import type { InputShape } from './arrays.js';
import { type Image, type Layout, fromRgba } from './image.js';
import { read } from './node_files.js';

export function onlyInput(inputs: readonly InputShape[], what: string): InputShape {
  if (inputs.length !== 1) {
    throw invalidArgument(
      `${what} can feed one input, but the model has ${inputs.length}`,
      'data',
      'Use .npz files or ONNX test_data_set folders.',
    );
  }
  return inputs[0]!;
}

/** Size and layout of pictures for an input. */
export function pictureShape(input: InputShape, layout?: Layout) {
  const { dims } = input;
  if (dims.length !== 4) {
    throw invalidArgument(`input "${input.name}" does not take pictures`, input.name);
  }
  const isChannels = (dim: unknown) => dim === 1 || dim === 3 || dim === 4;
  const order: Layout = layout ?? (isChannels(dims[3]) && !isChannels(dims[1]) ? 'nhwc' : 'nchw');
  const [channels, height, width] =
    order === 'nchw' ? [dims[1], dims[2], dims[3]] : [dims[3], dims[1], dims[2]];
  const fixed = (dim: unknown) => (typeof dim === 'number' && dim > 0 ? dim : undefined);
  return { layout: order, channels: fixed(channels), height: fixed(height), width: fixed(width) };
}

interface Decoders {
  'image/png': (bytes: Uint8Array) => { width: number; height: number; data: Uint8Array };
  'image/jpeg': Decoders['image/png'];
}

/** Imports a decoder, a package of the user: looks beside the user's own modules, then beside this one. */
async function importOptional(name: string): Promise<Record<string, unknown>> {
  const places = [path.join(process.cwd(), 'index.js'), import.meta.url];
  for (const place of places) {
    let file: string;
    try {
      file = createRequire(place).resolve(name);
    } catch {
      continue;
    }
    const module = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
    return { ...(module['default'] as object | undefined), ...module };
  }
  throw new RequantError('UNSUPPORTED', `these pictures need the package "${name}"`, {
    value: name,
    hint: `Install it: npm install ${name}.`,
  });
}

async function decoderFor(type: keyof Decoders): Promise<Decoders['image/png']> {
  if (type === 'image/png') {
    const { PNG } = (await importOptional('pngjs')) as {
      PNG: { sync: { read(bytes: Buffer): ReturnType<Decoders['image/png']> } };
    };
    return (bytes) => PNG.sync.read(Buffer.from(bytes));
  }
  const { decode } = (await importOptional('jpeg-js')) as {
    decode(bytes: Uint8Array, options: object): ReturnType<Decoders['image/png']>;
  };
  return (bytes) => decode(bytes, { useTArray: true });
}

/** Decodes a PNG or JPEG file with the optional packages pngjs and jpeg-js. */
export async function readImage(file: string, channels: 1 | 3 = 3): Promise<Image> {
  const bytes = await read(file);
  const type = bytes[0] === 0x89 && bytes[1] === 0x50 ? 'image/png' : 'image/jpeg';
  const decode = await decoderFor(type);
  try {
    const { width, height, data } = decode(bytes);
    return fromRgba(data, width, height, channels);
  } catch (error) {
    throw new RequantError(
      'INVALID_ARGUMENT',
      `cannot decode ${file}: ${(error as Error).message}`,
      {
        value: file,
        cause: error,
      },
    );
  }
}

export const isPicture = (name: string) => /\.(png|jpe?g)$/i.test(name);

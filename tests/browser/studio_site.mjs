// The built studio on a server, and files that a user could drop.

import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { deflateSync } from 'node:zlib';
import { build, preview } from 'vite';
import { parseModel } from '../../dist/index.js';
import { studioConfig } from '../../web/scripts/studio.mjs';
import { BUILD, ROOT } from './browser.mjs';

/** The built studio of this process: a build empties its folder first, under a server of another process. */
export const SITE = path.join(BUILD, `studio_tests/${process.pid}`);

let built;

/** Builds the studio into the folder SITE, once for a process, which removes it at its end. */
export function buildStudio() {
  if (!built) {
    built = build({ ...studioConfig(SITE), logLevel: 'error' });
    process.on('exit', () => rmSync(SITE, { recursive: true, force: true }));
  }
  return built;
}

/** Builds and serves the studio, with the headers of cross-origin isolation or without any. */
export async function serveStudio({ isolated = true } = {}) {
  await buildStudio();
  const config = studioConfig(SITE);
  const server = await preview({
    ...config,
    logLevel: 'error',
    server: {},
    preview: { headers: isolated ? config.preview.headers : {}, host: '127.0.0.1', port: 0 },
  });
  return {
    url: `http://127.0.0.1:${server.httpServer.address().port}/`,
    close: () => server.close(),
  };
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** A PNG file (www.w3.org/TR/png-3) of grey pixels. */
export function greyPng(pixels, width, height) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    crc.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, crc]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    lines.set(pixels.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  }
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(lines)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

const IMAGES = readFileSync(path.join(ROOT, 'demos/data/test-images-idx3-ubyte')).subarray(16);

/** The pixels of a test image, 28 x 28. */
export const pixelsOf = (index) => IMAGES.subarray(index * 784, (index + 1) * 784);

/** The shipped network under another name, and ten pictures as PNG. */
export function droppedFiles(count = 10) {
  return [
    {
      name: 'clothes.onnx',
      mimeType: 'application/octet-stream',
      buffer: readFileSync(path.join(ROOT, 'demos/models/fashion_mnist.onnx')),
    },
    ...Array.from({ length: count }, (_, index) => ({
      name: `picture ${String(index).padStart(2, '0')}.png`,
      mimeType: 'image/png',
      buffer: greyPng(pixelsOf(index), 28, 28),
    })),
  ];
}

/** A network of `count` operators: pairs of branches that are added, one after another. */
export async function longModel(count) {
  const lines = ['graph "long" opset 17', 'input %x: float32[1, 8]'];
  let last = 'x';
  for (let at = 0; at * 3 < count; at++) {
    lines.push(
      `%a${at} = Relu(%${last})`,
      `%b${at} = Sigmoid(%${last})`,
      `%s${at} = Add(%a${at}, %b${at})`,
    );
    last = `s${at}`;
  }
  lines.push(`output %${last}`);
  const model = await parseModel(lines.join('\n'));
  const bytes = Buffer.from(model.toOnnx());
  model.dispose();
  return bytes;
}

/** A field of a protobuf message: bytes, text, or a number. */
function field(number, value) {
  const varint = (rest) => {
    const bytes = [];
    for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
    return Buffer.from([...bytes, rest]);
  };
  if (typeof value === 'number') return Buffer.concat([varint(number * 8), varint(value)]);
  const bytes = Buffer.from(value);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

const message = (...fields) => Buffer.concat(fields);

/** A product with `rows` times 1024 weights of 4 bytes (onnx.proto of ONNX has the numbers of the fields). */
export function largeModel(rows) {
  const weights = new Float32Array(rows * 1024).map((_, at) => ((at * 7) % 13) / 100 - 0.06);
  const value = (name, dims) =>
    message(
      field(1, name),
      field(
        2,
        field(
          1,
          message(field(1, 1), field(2, message(...dims.map((dim) => field(1, field(1, dim)))))),
        ),
      ),
    );
  const graph = message(
    field(
      1,
      message(
        field(1, 'x'),
        field(1, 'weights'),
        field(2, 'y'),
        field(3, 'product'),
        field(4, 'MatMul'),
      ),
    ),
    field(2, 'large'),
    field(
      5,
      message(
        field(1, rows),
        field(1, 1024),
        field(2, 1),
        field(8, 'weights'),
        field(9, Buffer.from(weights.buffer)),
      ),
    ),
    field(11, value('x', [1, rows])),
    field(12, value('y', [1, 1024])),
  );
  return message(field(1, 8), field(7, graph), field(8, message(field(1, ''), field(2, 17))));
}

// Writes the files that the checks read: models, quantized by the package in Node, and images.
//
//   node make_files.mjs DEMOS FOLDER

import { readFileSync, writeFileSync } from 'node:fs';
import { makeFiles } from './checks.js';

const [, , demos, folder] = process.argv;
const pixels = (name, count) =>
  readFileSync(`${demos}/data/${name}-images-idx3-ubyte`).subarray(16, 16 + count * 784);
const float = readFileSync(`${demos}/models/fashion_mnist.onnx`);
const images = Buffer.concat([pixels('calibration', 16), pixels('test', 8)]);
const files = await makeFiles(new Uint8Array(float), new Uint8Array(images));
for (const [name, bytes] of Object.entries(files)) writeFileSync(`${folder}/${name}`, bytes);

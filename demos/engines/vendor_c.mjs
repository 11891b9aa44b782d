// Writes the shipped Fashion-MNIST network, quantized to 8 bits, as C that calls a vendor's function for each
// convolution; compiles it with that function (vendor.c); and compares the outputs with those of a session,
// bit by bit.
//
//   node demos/engines/vendor_c.mjs             (after `npm run build`; needs the C compiler cc)

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { InferenceSession, generateC, loadModel, quantize } from 'requant';
import { feedsOf, imageSamples, readIdxImages, take } from 'requant/dataset';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const DEMOS = path.dirname(HERE);
const BUILD = path.join(DEMOS, '../build/vendor');
const read = async (kind) =>
  imageSamples(
    await readIdxImages(readFileSync(path.join(DEMOS, `data/${kind}-images-idx3-ubyte`))),
    {
      input: 'image',
    },
  );

const model = await loadModel(path.join(DEMOS, 'models/fashion_mnist.onnx'));
const quantized = await quantize(model, {
  calibration: feedsOf(take(await read('calibration'), 32)),
});
const requantize = 'float'; // the arithmetic of vendor.c
const code = await generateC(quantized, {
  name: 'clothes',
  shapes: { image: [1, 1, 28, 28] },
  requantize,
  calls: [
    {
      pattern: [{ op: 'QLinearConv', if: ({ inputValues }) => inputValues[0].dims.length === 4 }],
      function: 'vendor_conv',
    },
  ],
});
for (const { function: name, nodes } of code.calls)
  console.log(`${name} computes ${nodes.join(', ')}`);

mkdirSync(BUILD, { recursive: true });
writeFileSync(path.join(BUILD, 'clothes.c'), code.source);
writeFileSync(path.join(BUILD, 'clothes.h'), code.header);
copyFileSync(path.join(HERE, 'vendor.c'), path.join(BUILD, 'vendor.c'));
writeFileSync(
  path.join(BUILD, 'main.c'),
  `#include <stdio.h>
#include "clothes.h"

static float image[28 * 28], logits[10];
static _Alignas(16) unsigned char workspace[CLOTHES_WORKSPACE_BYTES];

int main(void) {
  while (fread(image, sizeof image, 1, stdin) == 1) {
    clothes_run(image, logits, workspace);
    fwrite(logits, sizeof logits, 1, stdout);
  }
  return 0;
}
`,
);
const flags = ['-std=c11', '-O2', '-Wall', '-Wextra', '-Werror', '-ffp-contract=off'];
const files = ['clothes.c', 'vendor.c', 'main.c'];
execFileSync('cc', [...flags, ...files, '-lm', '-o', 'clothes'], { cwd: BUILD, stdio: 'inherit' });

const session = await InferenceSession.create(quantized, { requantize });
let [same, count] = [0, 0];
for await (const { feeds } of take(await read('test'), 50)) {
  const { data } = feeds.image;
  const input = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const bytes = execFileSync(path.join(BUILD, 'clothes'), { input });
  const logits = new Float32Array(new Uint8Array(bytes).buffer);
  const expected = (await session.run(feeds)).logits.data;
  same += logits.every((value, i) => Object.is(value, expected[i])) ? 1 : 0;
  ++count;
}
console.log(`${same} of ${count} images give the same bits as a session`);
session.release();
quantized.dispose();
model.dispose();
if (same < count || code.calls.length === 0) process.exitCode = 1;

// ConvTranspose alone, in shapes of decoders: float, and 8 bits between Q/DQ pairs, in this engine and in
// onnxruntime-web (which computes the pairs' operator in float). All take turns in one run on one thread;
// medians.
//
//   node tests/bench/conv_transpose.mjs [--rounds N]

import { readArguments } from './arguments.mjs';
import { formatRatio, ratios, spread } from './networks.mjs';

const { InferenceSession, Tensor, parseModel } = await import('requant');
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const { rounds } = readArguments({ rounds: 15 });

const FORMS = [
  { what: '2x2, stride 2', channels: 128, outputs: 64, kernel: 2, stride: 2, pad: 0, size: 32 },
  { what: '4x4, stride 2', channels: 128, outputs: 64, kernel: 4, stride: 2, pad: 1, size: 32 },
  { what: '3x3, stride 2', channels: 64, outputs: 32, kernel: 3, stride: 2, pad: 1, size: 64 },
  { what: '3x3, stride 1', channels: 64, outputs: 64, kernel: 3, stride: 1, pad: 1, size: 32 },
  { what: '4x4, depthwise', channels: 64, outputs: 64, kernel: 4, stride: 2, pad: 1, size: 32 },
  { what: '4x4, to 3 channels', channels: 64, outputs: 3, kernel: 4, stride: 2, pad: 1, size: 64 },
];

const numbers = (length, make) => Array.from({ length }, (_, i) => make(i)).join(', ');

function textOf({ what, channels, outputs, kernel, stride, pad, size }, quantized) {
  const group = what.includes('depthwise') ? channels : 1;
  const dims = [channels, outputs / group, kernel, kernel];
  const length = dims.reduce((a, b) => a * b, 1);
  const attributes = `{strides = [${stride}, ${stride}], pads = [${pad}, ${pad}, ${pad}, ${pad}], group = ${group}}`;
  const integer = (i) => ((i * 7919) % 251) - 125;
  const each = group === 1 ? outputs : 1;
  const head = `graph "t" opset 13\ninput %x: float32[1, ${channels}, ${size}, ${size}]\n`;
  if (!quantized) {
    return `${head}const %w: float32[${dims.join(', ')}] = {${numbers(length, (i) => (integer(i) * 0.01).toFixed(4))}}
%y = ConvTranspose(%x, %w) ${attributes}\noutput %y`;
  }
  const list = group === 1 ? [each] : [];
  const step = (0.04 * Math.sqrt((channels / group) * kernel * kernel)).toFixed(5);
  return `${head}const %xs: float32[] = {0.03}
const %xz: uint8[] = {128}
const %wq: int8[${dims.join(', ')}] = {${numbers(length, integer)}}
const %ws: float32[${list}] = {${numbers(each, () => '0.01')}}
const %wz: int8[${list}] = {${numbers(each, () => 0)}}
const %ys: float32[] = {${step}}
%w = DequantizeLinear(%wq, %ws, %wz)${group === 1 ? ' {axis = 1}' : ''}
%xq = QuantizeLinear(%x, %xs, %xz)
%xd = DequantizeLinear(%xq, %xs, %xz)
%c = ConvTranspose(%xd, %w) ${attributes}
%cq = QuantizeLinear(%c, %ys, %xz)
%y = DequantizeLinear(%cq, %ys, %xz)\noutput %y`;
}

console.log('| form | float ms | int8 ms | ratio | ORT float : ours | ORT Q/DQ : int8 |');
console.log('| --- | --- | --- | --- | --- | --- |');
for (const form of FORMS) {
  const dims = [1, form.channels, form.size, form.size];
  const data = new Float32Array(dims.reduce((a, b) => a * b, 1)).map((_, i) => Math.sin(i));
  const runs = [];
  for (const quantized of [false, true]) {
    const model = await parseModel(textOf(form, quantized));
    const session = await InferenceSession.create(model);
    const theirs = await ort.InferenceSession.create(model.toOnnx());
    const own = { x: new Tensor('float32', data, dims) };
    const other = { x: new ort.Tensor('float32', data, dims) };
    runs.push(
      () => session.run(own),
      () => theirs.run(other),
    );
    model.dispose();
  }
  const times = runs.map(() => []);
  for (let round = -3; round < rounds; round++) {
    for (const [at, run] of runs.entries()) {
      const start = performance.now();
      await run();
      if (round >= 0) times[at].push(performance.now() - start);
    }
  }
  const [float, ortFloat, int8, ortInt8] = times;
  const ms = (list) => spread(list).median.toFixed(2);
  console.log(
    `| ${form.what}, ${form.channels} to ${form.outputs}, ${form.size}x${form.size} | ${ms(float)} | ${ms(int8)} | ${formatRatio(ratios(float, int8))} | ${formatRatio(ratios(ortFloat, float))} | ${formatRatio(ratios(ortInt8, int8))} |`,
  );
}
process.exit(0);
